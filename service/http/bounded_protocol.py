"""HTTP connections with limits: what is refused or closed before there is a request that the application could refuse.

It is uvicorn's protocol on httptools, with the deadlines and limits that it lacks. It relies on internals of uvicorn
that our tests pin: the parser's callbacks, `cycle`, `pipeline`, and which side closes when.
"""

import asyncio
import contextlib
import secrets
import struct
import sys
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, ClassVar, cast

import httptools
import structlog
from starlette.types import Scope
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from service.errors import Full, HeadersTooLarge, Malformed, Refusal, Timeout, TooLong
from service.http.exchange import exchange_of
from service.http.problems import problem, reason
from service.settings import Settings
from service.telemetry.metrics import Metrics

if sys.platform == "linux":
    import fcntl
    import termios

log = structlog.get_logger()
FRAMING_BYTES = 1024  # of the head of a request: method, version, line ends and leading empty lines
HEADER_FRAMING_BYTES = 4  # of a header: ": " and the end of the line
LINGER_SECONDS = 1.0  # closing with unread bytes would reset the connection, and the client might lose the answer


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. A refusal is answered with a problem document and closes the connection."""

    settings: ClassVar[Settings]
    metrics: ClassVar[Metrics]
    open: ClassVar[Counter[int]]
    """The number of open connections by port."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.timeout_keep_alive = self.settings.keep_alive_seconds  # type: ignore[assignment] # uvicorn accepts any number of seconds
        self.ws_protocol_class = None  # WebSockets are not served, and would have no limits
        self._port: int | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None  # of a head, or of a body that is not read any more
        self._stall_timer: asyncio.TimerHandle | None = None
        self._refused = False
        self._in_head = True
        # bytes received since the connection, the last message or the last piece of a body
        self._bytes_outside_body = 0
        self._header_count = self._header_bytes = 0

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn's own signature
        """Wait for a head, or refuse the connection if there are too many."""
        super().connection_made(transport)
        self._port = (self.server and self.server[1]) or 0
        self.open[self._port] += 1
        if self.open[self._port] > self.settings.max_connections:
            self._refused = True
            self._write_refusal(
                Full(f"connections: at most {self.settings.max_connections}, given one more", seconds=1)
            )
            self.transport.close()
            return
        self._set_deadline(self.settings.header_seconds, self._head_too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers, and count the connection as closed."""
        super().connection_lost(exc)
        self._clear_deadline()
        self._stop_watching()
        self._unset_keepalive_if_required()  # uvicorn leaves this timer if the connection was reset
        if self._port is not None:
            self.open[self._port] -= 1

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and limit the bytes that are not part of a body."""
        if self._refused:
            return  # the answer was sent; the rest is read so that it arrives
        self._unset_keepalive_if_required()
        self._bytes_outside_body += len(data)
        try:
            with contextlib.suppress(httptools.HttpParserUpgrade):  # an upgrade may be ignored (RFC 9110, section 7.8)
                self.parser.feed_data(data)
            most = self.settings.max_url_bytes + self.settings.max_header_bytes + FRAMING_BYTES
            if self._bytes_outside_body > most:
                raise HeadersTooLarge(f"head: at most {most} bytes, given more")
        except httptools.HttpParserError as error:
            cause = error.__context__  # the error that one of our callbacks raised
            self._refuse(cause if isinstance(cause, Refusal) else Malformed("request: must be well-formed HTTP/1.1"))
        except Refusal as refusal:
            self._refuse(refusal)
        except Exception:
            log.exception("connection failed")
            self.transport.abort()
        else:
            if self._in_head and self._bytes_outside_body and self._deadline_timer is None:
                self._set_deadline(self.settings.header_seconds, self._head_too_slow)

    # Callbacks of the parser

    def on_url(self, url: bytes) -> None:
        """Refuse a URL that is too long, while it arrives."""
        super().on_url(url)
        if len(self.url) > self.settings.max_url_bytes:
            raise TooLong(f"URL: at most {self.settings.max_url_bytes} bytes, given more")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Refuse too many or too long headers while they arrive; drop those that follow a body."""
        self._header_count += 1
        self._header_bytes += len(name) + len(value) + HEADER_FRAMING_BYTES
        if self._header_count > self.settings.max_headers:
            raise HeadersTooLarge(f"headers: at most {self.settings.max_headers}, given more")
        if self._header_bytes > self.settings.max_header_bytes:
            raise HeadersTooLarge(f"headers: at most {self.settings.max_header_bytes} bytes, given more")
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request."""
        self._clear_deadline()
        self._unset_keepalive_if_required()
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts != 1:
            raise Malformed(f"Host: must be given once, given {hosts} times")
        super().on_headers_complete()
        self._in_head = False

    def on_body(self, body: bytes) -> None:
        """Count the pieces of the body. The application refuses too many, but gets some of them joined."""
        self._bytes_outside_body = 0
        exchange_of(cast(Scope, self.scope)).body_pieces += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next head."""
        super().on_message_complete()
        self._clear_deadline()
        self._in_head = True
        self._bytes_outside_body = self._header_count = self._header_bytes = 0
        if self.cycle.response_complete:  # the answer came before the whole body: the connection is idle only now
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    # Writing

    def on_response_complete(self) -> None:
        """Limit the time for what is left: bytes that the client has not read, and a body that is not read any more."""
        super().on_response_complete()
        self._stop_watching()
        if self.transport.get_write_buffer_size():
            self._watch_reading()
        if self.cycle.response_complete and not self._in_head and not self.transport.is_closing():
            self._set_deadline(self.settings.body_seconds, self.transport.close)

    def pause_writing(self) -> None:
        """Start to watch whether the client reads."""
        super().pause_writing()
        self._stop_watching()
        self._watch_reading()

    def resume_writing(self) -> None:
        """Stop watching the client, since it has read."""
        super().resume_writing()
        self._stop_watching()

    def _watch_reading(self) -> None:
        self._stall_timer = self.loop.call_later(self.settings.write_seconds, self._check_reading, self._unread_bytes())

    def _stop_watching(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _check_reading(self, before: int) -> None:
        """Abort if the client has read too slowly since `before` bytes were unread; closing would wait for it."""
        self._stall_timer = None
        least = self.settings.write_seconds * self.settings.body_bytes_a_second
        if not self.transport.get_write_buffer_size():
            return
        if before - self._unread_bytes() < least:
            log.info("connection closed", reason="the client does not read")
            self.transport.abort()
        else:
            self._watch_reading()

    def _unread_bytes(self) -> int:
        """Return the bytes that the client has not acknowledged. The kernel alone may hold minutes of them."""
        unread: int = self.transport.get_write_buffer_size()
        if sys.platform == "linux":
            handle = self.transport.get_extra_info("socket").fileno()
            unread += struct.unpack("i", fcntl.ioctl(handle, termios.TIOCOUTQ, bytes(4)))[0]
        return unread

    # Refusing

    def _set_deadline(self, seconds: float, action: Callable[[], None]) -> None:
        self._clear_deadline()
        self._deadline_timer = self.loop.call_later(seconds, action)

    def _clear_deadline(self) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _head_too_slow(self) -> None:
        if self._answering:  # an earlier request, whose answer may take longer than a head
            self._set_deadline(self.settings.header_seconds, self._head_too_slow)
        elif self._bytes_outside_body:
            self._refuse(Timeout(f"head: at most {self.settings.header_seconds:g} seconds, given up"))
        else:
            self.transport.close()  # no request began, so none is answered

    def _refuse(self, refusal: Refusal) -> None:
        """Answer and close. If an earlier request is still being answered, close after its answer instead."""
        self._refused = True
        self._clear_deadline()
        if self._answering and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return
        if self._answering:  # the refusal is of the body of this request
            if self.pipeline or self.cycle.response_started:
                self.transport.abort()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._write_refusal(refusal)
        self.transport.write_eof()
        self._set_deadline(LINGER_SECONDS, self.transport.abort)

    def _write_refusal(self, refusal: Refusal) -> None:
        request = secrets.token_hex(16)
        refusal.headers |= {"Connection": "close", "X-Request-Id": request, "X-Content-Type-Options": "nosniff"}
        answer = problem(refusal.status, refusal.detail, headers=refusal.headers)
        self.metrics.refusals.labels(reason(refusal)).inc()
        status = HTTPStatus(refusal.status)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
        lines += [name + b": " + value for name, value in answer.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        log.info("connection refused", request=request, status=status.value, reason=refusal.detail)


def bounded_protocol(settings: Settings, metrics: Metrics) -> type[BoundedHttpProtocol]:
    """Return the protocol class of a server with these settings."""

    class Bound(BoundedHttpProtocol):
        """One connection of this server."""

    Bound.settings, Bound.metrics, Bound.open = settings, metrics, Counter()
    return Bound
