"""How a connection ends, so that its client can read the answer.

A connection that is closed before all its bytes are read is reset, and its client might lose the answer. So it is
half-closed first, and what the client still sends is read and discarded, within limits.
"""

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, cast

from starlette.types import Scope
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from service.http.answer_framing import AnswerTransport
from service.http.api_keys import HEALTH_PATHS
from service.http.arrived_bytes import ArrivedBytes, ParsedFlow
from service.http.exchange import exchange_of
from service.http.open_connections import OpenConnections
from service.http.paced_starts import PacedStarts
from service.http.socket_buffers import ReadingWatch, reset, unread_input
from service.settings import Settings

DISCARD_IDLE_SECONDS = 5.0  # in which a client pauses while what it sends is discarded (nginx's `lingering_timeout`)


class Deadline:
    """One timer: of a head, or of bytes that are discarded."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        """True if an action waits for its time."""
        return self._timer is not None

    def set(self, seconds: float, action: Callable[[], None]) -> None:
        """Call an action later, in place of another that was to be called."""
        self.clear()
        self._timer = self._loop.call_later(seconds, action)

    def clear(self) -> None:
        """Call nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LingeringProtocol(HttpToolsProtocol):
    """One connection, as far as its end goes."""

    settings: ClassVar[Settings]
    open: ClassVar[OpenConnections]
    """All connections of this server."""
    starts: ClassVar[PacedStarts]
    """When its requests begin."""
    flow: ParsedFlow
    _reading: ReadingWatch
    _answer_transport: AnswerTransport

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._deadline = Deadline(self.loop)
        self._running: RequestResponseCycle | None = None  # `cycle` is the newest, `pipeline` holds those between
        self._half_closed = False
        self._discarded: int | None = None  # bytes, while the rest of an answered request is discarded
        self._in_head = True
        self._unparsed = ArrivedBytes()
        # bytes received since the connection, the last message or the last piece of a body
        self._bytes_outside_body = 0

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        if cycle.scope["path"] in HEALTH_PATHS or self.starts.may_begin():
            super()._start_asgi_task(cycle, app)
        else:
            self.starts.add(partial(self._start_later, cycle, app))

    def _start_later(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if not cycle.disconnected:
            super()._start_asgi_task(cycle, app)

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
        """Say that no more is sent, and discard what the client still sends, for at most `seconds`."""
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
            self._deadline.set(min(DISCARD_IDLE_SECONDS, left), lambda: self._check_discarding(discarded, end))
