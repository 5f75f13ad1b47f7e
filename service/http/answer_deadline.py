"""The deadline of a request, and the end of its work when the client leaves."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from service.errors import TooSlow
from service.http.exchange import exchange_of
from service.http.server_sent_events import EventStream

CLIENT_CLOSED_REQUEST = 499
"""Status in the log of an answer that nobody will read, as nginx has it."""


async def answer_in_time(request: Request, work: Coroutine[Any, Any, Response], seconds: float) -> Response:
    """Wait for the answer until the deadline, or until the client has gone; in both cases the work is cancelled.

    Raises TooSlow.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_cancel_when_gone(request, task))
    try:
        async with asyncio.timeout(seconds):
            return await task
    except TimeoutError as error:
        _release(task)
        raise TooSlow(seconds) from error
    except asyncio.CancelledError:
        _release(task)
        if gone.done() and not gone.cancelled():
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        raise
    finally:
        gone.cancel()
        task.cancel()


def _release(task: "asyncio.Task[Response]") -> None:
    """End a stream that came too late to be sent."""
    if task.done() and not task.cancelled() and not task.exception() and isinstance(late := task.result(), EventStream):
        late.close()


async def _cancel_when_gone(request: Request, task: "asyncio.Task[Response]") -> None:
    """Cancel the task when the client disconnects after its whole request was read."""
    await exchange_of(request.scope).body_read.wait()
    while (await request.receive())["type"] != "http.disconnect":
        pass
    task.cancel()
