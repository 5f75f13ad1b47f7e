"""The deadline of a request, and the end of its work when the client leaves."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from service.errors import Timeout, TooSlow
from service.http.exchange import exchange_of, nothing

CLIENT_CLOSED_REQUEST = 499
"""Status in the log of an answer that nobody will read, as nginx has it."""


async def answer_in_time(request: Request, work: Coroutine[Any, Any, Response], seconds: float) -> Response:
    """Wait for the answer until the deadline, or until the client has gone; in both cases the work is cancelled.

    Raises TooSlow, and Timeout if it was the body that did not arrive in time.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 # every request is answered in a task
    exchange = exchange_of(request.scope)
    gone = False

    def leave() -> None:
        nonlocal gone
        if exchange.body_arrived and not gone:  # until then reading the body fails
            gone = True
            task.cancel()

    exchange.when_gone = leave
    exchange.ends_at = asyncio.get_running_loop().time() + seconds
    try:
        async with asyncio.timeout_at(exchange.ends_at):
            return await work
    except TimeoutError as error:
        if not exchange.body_arrived and not exchange.body_read:
            received = exchange.bytes_received
            raise Timeout(f"body: at most {seconds:g} seconds, given up after {received} bytes") from error
        raise TooSlow(seconds) from error
    except asyncio.CancelledError:
        if gone and not task.uncancel():
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        raise
    finally:
        exchange.when_gone = nothing
