"""TODO: what service/runtime/device.py is."""

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
    """A device and the one thread that works for it. Whoever holds it runs; the others wait in order of arrival."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()  # takes turns with the loop less than a semaphore
        self._task: tuple[Callable[[], Any], Future[Any]] | None = None
        self._since: float | None = None
        self._closed = False
        self.wanted = 0
        """How many wait for their turn."""
        self.lost: Exception | None = None
        """Why nothing can run here any more, once nothing can."""
        self._thread: threading.Thread | None = None
        self.revive()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[..., "asyncio.Future[R]"]]:
        """Wait for the device; yields a function that runs another on its thread, and gives the device back when done.

        Whoever leaves while his function runs leaves the device to nobody until it has returned.
        """
        self.wanted += 1
        try:
            await self._turn.acquire()
        finally:
            self.wanted -= 1
        running: list[Future[Any]] = []

        def run(function: Callable[..., R], *arguments: Any) -> "asyncio.Future[R]":  # noqa: ANN401 # the function's own
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
        """See that there is a thread: what is thrown into it between two lines may end it after all."""
        if not self._closed and not (self._thread and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._work, name="device", daemon=True)
            self._thread.start()

    def busy_seconds(self) -> float:
        """Return for how long what runs now has been running; 0 when nothing does."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def close(self) -> None:
        """Let the thread end once it has finished what it runs."""
        self._closed = True
        self._wake.put(None)

    def _work(self) -> None:
        """Run what is given, one after the other. What it raises ends neither the thread nor its caller's wait."""
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
            except BaseException as error:  # a panic in a library is no Exception
                self._since = None
                if isinstance(error, DeviceLost):
                    self.lost = error
                if self._task:
                    (_, future), self._task = self._task, None
                if future and not future.done():
                    future.set_exception(error if isinstance(error, Exception) else Died(type(error).__name__))


class Died(RuntimeError):
    """What ran was ended by what is no Exception, such as a panic in a library: its kind."""


def kind_of(error: Exception) -> str:
    """Return what kind of fault an error of a run is, as metrics count them."""
    return "not_finite" if isinstance(error, Broken) else "worker" if isinstance(error, Died) else "exception"
