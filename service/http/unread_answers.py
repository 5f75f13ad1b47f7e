"""Answers that clients have not taken yet: their bytes have a bound, and whoever reads most slowly gives way."""

from collections import OrderedDict
from collections.abc import Awaitable

import structlog
from prometheus_client import Counter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.exchange import Exchange, exchange_of

log = structlog.get_logger()
SLICE_BYTES = 1 << 16
"""The bytes of an answer that are given to the connection at a time. It pauses once more than 64 KiB wait in it, so
that at most two slices do."""


class UnreadAnswers:
    """The bytes of answers and of streamed events that are made and that clients have not taken yet.

    If they pass the limit, the answer of which nothing was taken for longest gives way: its connection is aborted. So
    slow readers are cut off only when there is no room, and before those that read faster. A single answer may pass the
    limit; other limits bound it.
    """

    def __init__(self, limit: int, gave_way: Counter) -> None:
        self.held = 0
        """The bytes of all answers that are held."""
        self._limit = limit
        self._gave_way = gave_way
        self._unread: OrderedDict[Exchange, int] = OrderedDict()
        """The bytes of each answer; first those of which nothing was taken for longest."""

    def __contains__(self, exchange: Exchange) -> bool:
        """Return whether bytes of an answer are held."""
        return exchange in self._unread

    def hold(self, exchange: Exchange, count: int) -> None:
        """Reserve more bytes of an answer. One that gives way, which may be this one, holds none."""
        self._unread[exchange] = self._unread.get(exchange, 0) + count
        self.held += count
        while self.held > self._limit and len(self._unread) > 1:
            slowest = next(iter(self._unread))
            self.forget(slowest)
            self._gave_way.inc()
            log.info("connection closed", reason="others read their answers faster", request=slowest.id)
            slowest.abort()

    def note_taken(self, exchange: Exchange) -> None:
        """The client took a part of its answer; all of it is held until the client has taken the last."""
        if exchange in self._unread:
            self._unread.move_to_end(exchange)

    def release(self, exchange: Exchange, count: int) -> None:
        """Release bytes of an answer, since the client took them."""
        left = self._unread.get(exchange, 0)
        if count >= left:
            self.forget(exchange)
        else:
            self._unread[exchange] = left - count
            self.held -= count
            self._unread.move_to_end(exchange)

    def forget(self, exchange: Exchange) -> None:
        """Hold no bytes of an answer any longer."""
        self.held -= self._unread.pop(exchange, 0)


class SlicedAnswers:
    """Sends long bodies in slices, so that the server waits for the client after each. Plain ASGI.

    Given a body at once, uvicorn would put all of it into the buffer of the connection, and wait for nobody. A body is
    held in `unread` until its last slice was taken, since its memory is.
    """

    def __init__(self, app: ASGIApp, unread: UnreadAnswers) -> None:
        self.app = app
        self.unread = unread

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] == "HEAD":  # the server leaves out the body of an answer to HEAD
            await self.app(scope, receive, send)
            return

        def send_on(message: Message) -> Awaitable[None]:
            if len(message.get("body", b"")) <= SLICE_BYTES:
                return send(message)
            return self._send_slices(exchange_of(scope), message, send)

        await self.app(scope, receive, send_on)

    async def _send_slices(self, exchange: Exchange, message: Message, send: Send) -> None:
        body = message["body"]
        self.unread.hold(exchange, len(body))
        try:
            for end in range(SLICE_BYTES, len(body) + SLICE_BYTES, SLICE_BYTES):
                if exchange not in self.unread:
                    return  # it gave way
                # a copy: a view in the buffer of the connection would keep the whole body
                one = bytes(body[end - SLICE_BYTES : end])
                await send({**message, "body": one, "more_body": message.get("more_body", False) or end < len(body)})
                self.unread.note_taken(exchange)
        finally:
            self.unread.release(exchange, len(body))
