"""HTTP connections with limits: what is refused or closed before there is a request that the application could refuse.

It is uvicorn's protocol on httptools, with the deadlines and limits that it lacks. It relies on internals of uvicorn
that our tests pin: the parser's callbacks, `cycle`, `pipeline`, and which side closes when.
"""

import asyncio
import secrets
from typing import Any, ClassVar, cast

import httptools
import structlog
from starlette.types import Scope
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from service.errors import Full, HeadersTooLarge, Malformed, Refusal, Timeout, TooLarge, TooLong
from service.http.answer_framing import AnswerTransport, bytes_of, close_if_not_continued, frame_for_http_1_0
from service.http.arrived_bytes import MOST_PIPELINED, ParsedFlow
from service.http.exchange import exchange_of
from service.http.lingering_protocol import LingeringProtocol
from service.http.open_connections import OpenConnections
from service.http.paced_starts import PacedStarts
from service.http.problems import problem, reason
from service.http.request_head import HeadSize, check_head, head_of_framing
from service.http.socket_buffers import ReadingWatch
from service.settings import Settings
from service.telemetry.metrics import Metrics

log = structlog.get_logger()
FRAMING_BYTES = 1024  # of the head of a request: method, version, line ends and leading empty lines
FULL_SECONDS = 1.0  # in which a connection that is one too many reads its refusal, whatever it sends meanwhile


