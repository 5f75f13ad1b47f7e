"""Lanes: queues whose items run in batches, which form while the device runs another."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import structlog

from service.batching.admission import Budget, Priority, due
from service.concurrency import while_wanted
from service.errors import Broken, DeviceFull, Refusal
from service.runtime.device import Device, kind_of
from service.runtime.runtime_errors import DeviceLost
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import SILENT, Tracer

T = TypeVar("T")
R = TypeVar("R")
log = structlog.get_logger()


@dataclass
class Waiting(Generic[T, R]):
    """An item in a lane's queue."""

    item: T
    size: int
    bucket: Hashable
    future: "asyncio.Future[R]"
    due: float
    context: object
    """The trace that it is a part of."""
    since: float = field(default_factory=time.monotonic)


class Lane(Generic[T, R]):
    """A queue of items of one sort, which run in batches on a device.

    There is no timer: a lone item on an idle device runs at once, and while a batch runs the next one gathers. A batch
    holds waiting items of one bucket (similar length, same controls), up to a limit in size, led by the item that is
    due first, so that none starves. The size of a batch is that of its longest item times the number of items, since
    the others are padded. A Refusal among the results concerns its item only; when a batch fails, each of its items
    runs once more, alone. An item that nobody waits for any more does not run, or is stopped.
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
        tracer: Tracer = SILENT,
    ) -> None:
        self.name = name
        self._device = device
        self._run = run
        self._limit = limit
        self._budget = budget
        self._metrics = metrics
        self._tracer = tracer
        self._stop = stop
        self.failures = 0
        """Failed runs in a row."""
        self._queue: deque[Waiting[T, R]] = deque()
        self._arrived = asyncio.Event()

    async def submit(self, item: T, size: int, bucket: Hashable = 0, priority: Priority = "interactive") -> R:
        """Wait for an item's result. Cancelling drops the item if it has not begun to run."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        waiting: Waiting[T, R] = Waiting(item, size, bucket, future, due(priority), self._tracer.here())
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
                    finally:  # whatever ends this, nobody may wait for ever
                        self._fail(batch)
            if not self._queue:
                self._arrived.clear()

    def _cut(self) -> list[Waiting[T, R]]:
        """Take from the queue the item that is due first and those of its bucket that fit; drop cancelled ones."""
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
        self._tracer.ran(self.name, batch, start, failed=isinstance(outcome, Exception))
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
        """Return a batch's results, or the error that it failed with; stop it when nobody waits for any of them."""
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
        """Fail the items that have no result."""
        for waiting in batch:
            if not waiting.future.done():
                waiting.future.set_exception(RuntimeError(f"{self.name}: the batch failed"))


def bucket_of(length: int) -> int:
    """Return the power of two at or above a length. Items of one bucket have similar lengths: little padding."""
    return 1 << max(length - 1, 0).bit_length()
