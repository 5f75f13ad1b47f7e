"""Lanes: queues whose items run in batches, which form while the device runs another."""

import asyncio
import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import structlog

from service.batching.admission import Budget, Rate
from service.batching.fair_queue import NOBODY, Caller, FairQueue
from service.errors import Broken, DeviceFull, Refusal
from service.runtime.device import Claim, Device, Place, Turn, kind_of
from service.runtime.runtime_errors import DeviceLost
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import SILENT, Tracer

T = TypeVar("T")
R = TypeVar("R")

SMALLER_SECONDS = 600.0
"""How long a limit holds that was made smaller because the device had no memory for a batch. Another process may have
held that memory for a while."""
log = structlog.get_logger()


@dataclass(eq=False)
class Waiting(Generic[T, R]):
    """An item in a lane's queue."""

    item: T
    size: int
    bucket: Hashable
    future: "asyncio.Future[R]"
    context: object
    """The trace that it is a part of."""
    since: float = field(default_factory=time.monotonic)
    batch: "Batch[T, R] | None" = None
    """The batch that it runs in, once it does."""


@dataclass(eq=False)
class Batch(Generic[T, R]):
    """Items that run together."""

    waiting: Sequence[Waiting[T, R]]
    turn: Turn
    start: float = field(default_factory=time.monotonic)
    over: bool = False
    """True once it has run: its turn may run another then."""

    def __post_init__(self) -> None:
        for waiting in self.waiting:
            waiting.batch = self

    @property
    def unwanted(self) -> bool:
        """True if nobody waits for any of its items."""
        return all(waiting.future.done() for waiting in self.waiting)


