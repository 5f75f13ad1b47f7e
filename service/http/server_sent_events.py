"""Server-sent events (HTML standard, section 9.2)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import orjson
import structlog
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.errors import Refusal, TooSlow
from service.http.exchange import Exchange
from service.http.problems import reason
from service.http.unread_answers import UnreadAnswers

log = structlog.get_logger()
SEPARATORS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))
"""U+0085, U+2028 and U+2029: clients that split lines as Python does, such as httpx, end a line there, too."""


class EventStream(StreamingResponse):
    """A stream of events. A task produces them, and does not wait for the client to read them.

    `produce` is given a function that sends an event. Events that the client has not taken yet are held in `unread`,
    for which the connection may have to be aborted. `produce` is cancelled after `seconds`, at the request's
    deadline, or when the client leaves.
    If it fails, `failed` makes the last event, of a status and a detail. What is `held`, and the request's body, is
    given back when `produce` has ended, however long the client reads.
    """

    def __init__(
        self,
        produce: Callable[[Callable[[bytes], None]], Coroutine[Any, Any, None]],
        failed: Callable[[int, str], bytes],
        seconds: float,
        held: contextlib.ExitStack,
        exchange: Exchange,
        unread: UnreadAnswers,
    ) -> None:
        # a proxy such as nginx would collect the events otherwise
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(self._read(), media_type="text/event-stream", headers=headers)
        self._exchange = exchange
        self._unread = unread
        self._failed = failed
        self._events: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._task = asyncio.ensure_future(self._run(produce, seconds))
        held.callback(exchange.release_body)
        self._task.add_done_callback(lambda _: held.close())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.close()

    def close(self) -> None:
        """End the stream; nobody reads it any more."""
        self._task.cancel()
        self._unread.forget(self._exchange)

    async def _run(
        self, produce: Callable[[Callable[[bytes], None]], Coroutine[Any, Any, None]], seconds: float
    ) -> None:
        try:
            try:
                left = self._exchange.ends_at - asyncio.get_running_loop().time()
                async with asyncio.timeout(min(seconds, left)):
                    await produce(self._send)
            except TimeoutError as error:
                raise TooSlow(seconds) from error
        except Refusal as refusal:
            self._exchange.refused = reason(refusal)
            self._events.put_nowait(self._failed(refusal.status, refusal.detail))
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the status was sent long ago; the stream must still say that it failed
            log.error("stream failed", exc_info=error)
            self._events.put_nowait(self._failed(500, "service: failed; the log has the request's id"))
        finally:
            self._events.put_nowait(None)

    def _send(self, one: bytes) -> None:
        self._unread.hold(self._exchange, len(one))
        self._events.put_nowait(one)

    async def _read(self) -> AsyncIterator[bytes]:
        """Yield each event when the connection has taken those before it. SlicedAnswers holds it while it is sent."""
        while (one := await self._events.get()) is not None:
            self._unread.release(self._exchange, len(one))
            yield one


def event(name: str, body: object) -> bytes:
    """Return one event with a JSON document, arrays included, as its data. Without a name it has data alone."""
    data = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
    for separator, escaped in SEPARATORS:
        data = data.replace(separator, escaped)
    return (b"event: " + name.encode() + b"\n" if name else b"") + b"data: " + data + b"\n\n"
