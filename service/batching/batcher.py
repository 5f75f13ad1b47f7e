"""Scheduling: one inference at a time on a device, and batches that form while another runs."""

import asyncio
import contextlib
import math
import queue
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import structlog

from service.telemetry import tracing
from service.errors import Broken, Busy, DeviceFull, Refusal
from service.telemetry.metrics import Metrics
from service.runtime.session import DeviceLost

T = TypeVar("T")
R = TypeVar("R")
Priority: TypeAlias = Literal["interactive", "batch"]
log = structlog.get_logger()

PRIORITY: ContextVar[Priority] = ContextVar("priority", default="interactive")
"""Of the request that is being served."""
PATIENCE = 2.0
"""Seconds for which work of priority `batch` lets what is interactive go first; after that it is as good as any."""
SHARE = {"interactive": 1.0, "batch": 0.5}
"""Of a budget, what work of that priority may fill: for what is interactive there is always room."""


def due() -> float:
    """Return the time by which queued work of the current priority stands in order."""
    return time.monotonic() + (PATIENCE if PRIORITY.get() == "batch" else 0.0)


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


class Budget:
    """A bound on the cost of all that was admitted and is not finished, in units of the caller's choice."""

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit
        self.held = 0
        self._rate = 0.0  # cost a second, a moving average

    @contextlib.contextmanager
    def permit(self, cost: int) -> Iterator[None]:
        """Hold `cost` for the length of a block. Raises Busy as `take` does."""
        self.take(cost)
        try:
            yield
        finally:
            self.give_back(cost)

    def take(self, cost: int) -> None:
        """Hold `cost` until it is given back. Raises Busy if it does not fit beside what is held.

        Alone, a request is admitted whatever it costs: what one request may cost is limited elsewhere.
        """
        limit = int(self.limit * SHARE[PRIORITY.get()])
        if self.held and self.held + cost > limit:
            seconds = math.ceil((self.held + cost - limit) / self._rate) if self._rate else 1
            raise Busy(
                f"{self.name}: at most {limit} may wait, given {cost} more on top of {self.held}",
                seconds=min(max(seconds, 1), 60),
            )
        self.held += cost

    def give_back(self, cost: int) -> None:
        """End holding `cost`."""
        self.held -= cost

    def spent(self, cost: int, seconds: float) -> None:
        """Learn the rate from a finished batch."""
        rate = cost / max(seconds, 1e-6)
        self._rate = rate if not self._rate else 0.8 * self._rate + 0.2 * rate


@dataclass
class Waiting(Generic[T, R]):
    """An item in a lane's queue."""

    item: T
    size: int
    bucket: Hashable
    future: "asyncio.Future[R]"
    due: float = field(default_factory=due)
    since: float = field(default_factory=time.monotonic)
    context: Any = field(default_factory=tracing.here)