class Lane(Generic[T, R]):
    """A queue of items of one sort, which run in batches on a device.

    There is no timer: a lone item on an idle device runs at once, and while a batch runs the next one gathers. A batch
    holds waiting items of one bucket (similar length, same controls), up to a limit in size, led by the item that is
    first in a fair queue, so that none starves. The size of a batch is that of its longest item times the number of
    items, since the others are padded. Where the device has cores for several batches at a time, the limit holds for
    all of them together, and what waits is divided among them. The limit is halved when the device has no memory for a
    batch, and doubled again every SMALLER_SECONDS. A Refusal among the results concerns its item only; when a batch
    fails, each of its items runs once more, alone. An item that nobody waits for any more does not run, or is stopped.
    """

    def __init__(
        self,
        name: str,
        device: Device,
        run: Callable[[Sequence[T]], Sequence[R | Refusal]],
        limit: int,
        budget: Budget,
        metrics: Metrics,
        cores: int = 1,
        tracer: Tracer = SILENT,
        at_once: float = math.inf,
    ) -> None:
        self.name = name
        self._device = device
        self._run = run
        self._limit = self._most = limit
        self._at_once = at_once
        """No batch is larger, though all that run beside one another are bound by the limit alone."""
        self._larger_at = 0.0
        """When batches may be twice as large again (monotonic), once they were made smaller."""
        self._budget = budget
        self.rate = Rate()
        self._metrics = metrics
        self._labels = model, _ = name.split("/")  # and a role
        self._queue_seconds = metrics.queue_seconds.labels(model, budget.queue)
        self._run_seconds = metrics.run_seconds.labels(*self._labels)
        self._batch_items = metrics.batch_items.labels(*self._labels)
        self._cores = cores
        self._tracer = tracer
        self.failures = 0
        """Failed runs in a row."""
        self._queue: FairQueue[Waiting[T, R]] = FairQueue()
        self._place = Place()
        self._claimed: Claim | None = None
        """What the lane has claimed, while it waits for its turn on the device."""
        self._retries: set[asyncio.Task[None]] = set()

    def end(self) -> None:
        """Hold the model no longer. Nothing may be submitted from now on."""
        del self._run

    async def submit(self, item: T, size: int, bucket: Hashable = 0, caller: Caller = NOBODY) -> R:
        """Wait for an item's result.

        Cancelling drops the item if it has not begun to run, and stops its batch if nobody waits for the others in it.
        """
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        waiting: Waiting[T, R] = Waiting(item, size, bucket, future, self._tracer.here())
        self._queue.add(waiting, size, caller)
        self._claim()
        try:
            return await future
        except asyncio.CancelledError:
            self._leave(waiting)
            raise

    def _leave(self, waiting: Waiting[T, R]) -> None:
        """Drop an item whose caller has left, or stop its batch if nobody waits for any of it."""
        if waiting.batch is None and waiting in self._queue:
            self._queue.remove(waiting)
            self._metrics.cancelled.labels("queued").inc()
            self._claim()
        elif waiting.batch and not waiting.batch.over and waiting.future.cancelled() and waiting.batch.unwanted:
            waiting.batch.turn.stop()

    def _claim(self) -> None:
        """Wait for a turn if there are items, and no longer if there are none."""
        if self._queue and not self._claimed:
            self._claimed = self._device.claim(self._cores, self._begin, self._place)
        elif self._queue:
            self._device.look_again()  # another item may be first, for which there is room
        elif self._claimed:
            self._device.withdraw(self._claimed)
            self._claimed = None

    def _begin(self, turn: Turn) -> float | None:
        """Begin to run a batch; return its share of the limit. None if it must wait until others leave room."""
        if self._limit < self._most and time.monotonic() >= self._larger_at:
            self._resize(self._limit * 2)
        waiting, size = self._cut(turn)
        if not waiting:
            return None
        self._claimed = None
        self._claim()
        try:
            self._start(waiting, turn)
        except BaseException:  # whatever it is, nobody may wait for ever
            self._fail(waiting)
            raise
        return min(size / self._limit, 1.0)

    def _cut(self, turn: Turn) -> tuple[list[Waiting[T, R]], int]:
        """Take from the queue the item that is first and those of its bucket that fit.

        Return them and their size; none if the first must wait for room. If there are cores for other batches beside
        this one, they are left their part.
        """
        limit = self._limit * turn.room
        whole = min(limit, self._limit, self._at_once)
        most = -(-len(self._queue) // (1 + turn.others))
        batch: list[Waiting[T, R]] = []
        longest = 0
        for waiting in self._queue:
            if len(batch) == most or longest * (len(batch) + 1) > whole:
                break
            size = max(longest, waiting.size) * (len(batch) + 1)
            if not batch and size > limit:
                break
            if not batch or (waiting.bucket == batch[0].bucket and size <= whole):
                batch.append(waiting)
                longest = max(longest, waiting.size)
        self._queue.take(batch)
        return batch, longest * len(batch)

    def _start(self, waiting: Sequence[Waiting[T, R]], turn: Turn) -> None:
        batch = Batch(waiting, turn)
        for entry in waiting:
            self._queue_seconds.observe(batch.start - entry.since)
        items = [one.item for one in waiting]
        turn.start(lambda: self._run(items), lambda outcome: self._finish(batch, *outcome))

    def _finish(self, batch: Batch[T, R], results: Sequence[R | Refusal] | None, error: Exception | None) -> None:
        """Answer the items of a batch that has run, or run them once more."""
        try:
            seconds = time.monotonic() - batch.start
            self._run_seconds.observe(seconds)
            self._batch_items.inc(len(batch.waiting))
            self._tracer.ran(self.name, batch.waiting, batch.start, failed=error is not None)
            if results is not None:
                # others run beside it
                cost = sum(waiting.size for waiting in batch.waiting)
                self._budget.spent(cost, seconds * batch.turn.part)
                self.rate.spent(cost, seconds * batch.turn.part)
                batch.turn.release()  # first, since the callers compute while the next batch runs
                self._answer(batch.waiting, results)
            else:
                assert error is not None  # noqa: S101 # an outcome is one or the other
                self._note_failure(batch, error)
                retry = asyncio.create_task(self._retry(batch, error))
                self._retries.add(retry)
                retry.add_done_callback(self._retries.discard)
        except BaseException:  # whatever it is, nobody may wait for ever
            self._fail(batch.waiting)
            batch.turn.release()
            raise

    async def _retry(self, batch: Batch[T, R], error: Exception) -> None:
        """Run each item of a batch that failed once more, alone, or fail it."""
        if isinstance(error, DeviceFull) and len(batch.waiting) > 1:
            self._resize(self._limit // 2)
        again = len(batch.waiting) > 1 and not isinstance(error, DeviceLost)
        try:
            for waiting in batch.waiting:
                if waiting.future.done():
                    self._metrics.cancelled.labels("running").inc()
                    continue
                outcome = await self._attempt(Batch([waiting], batch.turn)) if again else error
                if not isinstance(outcome, Exception):
                    self._answer([waiting], outcome)
                elif isinstance(outcome, Refusal) and not waiting.future.done():
                    waiting.future.set_exception(outcome)
        finally:
            self._fail(batch.waiting)
            batch.turn.release()

    def _resize(self, limit: int) -> None:
        """Set the limit of a batch, within that of the settings, until it may be twice as large."""
        self._limit = min(max(limit, 1), self._most)
        self._larger_at = time.monotonic() + SMALLER_SECONDS
        log.warning("batches have another limit", lane=self.name, limit=self._limit, most=self._most)

    async def _attempt(self, batch: Batch[T, R]) -> Sequence[R | Refusal] | Exception:
        """Return the results of a batch, or the error that it failed with."""
        try:
            results: Sequence[R | Refusal] = await batch.turn(self._run, [waiting.item for waiting in batch.waiting])
        except Exception as error:
            self._note_failure(batch, error)
            return error
        finally:
            batch.over = True
        return results

    def _note_failure(self, batch: Batch[T, R], error: Exception) -> None:
        if not batch.unwanted:
            self.failures += 1
            self._metrics.faults.labels(*self._labels, kind_of(error)).inc()
            log.error("batch failed", lane=self.name, size=len(batch.waiting), exc_info=error)

    def _answer(self, batch: Sequence[Waiting[T, R]], results: Sequence[R | Refusal]) -> None:
        self.failures = self.failures + 1 if all(isinstance(result, Broken) for result in results) else 0
        for waiting, result in zip(batch, results, strict=True):
            if isinstance(result, Broken):
                self._metrics.faults.labels(*self._labels, "not_finite").inc()
                log.error("answer is not finite", lane=self.name)
            if waiting.future.done():
                self._metrics.cancelled.labels("running").inc()
            elif isinstance(result, Refusal):
                waiting.future.set_exception(result)
            else:
                waiting.future.set_result(result)

    def _fail(self, batch: Sequence[Waiting[T, R]]) -> None:
        """Fail the items that have no result."""
        for waiting in batch:
            if not waiting.future.done():
                waiting.future.set_exception(RuntimeError(f"{self.name}: the batch failed"))


def bucket_of(length: int) -> int:
    """Return the power of two at or above a length. Items of one bucket have similar lengths: little padding."""
    return 1 << max(length - 1, 0).bit_length()
