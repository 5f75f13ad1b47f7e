"""The device that graphs run on. It has one thread, on which one inference runs at a time."""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from service.errors import Broken
from service.runtime.runtime_errors import DeviceLost

R = TypeVar("R")


class Device:
    """A device and its one thread. Callers take turns in the order in which they arrive."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        # a SimpleQueue switches between this thread and the loop less often than a semaphore
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._task: tuple[Callable[[], Any], Future[Any]] | None = None
        self._since: float | None = None
        self._closed = False
        self.wanted = 0
        """The number of callers that wait for their turn."""
        self.lost: Exception | None = None
        """The error after which nothing can run here any more; None as long as the device works."""
        self._thread: threading.Thread | None = None
        self.revive()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[..., "asyncio.Future[R]"]]:
        """Wait for a turn, and hold it for the length of a block.

        The block is given a function that runs another function on the thread of the device and returns its future.
        If the caller is cancelled while its function runs, the device stays locked until the function returns.
        """
        self.wanted += 1
        try:
            await self._turn.acquire()
        finally:
            self.wanted -= 1
        running: list[Future[Any]] = []

        def run(function: Callable[..., R], *arguments: Any) -> "asyncio.Future[R]":  # noqa: ANN401 # the arguments of `function`
            future: Future[R] = Future()
            future.set_running_or_notify_cancel()
            running[:] = [future]
            self._task, self._since = (lambda: function(*arguments), future), time.monotonic()
            self._wake.put(None)
            return asyncio.wrap_future(future)

        loop = asyncio.get_running_loop()
        try:
            yield run
        finally:
            if running and not running[0].done():
                running[0].add_done_callback(lambda _: loop.call_soon_threadsafe(self._turn.release))
            else:
                self._turn.release()

    def revive(self) -> None:
        """Start the thread if it does not run. An exception that is thrown into it between two lines may end it."""
        if not self._closed and not (self._thread and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._work, name="device", daemon=True)
            self._thread.start()

    def busy_seconds(self) -> float:
        """Return the seconds since the current run began; 0 if nothing runs."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def close(self) -> None:
        """End the thread once its current run is finished."""
        self._closed = True
        self._wake.put(None)

    def _work(self) -> None:
        """Run one function after the other.

        An exception does not end the thread, and always reaches the caller, who would otherwise wait for ever.
        """
        while not self._closed:
            future: Future[Any] | None = None
            try:
                self._wake.get()
                if self._task:
                    function, future = self._task
                    self._task = None
                    result = function()
                    self._since = None
                    future.set_result(result)
            except BaseException as error:  # a panic in a library is a BaseException, not an Exception
                self._since = None
                if isinstance(error, DeviceLost):
                    self.lost = error
                if self._task:
                    (_, future), self._task = self._task, None
                if future and not future.done():
                    future.set_exception(error if isinstance(error, Exception) else Died(type(error).__name__))


class Died(RuntimeError):
    """A BaseException, such as a panic in a library, ended a run. The message is the name of its class."""


def kind_of(error: Exception) -> str:
    """Return the label under which metrics count an error of a run."""
    return "not_finite" if isinstance(error, Broken) else "worker" if isinstance(error, Died) else "exception"
