"""The outermost middleware: the request's id, its line in the log, its metrics and trace, and the last catch."""

import asyncio
import re
import secrets
import time
from collections.abc import Callable
from functools import cache

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.answer_deadline import CLIENT_CLOSED_REQUEST
from service.http.api_keys import HEALTH_PATHS
from service.http.exchange import Exchange, exchange_of
from service.http.problems import ErrorForm, fault, problem
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Tracer

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""An id that a client may choose for its request, for its logs and ours; nothing is found by it."""
METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"})
"""Methods that metrics tell apart."""
log = structlog.get_logger()


class RequestLog:
    """Gives each request an id, and records what became of it. Plain ASGI: it reads and buffers nothing."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        tracer: Tracer,
        draining: Callable[[], bool],
        error_form_of: Callable[[str, str], ErrorForm] = lambda method, path: problem,
    ) -> None:
        self.app = app
        self.error_form_of = error_form_of
        self.metrics = metrics
        self.tracer = tracer
        self.draining = draining
        # there are few of them, and to find one by its labels takes longer than to count
        self._received, self._sent = cache(metrics.request_bytes.labels), cache(metrics.answer_bytes.labels)
        self._requests, self._seconds = cache(metrics.requests.labels), cache(metrics.request_seconds.labels)
        self._model_requests = cache(metrics.model_requests.labels)
        self._model_seconds = cache(metrics.model_request_seconds.labels)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = exchange_of(scope)
        given = Headers(scope=scope).get("x-request-id", "")
        exchange.own_id = secrets.token_hex(16)
        exchange.id = given if REQUEST_ID.fullmatch(given) else exchange.own_id
        exchange.error_form = self.error_form_of(scope["method"], scope["path"])
        exchange.method = scope["method"] if scope["method"] in METHODS else "other"

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                self._add_headers(MutableHeaders(scope=message), exchange)
            else:
                exchange.bytes_sent += len(message.get("body", b""))
            await send(message)

        start = time.monotonic()
        with (
            self.metrics.in_flight.track_inprogress(),
            structlog.contextvars.bound_contextvars(request=exchange.id),
            self.tracer.request(scope, exchange),
        ):
            try:
                await self.app(scope, receive, send_on)
            except ClientDisconnect:  # in the middle of its body
                exchange.status = exchange.status or CLIENT_CLOSED_REQUEST
            except asyncio.CancelledError:  # by the server, whose time of grace is over
                if exchange.status:
                    self._record(scope, exchange, time.monotonic() - start)
                    raise
                answer = fault(scope, 503, "service: stops, and the time that it gives to answers is over")
                await answer(scope, receive, send_on)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # a panic of a tokenizer is no Exception
                log.exception("request failed")
                if not exchange.status:
                    answer = fault(scope, 500, "service: failed; the log has the request's id")
                    await answer(scope, receive, send_on)
            self._record(scope, exchange, time.monotonic() - start)

    def _add_headers(self, headers: MutableHeaders, exchange: Exchange) -> None:
        if self.draining():
            headers["Connection"] = "close"  # a client that keeps connections opens its next one elsewhere
        headers["X-Request-Id"] = exchange.id
        headers["X-Content-Type-Options"] = "nosniff"
        if exchange.key_name is not None:
            headers.setdefault("Cache-Control", "no-store")  # a cache between us and the clients knows no keys

    def _record(self, scope: Scope, exchange: Exchange, seconds: float) -> None:
        """Count the request and write its line in the log."""
        route = getattr(scope.get("route"), "path", "other")
        self._requests(route, exchange.method, str(exchange.status)).inc()
        self._seconds(route).observe(seconds)
        self._received(route).inc(exchange.bytes_received)
        self._sent(route).inc(exchange.bytes_sent)
        if exchange.model:
            self._model_requests(exchange.model, str(exchange.status)).inc()
            self._model_seconds(exchange.model).observe(seconds)
        if exchange.refused:
            self.metrics.refusals.labels(exchange.refused).inc()
        level = "debug" if route in HEALTH_PATHS or route == "/metrics" else "info"
        getattr(log, level)(
            "request",
            method=exchange.method,
            route=route,
            model=exchange.model or (scope.get("path_params", {}).get("model") if exchange.status != 404 else None),
            client=exchange.key_name,
            answer=exchange.answer_id,
            status=exchange.status,
            refused=exchange.refused,
            milliseconds=round(seconds * 1000, 2),
            received=exchange.bytes_received,
            sent=exchange.bytes_sent,
        )
