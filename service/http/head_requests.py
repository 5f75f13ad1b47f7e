"""HEAD is answered wherever GET is: with the same status and headers, and no body (RFC 9110, section 9.3.2)."""

from starlette.types import ASGIApp, Receive, Scope, Send


class HeadRequests:
    """Passes HEAD on as GET. Plain ASGI: the server leaves out the body, because its own scope still says HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        get = {**scope, "method": "GET"}
        try:
            await self.app(get, receive, send)
        finally:
            scope.update(get, method="HEAD")  # the layers around this one see the route
