"""TODO: what service/http/deadline.py is."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from fastapi import Request
from starlette.responses import Response

from service.errors import TooSlow
from service.http.server_sent_events import Stream
from service.repository.served_model import ServedModel
from service.state import State


async def _answer(request: Request, state: State, served: ServedModel, work: Coroutine[Any, Any, Response]) -> Response:
    """Wait for the work until the deadline, or until the client has gone; either way nothing of it stays behind."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request, task))
    try:
        with served.used():
            async with asyncio.timeout(state.settings.request_seconds):
                return await task
    except TimeoutError as error:
        _let_go(task)
        raise TooSlow(_too_slow(state)) from error
    except asyncio.CancelledError:
        _let_go(task)
        if gone.done() and not gone.cancelled():
            return Response(status_code=499)  # nobody will read it; the log does
        raise
    finally:
        gone.cancel()
        task.cancel()


def _let_go(task: "asyncio.Task[Response]") -> None:
    """Give back what an answer holds that came too late to be sent."""
    if task.done() and not task.cancelled() and not task.exception() and isinstance(stream := task.result(), Stream):
        stream.held.close()


async def _gone(request: Request, task: "asyncio.Task[Response]") -> None:
    """Cancel the task when the client disconnects after its whole request was read."""
    await request.state.body_read.wait()
    while (await request.receive())["type"] != "http.disconnect":
        pass
    task.cancel()


def _too_slow(state: State) -> str:
    return f"request: at most {state.settings.request_seconds:g} seconds, given up"
