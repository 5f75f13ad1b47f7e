"""The fast path of predictions: calls the endpoints without FastAPI's matching and dependencies.

These take a good part of a prediction of one millisecond. The routes stay registered, for OpenAPI and for requests that
are not matched here; each endpoint is a function of the model's name, the request and the state only.
"""

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import Refusal
from service.http.problems import refused

MODELS = "/v1/models/"
PREFIX = MODELS + "{model}/"


class FastPath:
    """Passes a POST to a model's endpoint directly to its function. Plain ASGI."""

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
            start, _, rest = scope["path"].partition(MODELS)
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
