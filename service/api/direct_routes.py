"""The way of predictions: the routes' own functions, called without FastAPI's matching and dependencies.

Of a prediction that takes a millisecond these are a good part. The routes stay registered, for OpenAPI and for whatever
is not matched here; each is a function of the model's name, the request and the state, and of nothing else.
"""

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import Refusal
from service.http.problems import refused

PREFIX = "/v1/models/{model}/"


class FastPath:
    """Wraps the application, plain ASGI: what is posted to a model's endpoint goes straight to its function."""

    def __init__(self, app: ASGIApp, routes: list[BaseRoute]) -> None:
        self.app = app
        self.routes = {
            route.path.removeprefix(PREFIX): route
            for route in routes
            if isinstance(route, APIRoute) and route.methods == {"POST"} and route.path.startswith(PREFIX)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        route = None
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            start, _, rest = scope["path"].partition("/v1/models/")
            model, _, endpoint = rest.partition("/")
            route = self.routes.get(endpoint) if model and not start else None
        if route is None:
            await self.app(scope, receive, send)
            return
        scope["route"], scope["path_params"] = route, {"model": model}
        request = Request(scope, receive)
        try:
            response = await route.endpoint(model, request, request.app.state.regard)
        except Refusal as refusal:
            response = refused(refusal, scope)
        await response(scope, receive, send)
