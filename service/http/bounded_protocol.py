"""HTTP connections with limits: what is refused or closed before there is a request that the application could refuse.

It is uvicorn's protocol on httptools, with the deadlines and limits that it lacks. It relies on internals of uvicorn
that our tests pin: the parser's callbacks, `cycle`, `pipeline`, and which side closes when.
"""

import asyncio
import math
import secrets
from collections.abc import Callable
from typing import Any, ClassVar, cast

import httptools
import structlog
from starlette.types import Scope
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from service.errors import Full, HeadersTooLarge, Malformed, Refusal, Timeout, TooLarge, TooLong
from service.http.answer_framing import AnswerTransport, bytes_of, close_if_not_continued, frame_for_http_1_0
from service.http.arrived_bytes import MOST_PIPELINED, ArrivedBytes, ParsedFlow
from service.http.exchange import exchange_of
from service.http.open_connections import OpenConnections
from service.http.problems import problem, reason
from service.http.request_head import HeadSize, check_head, head_of_framing
from service.http.socket_buffers import ReadingWatch, reset, unread_input
from service.settings import Settings
from service.telemetry.metrics import Metrics

log = structlog.get_logger()
FRAMING_BYTES = 1024  # of the head of a request: method, version, line ends and leading empty lines
DISCARD_IDLE_SECONDS = 5.0  # in which a client pauses while what it sends is discarded (nginx's `lingering_timeout`)
FULL_SECONDS = 1.0  # in which a connection that is one too many reads its refusal, whatever it sends meanwhile


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. A refusal is answered with a problem document and closes the connection."""

    settings: ClassVar[Settings]
    metrics: ClassVar[Metrics]
    open: ClassVar[OpenConnections]
    """All connections of this server."""

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
        self._deadline_timer: asyncio.TimerHandle | None = None  # of a head, or of bytes that are discarded
        self._running: RequestResponseCycle | None = None  # `cycle` is the newest, `pipeline` holds those between
        self._refused = self._half_closed = False
        self._discarded: int | None = None  # bytes, while the rest of an answered request is discarded
        self._in_head, self._framing_again = True, False
        self._unparsed = ArrivedBytes()
        # bytes received since the connection, the last message or the last piece of a body
        self._bytes_outside_body = 0
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
        self._set_deadline(self.settings.header_seconds, self._head_too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers, and count the connection as closed."""
        super().connection_lost(exc)
        self._tell_gone()
        self._clear_deadline()
        self._reading.stop()
        self._unset_keepalive_if_required()  # uvicorn leaves this timer if the connection was reset
        self.open.remove(self)

    def shutdown(self) -> None:
        """Close once what is in progress has been answered, and the answer has been read."""
        if self._discarded is None:
            super().shutdown()
        elif not self._half_closed:
            self._half_close()

    def give_way(self) -> bool:
        """Close for a new connection, unless a request has arrived or an answer is still to be written.

        A client whose bytes are being discarded may lose the answer that it was given early.
        """
        if self._discarded is not None:
            self.transport.abort()
        elif self.transport.get_write_buffer_size() or unread_input(self.transport):
            return False
        else:
            self.transport.close()
        return True

    def give_up(self) -> None:
        """Close at once."""
        self.transport.abort()

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
            if self._in_head and self._bytes_outside_body and self._deadline_timer is None:
                self._set_deadline(self.settings.header_seconds, self._head_too_slow)

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
        self._clear_deadline()
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

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

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
        self._clear_deadline()
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
            self._set_deadline(self.settings.header_seconds, self._head_too_slow)
        else:
            self.open.note_idle(self)

    def pause_writing(self) -> None:
        """Start to watch whether the client reads."""
        super().pause_writing()
        self._reading.watch()

    def resume_writing(self) -> None:
        """Stop watching the client, since it has read."""
        super().resume_writing()
        self._reading.stop()
        if not self._answering and self.transport.get_write_buffer_size():
            self._reading.watch()  # it may stop now that only a little is left

    def _abort_answer(self) -> None:
        """Close in the middle of an answer, and tell the application that the client is gone."""
        if self._running and not self._running.response_complete:
            self._tell_gone()
            reset(self.transport)

    def _tell_gone(self) -> None:
        """Tell the application, and whoever works on the answer, that its client is gone; uvicorn tells the newest."""
        if self._running and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
            exchange_of(cast(Scope, self._running.scope)).when_gone()

    # Closing. A connection that is closed before all its bytes are read is reset, and its client might lose the answer.

    def _close_after_answer(self) -> None:
        """Close once the answer is written; if more may come from the client, half-close and read on."""
        running = self._running
        if running and not running.response_complete and running.scope["http_version"] == "1.0":
            reset(self.transport)  # it failed, and a regular end would say that it was whole
        elif self._half_closed or self.transport.is_closing():
            return
        elif self._in_head and not (
            self._bytes_outside_body or self.pipeline or self._unparsed or unread_input(self.transport)
        ):
            self.transport.close()
        else:
            self._half_close()

    def _half_close(self, seconds: float = math.inf) -> None:
        """Say that no more is sent, and discard what the client still sends, for at most so many seconds."""
        self._half_closed = True
        self.pipeline.clear()
        self._unparsed.clear()
        self._answer_transport.half_close()
        self._discard(seconds)

    def _discard(self, seconds: float = math.inf) -> None:
        """Read on without use, within `seconds`, the bounds of nginx's `lingering_close`, and one of bytes."""
        self._discarded = self._discarded or 0
        self.flow.resume_reading()
        self.open.note_discarding(self)
        self._check_discarding(-1, self.loop.time() + min(seconds, self.settings.body_seconds))

    def _check_discarding(self, before: int, end: float) -> None:
        """Close if nothing has come since `before` bytes were discarded, or if the time is over."""
        discarded, left = self._discarded or 0, end - self.loop.time()
        if discarded == before or left <= 0:
            self.transport.close()
        else:
            self._set_deadline(min(DISCARD_IDLE_SECONDS, left), lambda: self._check_discarding(discarded, end))

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
        if self._discarded is not None:  # the refusal is of the rest of a request that was answered
            self._half_close()
            return
        self._clear_deadline()
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
    Bound.open = OpenConnections(settings.max_connections, metrics.gave_way)
    return Bound
