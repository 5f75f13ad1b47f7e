"""The decode loop: sequences join and leave a running batch between any two steps."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import structlog

from contract.manifest import Generation
from service.batch import Budget, Device
from service.metrics import Metrics
from service.run import Array, Session
from service.search import Hypothesis, LogProbabilities, Search
from service.settings import Settings

log = structlog.get_logger()

SLOTS = 16
"""Cache capacities are multiples of this, so that the runtime sees few shapes."""


@dataclass(eq=False)
class Job:
    """A source on its way to a target."""

    source: Sequence[int]
    first: int
    """The token that is fed first."""
    behind: int
    """How many tokens stand before it."""
    search: Search
    limit: int
    future: "asyncio.Future[Hypothesis]"
    grew: Callable[[Hypothesis], None]
    since: float = field(default_factory=time.monotonic)
    failure: Exception | None = None

    @property
    def rows(self) -> int:
        """How many rows of the batch it takes."""
        return len(self.search.live)


class Decoding:
    """One model's running batch. All rows take a step together, each at a position of its own.

    Where targets continue their source, `encode` returns the caches of the source, whose last token is fed first, once
    more: it takes its own place again, and its logits are those of the first new token.
    """

    def __init__(
        self,
        encode: Session,
        decode: Session,
        generation: Generation,
        device: Device,
        settings: Settings,
        budget: Budget,
        metrics: Metrics,
    ) -> None:
        self._encode, self._decode, self._generation = encode, decode, generation
        self._device, self._settings, self._budget, self._metrics = device, settings, budget, metrics
        self._shapes = {port.name: port for port in decode.graph.inputs}
        self._name = decode.name
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []
        self._state: dict[
            str, Array
        ] = {}  # memory, caches and the source's mask, in the order of the running jobs' rows
        self._arrived = asyncio.Event()

    async def generate(
        self, source: Sequence[int], search: Search, limit: int, grew: Callable[[Hypothesis], None] = lambda _: None
    ) -> Hypothesis:
        """Return the target that `search` finds in at most `limit` tokens; cancelling frees its rows at the next step.

        `grew` is called after every step with the first live hypothesis.
        """
        start, future = self._generation.start, asyncio.get_running_loop().create_future()
        first, behind = (source[-1], len(source) - 1) if start is None else (start, 0)
        job = Job(source, first, behind, search, limit, future, grew)
        self._waiting.append(job)
        self._arrived.set()
        return await job.future

    async def work(self) -> None:
        """Take steps until cancelled; between two of them the device serves others."""
        while True:
            await self._arrived.wait()
            async with self._device.turn() as run:
                self._forget_cancelled()
                joining = self._admit()
                if joining:
                    await self._attempt(run(self._join, joining), joining)
                if self._running:
                    await self._attempt(run(self._step), self._running)
            self._answer()
            if not self._waiting and not self._running:
                self._arrived.clear()

    async def _attempt(self, work: "asyncio.Future[None]", jobs: list[Job]) -> None:
        """Wait for work on the device; if it fails, so do its jobs, and only they."""
        start = time.monotonic()
        try:
            await work
        except Exception as error:
            for job in jobs:
                self._fail(job, error)
            self._forget_cancelled()
        seconds = time.monotonic() - start
        self._budget.spent(sum(job.rows for job in jobs), seconds)
        self._metrics.run_seconds.labels(self._name).observe(seconds)
        self._metrics.batch_size.labels(self._name).observe(len(jobs))

    def _admit(self) -> list[Job]:
        """Take from the queue, in order, what fits beside what is running."""
        joining: list[Job] = []
        self._waiting = deque(job for job in self._waiting if not job.future.done())
        while self._waiting and self._fits([*self._running, *joining, self._waiting[0]]):
            job = self._waiting.popleft()
            self._metrics.queue_seconds.labels(self._name).observe(time.monotonic() - job.since)
            joining.append(job)
        return joining

    def _fits(self, jobs: list[Job]) -> bool:
        """Say whether jobs may run together: a single one always, more up to so many rows and bytes of caches."""
        rows = sum(job.rows for job in jobs)
        size = rows * self._capacity(jobs) * sum(self._bytes_a_token(cache.past) for cache in self._generation.caches)
        return len(jobs) == 1 or (rows <= self._settings.batch_rows and size <= self._settings.batch_cache_bytes)

    def _capacity(self, jobs: list[Job]) -> int:
        return -(-max(job.behind + job.limit for job in jobs) // SLOTS) * SLOTS

    def _bytes_a_token(self, cache: str) -> int:
        port = self._shapes[cache]
        return math.prod(axis for axis in port.axes if isinstance(axis, int)) * np.dtype(port.dtype).itemsize

    def _join(self, jobs: list[Job]) -> None:
        """Encode new sources in one batch and add their rows to the running ones."""
        length = max(len(job.source) for job in jobs)
        source = np.zeros((len(jobs), length), np.int64)
        visible = np.zeros((len(jobs), length), np.bool_)
        for row, job in enumerate(jobs):
            source[row, : len(job.source)] = job.source
            visible[row, : len(job.source)] = True
        feed = {"source": source, "source_visible": visible}
        known = self._encode.run({port.name: feed[port.name] for port in self._encode.graph.inputs}) | feed
        repeats = [job.rows for job in jobs]
        fresh = {name: np.repeat(array, repeats, axis=0) for name, array in known.items() if name in self._shapes}
        fixed = {"batch": sum(repeats), "capacity": self._capacity(jobs)}
        for cache in self._generation.caches:
            port = self._shapes[cache.past]
            room = np.zeros(
                [fixed[axis] if isinstance(axis, str) else axis for axis in port.axes], np.dtype(port.dtype)
            )
            if cache.past in fresh:  # the source's
                room[:, :, :length] = fresh[cache.past][:, :, : room.shape[2]]
            fresh[cache.past] = room
        self._state = (
            {name: _joined(self._state[name], array) for name, array in fresh.items()} if self._running else fresh
        )
        self._running += jobs

    def _step(self) -> None:
        """Run one step for every row and let every search choose."""
        positions = [job.behind + len(one.tokens) for job in self._running for one in job.search.live]
        tokens = [(one.tokens or (job.first,))[-1] for job in self._running for one in job.search.live]
        out = self._decode.run({**self._state, "token": np.array(tokens), "position": np.array(positions)})
        logs = log_softmax(out["logits"])
        order: list[int] = []  # the row that each row of the next step continues
        row = 0
        for job in self._running:
            rows = job.rows
            try:
                parents = job.search.advance(finite(logs[row : row + rows]))
            except Exception as error:  # this one's alone: its neighbours go on
                job.failure = error
            else:
                order += [] if job.search.done else [row + parent for parent in parents]
            row += rows
        for cache in self._generation.caches:
            self._state[cache.past] = out[cache.present]
        self._metrics.generated.labels(self._name).inc(len(self._running))
        if order != list(range(row)):
            self._state = {name: array[order] for name, array in self._state.items()}

    def _forget_cancelled(self) -> None:
        """Drop the rows of jobs that nobody waits for, or that failed."""
        staying = [job for job in self._running if not job.future.done()]
        if staying and len(staying) < len(self._running):
            keep = np.repeat([job in staying for job in self._running], [job.rows for job in self._running])
            self._state = {name: array[keep] for name, array in self._state.items()}
        self._running = staying

    def _answer(self) -> None:
        """Tell every running job of its step, and the done or failed ones of their end."""
        staying: list[Job] = []
        for job in self._running:
            if job.failure:
                self._fail(job, job.failure)
            elif job.search.done:
                job.grew(job.search.live[0])
                if not job.future.done():
                    job.future.set_result(job.search.best())
            else:
                job.grew(job.search.live[0])
                staying.append(job)
        self._running = staying

    def _fail(self, job: Job, error: Exception) -> None:
        log.error("decoding failed", model=self._name, exc_info=error)
        if not job.future.done():
            job.future.set_exception(RuntimeError(f"{self._name}: decoding failed"))


def finite(logs: LogProbabilities) -> LogProbabilities:
    """Return the same. Raises ArithmeticError for NaN, of which no token can be chosen."""
    if np.isnan(logs).any():
        raise ArithmeticError("the decoder's output is not a number")
    return logs


def log_softmax(logits: Array) -> LogProbabilities:
    """Return log-probabilities along the last axis, in float64."""
    exact = logits.astype(np.float64)
    exact -= exact.max(axis=-1, keepdims=True)
    log_probabilities: LogProbabilities = exact - np.log(np.exp(exact).sum(axis=-1, keepdims=True))
    return log_probabilities


def _joined(old: Array, new: Array) -> Array:
    """Put new rows under old ones, both padded with zeros to the larger of each axis."""
    shape = np.maximum(old.shape[1:], new.shape[1:])
    both = np.zeros((len(old) + len(new), *shape), old.dtype)
    both[(slice(len(old)), *map(slice, old.shape[1:]))] = old
    both[(slice(len(old), None), *map(slice, new.shape[1:]))] = new
    return both