class BoundedHttpProtocol(LingeringProtocol):
    """One connection. A refusal is answered with a problem document and closes the connection."""

    metrics: ClassVar[Metrics]

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
        self._refused = self._framing_again = False
        self._head = HeadSize(self.settings)

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn's own signature
        """Wait for a head, or refuse the connection if there are too many and none gives way."""
        super().connection_made(transport)
        self.flow = ParsedFlow(transport, self._unparsed)
        self._reading = ReadingWatch(transport, self.settings)
        self._answer_transport = AnswerTransport(transport, self.loop, self._close_after_answer)
        if not self.open.admit(self):
            self._refused = True
            self._write_refusal(Full(f"connections: at most {self.open.most}, given one more", seconds=1))
            self.metrics.requests.labels("other", "other", "503").inc()  # or no rule of errors sees a port that is full
            self._half_close(FULL_SECONDS)
            return
        self.open.note_idle(self)
        self._deadline.set(self.settings.header_seconds, self._head_too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers, and count the connection as closed."""
        super().connection_lost(exc)
        self._tell_gone()
        self._deadline.clear()
        self._reading.stop()
        self._unset_keepalive_if_required()  # uvicorn leaves this timer if the connection was reset
        self.open.remove(self)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and limit the bytes that are not part of a body."""
        if self._discarded is not None:
            self._discarded += len(data)
            if self._discarded > self.settings.discard_bytes:
                self.transport.abort()
                return
        if self._refused or self._half_closed:
            return  # the answer was sent; the rest is read so that it arrives
        self._unset_keepalive_if_required()
        if self._discarded is None:
            self.open.note_busy(self)
        self._unparsed.add(data)
        self._parse()

    def _parse(self) -> None:
        """Parse what has arrived. While many requests wait for their turn, the rest waits too, and nothing is read."""
        while self._unparsed and not (self._refused or self._half_closed or self.transport.is_closing()):
            if len(self.pipeline) >= MOST_PIPELINED:
                self.flow.pause_reading()
                return
            self._parse_piece(self._unparsed.take())

    def _parse_piece(self, data: bytes) -> None:
        self._bytes_outside_body += len(data)
        try:
            self._feed(data)
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
            if self._in_head and self._bytes_outside_body and not self._deadline.is_set:
                self._deadline.set(self.settings.header_seconds, self._head_too_slow)

    def _feed(self, data: bytes) -> None:
        """Feed the parser, which stops after a head that asks for an upgrade, and skips its body.

        An upgrade may be ignored (RFC 9110, section 7.8): a new parser, told how the body is framed, reads on.
        """
        rest = memoryview(data)
        while True:
            try:
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]
            head = head_of_framing(self.headers, keep_alive=self.cycle.keep_alive)
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self._framing_again = True
            self.parser.feed_data(head)
            self._framing_again = False

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        """Note that a head has begun."""
        if self._framing_again:
            return
        super().on_message_begin()
        self.open.note_busy(self)  # what is discarded may end in the same piece
        # 0 if the head is in one piece with the request before it
        self._bytes_outside_body = self._bytes_outside_body or 1

    def on_url(self, url: bytes) -> None:
        """Refuse a URL that is too long, while it arrives."""
        if self._framing_again:
            return
        super().on_url(url)
        if len(self.url) > self.settings.max_url_bytes:
            raise TooLong(f"URL: at most {self.settings.max_url_bytes} bytes, given more")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Refuse too many or too long headers while they arrive; drop those that follow a body."""
        if self._framing_again:
            return
        self._head.add(name, value)
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request."""
        if self._framing_again:
            return
        self._deadline.clear()
        self._unset_keepalive_if_required()
        version = self.parser.get_http_version()
        check_head(version, self.parser.get_method(), self.headers)
        super().on_headers_complete()
        self._in_head = False
        self.cycle.transport = cast(asyncio.Transport, self._answer_transport)
        exchange_of(cast(Scope, self.scope)).abort = self._abort_answer
        if version == "1.0":
            frame_for_http_1_0(self.cycle, keep_alive=self.parser.should_keep_alive())
        elif self.cycle.waiting_for_100_continue:
            close_if_not_continued(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Count the pieces of the body. The application refuses too many, but gets some of them joined."""
        self._bytes_outside_body = 0
        exchange = exchange_of(cast(Scope, self.scope))
        exchange.body_pieces += 1
        if self._discarded is not None and exchange.body_pieces > self.settings.max_body_pieces:
            raise TooLarge(f"body: at most {self.settings.max_body_pieces} pieces, given more")
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next head."""
        if self.parser.should_upgrade():
            return  # `_feed` reads on
        super().on_message_complete()
        exchange_of(cast(Scope, self.scope)).body_arrived = True
        self._deadline.clear()
        self._in_head = True
        self._bytes_outside_body = 0
        self._head = HeadSize(self.settings)
        if self.cycle.response_complete:  # the answer came before the whole body: the connection is idle only now
            self._discarded = None
            self._unset_keepalive_if_required()
            seconds = self.timeout_keep_alive
            self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)
            self.open.note_idle(self)

    # Writing

    def on_response_complete(self) -> None:
        """Limit the time for what is left: bytes that the client has not read, and those that it still sends."""
        self._answer_transport.flush()
        super().on_response_complete()
        self._parse()
        self.flow.resume_reading()
        self._reading.stop()
        if self.transport.get_write_buffer_size():
            self._reading.watch()
        if self._half_closed:
            self._unset_keepalive_if_required()
        if self._half_closed or self._answering or self.transport.is_closing():
            return
        if not self._in_head:
            self._unset_keepalive_if_required()
            self._discard()
        elif self._bytes_outside_body:  # a head has begun, and was perhaps not read on meanwhile
            self._unset_keepalive_if_required()
            self._deadline.set(self.settings.header_seconds, self._head_too_slow)
        else:
            self.open.note_idle(self)

    # Refusing

    def _head_too_slow(self) -> None:
        if self._answering:  # an earlier request, whose answer may take longer than a head
            self._deadline.set(self.settings.header_seconds, self._head_too_slow)
        elif self._bytes_outside_body:
            self._refuse(Timeout(f"head: at most {self.settings.header_seconds:g} seconds, given up"))
        else:
            self.transport.close()  # no request began, so none is answered

    def _refuse(self, refusal: Refusal) -> None:
        """Answer and close. If an earlier request is still being answered, close after its answer instead."""
        self._refused = True
        if self._discarded is not None:  # the refusal is of the rest of a request that was answered
            self._half_close()
            return
        self._deadline.clear()
        if self.pipeline and self.cycle.more_body:  # it is of a request that waits for its turn
            self.pipeline.popleft()
            self.cycle = self.pipeline[0][0] if self.pipeline else cast(RequestResponseCycle, self._running)
        if self._answering and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return
        if self._answering:  # the refusal is of the body of this request
            if self.cycle.response_started:
                self.transport.abort()
                return
            self._tell_gone()
        self._write_refusal(refusal)
        self._half_close()

    def _write_refusal(self, refusal: Refusal) -> None:
        request = secrets.token_hex(16)
        refusal.headers |= {"Connection": "close", "X-Request-Id": request, "X-Content-Type-Options": "nosniff"}
        answer = problem(refusal.status, refusal.detail, headers=refusal.headers)
        self.metrics.refusals.labels(reason(refusal)).inc()
        self._answer_transport.write(bytes_of(answer))  # behind a 100 (Continue), which it may hold
        log.info("connection refused", request=request, status=int(refusal.status), reason=refusal.detail)


def bounded_protocol(settings: Settings, metrics: Metrics) -> type[BoundedHttpProtocol]:
    """Return the protocol class of a server with these settings."""

    class Bound(BoundedHttpProtocol):
        """One connection of this server."""

    Bound.settings, Bound.metrics = settings, metrics
    Bound.open, Bound.starts = OpenConnections(settings.max_connections, metrics.gave_way), PacedStarts()
    return Bound
