"""Scheduling: one inference at a time on a device, and batches that form while another runs."""

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import structlog

from service import tracing
from service.errors import Busy, Refusal
from service.metrics import Metrics

T = TypeVar("T")
R = TypeVar("R")
log = structlog.get_logger()


class Device:
    """A device and the one thread that works for it. Whoever holds it runs; the others wait in order of arrival."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="device")
        self._turn = asyncio.Lock()
        self.wanted = 0
        """How many wait for their turn."""

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[Callable[..., "asyncio.Future[R]"]]:
        """Wait for the device; yields a function that runs another on its thread."""
        loop = asyncio.get_running_loop()
        self.wanted += 1
        try:
            await self._turn.acquire()
        finally:
            self.wanted -= 1
        try:
            yield lambda function, *arguments: loop.run_in_executor(self._thread, function, *arguments)
        finally:
            self._turn.release()

    def close(self) -> None:
        """Let the thread end once it has finished what it runs."""
        self._thread.shutdown(wait=False, cancel_futures=True)


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
        if self.held and self.held + cost > self.limit:
            seconds = math.ceil(self.held / self._rate) if self._rate else 1
            raise Busy(
                f"{self.name}: at most {self.limit} may wait, given {cost} more on top of {self.held}",
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
    since: float = field(default_factory=time.monotonic)
    context: Any = field(default_factory=tracing.here)


class Lane(Generic[T, R]):
    """A queue of like items that are run together: everything waiting when the device is free, up to a size.

    There is no timer: a lone item on an idle device runs at once, and while a batch runs the next one gathers. A batch
    holds items of one bucket (similar length, asked the same), led by the oldest waiting, so none starves. Its size is
    that of its longest item times their number, which is what padding costs. A Refusal among the results is that item's
    alone.
    """

    def __init__(
        self,
        name: str,
        device: Device,
        run: Callable[[Sequence[T]], Sequence[R | Refusal]],
        limit: int,
        budget: Budget,
        metrics: Metrics,
    ) -> None:
        self.name = name
        self._device = device
        self._run = run
        self._limit = limit
        self._budget = budget
        self._metrics = metrics
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
                batch = self._cut()
                if batch:
                    start = time.monotonic()
                    for waiting in batch:
                        self._metrics.queue_seconds.labels(self.name).observe(start - waiting.since)
                    outcome = await asyncio.gather(
                        run(self._run, [waiting.item for waiting in batch]), return_exceptions=True
                    )
                    seconds = time.monotonic() - start
                    self._budget.spent(sum(waiting.size for waiting in batch), seconds)
                    self._metrics.run_seconds.labels(self.name).observe(seconds)
                    self._metrics.batch_size.labels(self.name).observe(len(batch))
                    tracing.ran(self.name, batch, start, failed=isinstance(outcome[0], BaseException))
                    self._answer(batch, outcome[0])
            if not self._queue:
                self._arrived.clear()

    def _cut(self) -> list[Waiting[T, R]]:
        """Take the oldest item and those of its bucket that fit beside it; forget the cancelled ones."""
        alive = [waiting for waiting in self._queue if not waiting.future.done()]
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

    def _answer(self, batch: list[Waiting[T, R]], outcome: Sequence[R | Refusal] | BaseException) -> None:
        if isinstance(outcome, BaseException):
            log.error("batch failed", lane=self.name, size=len(batch), exc_info=outcome)
        for index, waiting in enumerate(batch):
            if waiting.future.done():
                continue
            if isinstance(outcome, BaseException):
                waiting.future.set_exception(RuntimeError(f"{self.name}: the batch failed"))
            elif isinstance(result := outcome[index], Refusal):
                waiting.future.set_exception(result)
            else:
                waiting.future.set_result(result)


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
