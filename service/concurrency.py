"""Waiting for several tasks of asyncio, and work that several callers share."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
RESTS = 4
"""After a run, shared work rests for this multiple of the run's processor time."""


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all; the first failure cancels the others and is raised."""
    coroutines = list(work)
    if len(coroutines) == 1:  # needs no task of its own
        return [await coroutines[0]]
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


@contextlib.contextmanager
def while_wanted(futures: Sequence["asyncio.Future[Any]"], stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` if all futures are done before the block is."""
    left, over = len(futures), False

    def one_less(_: "asyncio.Future[Any]") -> None:
        nonlocal left
        left -= 1
        if not left and not over:
            stop()

    for future in futures:
        future.add_done_callback(one_less)
    try:
        yield
    finally:
        over = True  # what is called from now on was queued before
        for future in futures:
            future.remove_done_callback(one_less)


class SharedWork(Generic[T]):
    """A function that runs on a thread for whoever asks: one run at a time, and a fifth of the time at most.

    All who ask before a run begins get its result. After it the thread rests for RESTS times the run's processor time.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._next: asyncio.Task[T] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._rests_until = 0.0

    async def result(self) -> T:
        """Return the result of the next run. Raises what the function does."""
        if self._next is None:
            self._next = asyncio.create_task(self._run())
        return await asyncio.shield(self._next)

    async def _run(self) -> T:
        async with self._one_at_a_time:
            await asyncio.sleep(self._rests_until - time.monotonic())
            self._next = None
            return await asyncio.to_thread(self._timed)

    def _timed(self) -> T:
        begun = time.thread_time()
        try:
            return self._function()
        finally:
            self._rests_until = time.monotonic() + RESTS * (time.thread_time() - begun)
