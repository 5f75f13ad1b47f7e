"""The outermost layer: request ids, the access log, request metrics, the body's limit, and the last catch."""

import asyncio
import re
import time
import uuid

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service import tracing
from service.batch import Budget
from service.errors import TooLarge, problem
from service.metrics import Metrics

log = structlog.get_logger()
CLIENTS_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Edge:
    """Wraps the application, plain ASGI: nothing is read or buffered here."""

    def __init__(self, app: ASGIApp, metrics: Metrics, max_body_bytes: int, queue_body_bytes: int) -> None:
        self.app = app
        self.metrics = metrics
        self.limit = max_body_bytes
        self.bodies = Budget("bodies", queue_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, self.limit, self.bodies)
        start = time.monotonic()
        with (
            self.metrics.in_flight.track_inprogress(),
            structlog.contextvars.bound_contextvars(request=exchange.id),
            tracing.request(scope, exchange),
        ):
            try:
                await self.app(scope, exchange.receive, exchange.send)
            except ClientDisconnect:  # in the middle of its body
                exchange.status = exchange.status or 499
            except Exception:
                log.exception("request failed")
                if not exchange.status:
                    refused = problem(500, "service: failed; the log has the request's id")
                    await refused(scope, exchange.receive, exchange.send)
            finally:
                self.bodies.give_back(exchange.received)
            seconds = time.monotonic() - start
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(route, exchange.method, str(exchange.status)).inc()
            self.metrics.request_seconds.labels(route).observe(seconds)
            level = "debug" if route.startswith("/health") or route == "/metrics" else "info"
            getattr(log, level)(
                "request",
                method=exchange.method,
                route=route,
                model=scope.get("path_params", {}).get("model") if exchange.status != 404 else None,
                status=exchange.status,
                milliseconds=round(seconds * 1000, 2),
                received=exchange.received,
                sent=exchange.sent,
            )


class Exchange:
    """One request and its answer, as they pass."""

    METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"})

    def __init__(self, scope: Scope, receive: Receive, send: Send, limit: int, bodies: Budget) -> None:
        given = Headers(scope=scope).get("x-request-id", "")
        self.id = given if CLIENTS_ID.fullmatch(given) else uuid.uuid4().hex
        self.method = scope["method"] if scope["method"] in self.METHODS else "other"
        self.status = 0
        self.received = self.sent = 0
        self._app = scope["app"]
        self._receive, self._send, self._limit, self._bodies = receive, send, limit, bodies
        self._body_read = asyncio.Event()
        scope["state"] = {**scope.get("state", {}), "id": self.id, "body_read": self._body_read}

    async def receive(self) -> Message:
        """Pass on what the client sent. Raises TooLarge once the body passes the limit, Busy once all bodies do."""
        message = await self._receive()
        if message["type"] == "http.request":
            if body := message.get("body"):
                self._bodies.take(len(body))
                self.received += len(body)
            if self.received > self._limit:
                raise TooLarge(f"body: at most {self._limit} bytes, given more")
            if not message.get("more_body"):
                self._body_read.set()
        return message

    async def send(self, message: Message) -> None:
        """Pass on the answer, with the request's id and without any licence to guess its type."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            if self._app.state.regard.draining:
                headers["Connection"] = "close"  # whoever keeps connections makes the next one elsewhere
            headers["X-Request-Id"] = self.id
            headers["X-Content-Type-Options"] = "nosniff"
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)
