"""The outermost layers: request ids, the access log, request metrics, the body's limits, and the last catch; then the
door, where hosts, API keys, paths and announced sizes are looked at before anything is read.
"""

import asyncio
import re
import secrets
import time

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.batching.admission import Budget
from service.errors import Malformed, NotFound, Refusal, Timeout, TooLarge
from service.http.api_keys import OPEN, Keys
from service.http.problems import problem, refused
from service.settings import Settings
from service.store.stored_request import CLIENTS_ID
from service.telemetry import tracing
from service.telemetry.metrics import Metrics

log = structlog.get_logger()
HOST = re.compile(r"([A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
PATH = re.compile(r"(/(?!\.{1,2}(/|\Z))[A-Za-z0-9._~@:+-]+)*/?")  # every path that is served is of these
FIRST_SECONDS = 5.0  # in which a body may be slower than the least rate
HEADERS = ["Authorization", "Content-Type", "X-API-Key", "X-Request-Id"]  # which pages of other origins may send


class RequestLog:
    """Wraps the application, plain ASGI: nothing is read or buffered here."""

    def __init__(self, app: ASGIApp, metrics: Metrics, settings: Settings, keys: Keys) -> None:
        self.app: ASGIApp = Gate(app, settings, keys)
        if origins := listed(settings.cors_origins):  # outside of the door: a preflight carries no key
            self.app = CORSMiddleware(
                self.app,
                allow_origins=origins,
                allow_methods=["GET", "POST"],
                allow_headers=HEADERS,
                expose_headers=["X-Request-Id", "Retry-After"],
            )
        self.metrics = metrics
        self.settings = settings
        self.bodies = Budget("bodies", settings.queue_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, self.settings, self.bodies)
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
            except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # a panic of a tokenizer is no Exception
                log.exception("request failed")
                if not exchange.status:
                    answer = problem(500, "service: failed; the log has the request's id")
                    await answer(scope, exchange.receive, exchange.send)
            finally:
                self.bodies.give_back(exchange.received)
            seconds = time.monotonic() - start
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.requests.labels(route, exchange.method, str(exchange.status)).inc()
            self.metrics.request_seconds.labels(route).observe(seconds)
            if why := scope["state"].get("refused"):
                self.metrics.refusals.labels(why).inc()
            level = "debug" if route.startswith("/health") or route == "/metrics" else "info"
            getattr(log, level)(
                "request",
                method=exchange.method,
                route=route,
                model=scope.get("path_params", {}).get("model") if exchange.status != 404 else None,
                client=scope["state"].get("client"),
                status=exchange.status,
                refused=why,
                milliseconds=round(seconds * 1000, 2),
                received=exchange.received,
                sent=exchange.sent,
            )


class Exchange:
    """One request and its answer, as they pass."""

    METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"})

    def __init__(self, scope: Scope, receive: Receive, send: Send, settings: Settings, bodies: Budget) -> None:
        given = Headers(scope=scope).get("x-request-id", "")
        self.id = given if CLIENTS_ID.fullmatch(given) else secrets.token_hex(16)
        self.method = scope["method"] if scope["method"] in self.METHODS else "other"
        self.status = 0
        self.received = self.sent = 0
        self._app = scope.get("app")
        self._receive, self._send, self._settings, self._bodies = receive, send, settings, bodies
        self._start = asyncio.get_running_loop().time()
        self._body_read = asyncio.Event()
        self._state = scope.setdefault("state", {})  # the same one that the socket's protocol counts pieces in
        self._state |= {"id": self.id, "body_read": self._body_read}

    async def receive(self) -> Message:
        """Pass on what the client sent.

        Raises TooLarge once the body passes a limit, Busy once all bodies do, and Timeout when it takes too long.
        """
        if self._body_read.is_set():
            return await self._receive()  # when the client leaves
        try:
            async with asyncio.timeout_at(self._start + self._seconds()):
                message = await self._receive()
        except TimeoutError as error:
            raise Timeout(self._too_slow()) from error
        if message["type"] == "http.request":
            if body := message.get("body"):
                self._bodies.take(len(body))
                self.received += len(body)
            if self.received > self._settings.max_body_bytes:
                raise TooLarge(f"body: at most {self._settings.max_body_bytes} bytes, given more")
            if self._state.get("pieces", 0) > self._settings.max_body_pieces:
                raise TooLarge(f"body: at most {self._settings.max_body_pieces} pieces, given more")
            if not message.get("more_body"):
                self._body_read.set()
        return message

    def _seconds(self) -> float:
        """Return how long the body may take until the next of it arrives."""
        return min(self._settings.body_seconds, FIRST_SECONDS + self.received / self._settings.body_bytes_a_second)

    def _too_slow(self) -> str:
        return (
            f"body: at most {self._settings.body_seconds:g} seconds and at least {self._settings.body_bytes_a_second} "
            f"bytes a second, given up after {self._seconds():.1f} seconds and {self.received} bytes"
        )

    async def send(self, message: Message) -> None:
        """Pass on the answer, with the request's id and without any licence to guess its type."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            if self._app and self._app.state.regard.draining:
                headers["Connection"] = "close"  # whoever keeps connections makes the next one elsewhere
            headers["X-Request-Id"] = self.id
            headers["X-Content-Type-Options"] = "nosniff"
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)


class Gate:
    """Refuses by the head of a request alone: its host, its key, its path and the size that it announces."""

    def __init__(self, app: ASGIApp, settings: Settings, keys: Keys) -> None:
        self.app = app
        self.keys = keys
        self.hosts = {host.lower() for host in listed(settings.allowed_hosts)}
        self.limit = settings.max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            headers = Headers(scope=scope)
            self._check_host(scope["path"], headers.get("host", ""))
            client = scope["state"]["client"] = self.keys.admit(scope["path"], headers)
            _check_path(scope["path"])
            self._check_size(headers.get("content-length", ""))
            permit = self.keys.permit(client)
        except Refusal as refusal:
            await refused(refusal, scope)(scope, receive, send)
            return
        with permit:
            await self.app(scope, receive, send)

    def _check_host(self, path: str, host: str) -> None:
        """Refuse a host that is none, or another; whoever asks for health knows an address only."""
        match = HOST.fullmatch(host)
        if match is None:
            raise Malformed("Host: must be a host name or address, given another")
        if self.hosts and match[1].lower() not in self.hosts and path not in OPEN:
            raise Malformed("Host: must be one that this service answers to, given another")

    def _check_size(self, announced: str) -> None:
        if announced.isdecimal() and int(announced) > self.limit:
            raise TooLarge(f"body: at most {self.limit} bytes, given {int(announced)}")


def _check_path(path: str) -> None:
    """Refuse a path that no route has, before any route or dictionary sees it."""
    if not PATH.fullmatch(path):
        raise NotFound("path: no such endpoint; see /docs")


def listed(text: str | None) -> list[str]:
    """Return what a setting lists, comma separated."""
    return [one.strip() for one in (text or "").split(",") if one.strip()]