class Lane(Generic[T, R]):
    """A queue of like items that are run together: everything waiting when the device is free, up to a size.

    There is no timer: a lone item on an idle device runs at once, and while a batch runs the next one gathers. A batch
    holds items of one bucket (similar length, asked the same), led by the one that is due first, so none starves. Its
    size is that of its longest item times their number, which is what padding costs. A Refusal among the results is
    that item's alone; when a batch fails, each of its items is run once more, alone. What nobody waits for any more
    does not run, or is stopped.
    """

    def __init__(
        self,
        name: str,
        device: Device,
        run: Callable[[Sequence[T]], Sequence[R | Refusal]],
        limit: int,
        budget: Budget,
        metrics: Metrics,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._device = device
        self._run = run
        self._limit = limit
        self._budget = budget
        self._metrics = metrics
        self._stop = stop
        self.failures = 0
        """Runs in a row of which nothing came."""
        self._queue: deque[Waiting[T, R]] = deque()
        self._arrived = asyncio.Event()

    async def submit(self, item: T, size: int, bucket: Hashable = 0) -> R:
        """Wait for an item's result. Cancelling drops the item if it has not begun to run."""
        waiting: Waiting[T, R] = Waiting(item, size, bucket, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._arrived.set()
        return await waiting.future

    async def work(self) -> None:
        """Run batches until cancelled."""
        while True:
            await self._arrived.wait()
            async with self._device.turn() as run:
                if batch := self._cut():
                    try:
                        await self._serve(batch, run)
                    finally:  # whatever ends this: nobody waits for what never comes
                        self._fail(batch)
            if not self._queue:
                self._arrived.clear()

    def _cut(self) -> list[Waiting[T, R]]:
        """Take the item that is due first and those of its bucket that fit beside it; forget the cancelled ones."""
        alive = sorted((one for one in self._queue if not one.future.done()), key=lambda waiting: waiting.due)
        self._metrics.cancelled.labels("queued").inc(len(self._queue) - len(alive))
        batch: list[Waiting[T, R]] = []
        rest: deque[Waiting[T, R]] = deque()
        longest = 0
        for waiting in alive:
            size = max(longest, waiting.size) * (len(batch) + 1)
            if batch and (waiting.bucket != batch[0].bucket or size > self._limit):
                rest.append(waiting)
            else:
                batch.append(waiting)
                longest = max(longest, waiting.size)
        self._queue = rest
        return batch

    async def _serve(self, batch: list[Waiting[T, R]], run: Callable[..., "asyncio.Future[Any]"]) -> None:
        """Run a batch and answer its items."""
        start = time.monotonic()
        for waiting in batch:
            self._metrics.queue_seconds.labels(self.name).observe(start - waiting.since)
        outcome = await self._attempt(batch, run)
        seconds = time.monotonic() - start
        self._metrics.run_seconds.labels(self.name).observe(seconds)
        self._metrics.batch_size.labels(self.name).observe(len(batch))
        tracing.ran(self.name, batch, start, failed=isinstance(outcome, Exception))
        if not isinstance(outcome, Exception):
            self._budget.spent(sum(waiting.size for waiting in batch), seconds)
            self._answer(batch, outcome)
            return
        if isinstance(outcome, DeviceFull) and len(batch) > 1:
            self._limit = max(self._limit // 2, 1)
            log.warning("batches are made smaller", lane=self.name, limit=self._limit)
        again = len(batch) > 1 and not isinstance(outcome, DeviceLost)
        for waiting in batch:
            if not waiting.future.done():
                alone = await self._attempt([waiting], run) if again else outcome
                if not isinstance(alone, Exception):
                    self._answer([waiting], alone)
                elif isinstance(alone, Refusal) and not waiting.future.done():
                    waiting.future.set_exception(alone)

    async def _attempt(
        self, batch: list[Waiting[T, R]], run: Callable[..., "asyncio.Future[Any]"]
    ) -> Sequence[R | Refusal] | Exception:
        """Return a batch's results, or what it failed with; stop it when nobody waits for any of them."""
        futures = [waiting.future for waiting in batch]
        try:
            with while_wanted(futures, self._stop):
                results: Sequence[R | Refusal] = await run(self._run, [waiting.item for waiting in batch])
        except Exception as error:
            if not all(future.done() for future in futures):
                self.failures += 1
                self._metrics.faults.labels(self.name, kind_of(error)).inc()
                log.error("batch failed", lane=self.name, size=len(batch), exc_info=error)
            return error
        return results

    def _answer(self, batch: list[Waiting[T, R]], results: Sequence[R | Refusal]) -> None:
        self.failures = self.failures + 1 if all(isinstance(result, Broken) for result in results) else 0
        for waiting, result in zip(batch, results, strict=True):
            if isinstance(result, Broken):
                self._metrics.faults.labels(self.name, "not_finite").inc()
                log.error("answer is not finite", lane=self.name)
            if waiting.future.done():
                self._metrics.cancelled.labels("running").inc()
            elif isinstance(result, Refusal):
                waiting.future.set_exception(result)
            else:
                waiting.future.set_result(result)

    def _fail(self, batch: list[Waiting[T, R]]) -> None:
        """Answer what has no answer."""
        for waiting in batch:
            if not waiting.future.done():
                waiting.future.set_exception(RuntimeError(f"{self.name}: the batch failed"))


@contextlib.contextmanager
def while_wanted(futures: Sequence["asyncio.Future[Any]"], stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` if all futures are done before the block is."""
    left = len(futures)

    def one_less(_: "asyncio.Future[Any]") -> None:
        nonlocal left
        left -= 1
        if not left:
            stop()

    for future in futures:
        future.add_done_callback(one_less)
    try:
        yield
    finally:
        for future in futures:
            future.remove_done_callback(one_less)


def kind_of(error: Exception) -> str:
    """Return what kind of fault an error of a run is, as metrics count them."""
    return "not_finite" if isinstance(error, Broken) else "worker" if isinstance(error, Died) else "exception"


def bucket_of(length: int) -> int:
    """Return the power of two that a length is padded towards, so that a batch's items are of similar length."""
    return 1 << max(length - 1, 0).bit_length()


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all; the first failure cancels the others and is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
