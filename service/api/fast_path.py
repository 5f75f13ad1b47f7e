"""The fast path of predictions: calls the endpoints without FastAPI's matching and dependencies.

These take a good part of a prediction of one millisecond. The routes stay registered, for OpenAPI and for requests that
are not matched here; each endpoint is a function of the request, the state and, if its path has one, the model's name.
"""

from collections.abc import Sequence

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import Refusal
from service.http.problems import refused

MODEL = "{model}"


class FastPath:
    """Passes a POST to an endpoint directly to its function. Plain ASGI.

    It knows the routes whose path has no parameter but the model.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self.app = app
        self.routes = {
            tuple(route.path.split("/")): route
            for route in routes
            if isinstance(route, APIRoute) and route.methods == {"POST"} and set(route.param_convertors) <= {"model"}
        }
        self._places = sorted({path.index(MODEL) for path in self.routes if MODEL in path})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope.get("root_path"):
            await self.app(scope, receive, send)
            return
        route, parameters = self._find(scope["path"].split("/"))
        if route is None:
            await self.app(scope, receive, send)
            return
        scope["route"], scope["path_params"] = route, parameters
        request = Request(scope, receive)
        try:
            response = await route.endpoint(**parameters, request=request, state=request.app.state.regard)
        except Refusal as refusal:
            response = refused(refusal, scope)
        await response(scope, receive, send)

    def _find(self, path: list[str]) -> tuple[APIRoute | None, dict[str, str]]:
        """Return the route of a path in parts, and what its parameters are."""
        for place in self._places:
            if len(path) > place and path[place]:
                route = self.routes.get((*path[:place], MODEL, *path[place + 1 :]))
                if route:
                    return route, {"model": path[place]}
        return self.routes.get(tuple(path)), {}
