"""The decode loop with continuous batching: sequences join and leave the running batch between any two steps."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import structlog

from contract.generation import Generation
from service.arrays import Array, padded
from service.batching.admission import Budget
from service.batching.fair_queue import NOBODY, Caller, FairQueue
from service.concurrency import while_wanted
from service.errors import DeviceFull, Refusal
from service.generation.kv_cache import KVCache
from service.generation.token_selection import ALL_CANDIDATES, Hypothesis, Search, alternatives_of, finite
from service.runtime.device import Device, Place, Turn, kind_of
from service.runtime.runtime_errors import DeviceLost, no_memory
from service.runtime.session import Session
from service.settings import Settings
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import SILENT, Tracer

JOINING_TOKENS = 512
"""The most padded tokens of sources that are encoded between two steps: all rows wait for them."""
MOST_HELD_SECONDS = 0.1
"""While others wait, the loop keeps its turn for as long as it waited for it, and no longer than this: a run of another
model may take as long as a thousand steps."""
STREAM_COST = 2
"""How many times a target counts whose tokens are sent one by one: each is written as an event."""
LEFT = 8
"""A client leaves one row in eight to others: they need not wait until something of it ends."""
log = structlog.get_logger()


@dataclass(eq=False)
class Job:
    """A request to generate the target of one source."""

    source: Mapping[str, Array]
    """The input of the encoder: arrays by port."""
    size: int
    """The number of tokens or patches of the source."""
    first: int
    """The token that the first step is fed."""
    first_position: int
    """The position of this token: the number of tokens before it."""
    new_search: Callable[[], Search]
    limit: int
    future: "asyncio.Future[Hypothesis]"
    grew: Callable[[Hypothesis], None] | None
    caller: Caller = NOBODY
    since: float = field(default_factory=time.monotonic)
    failure: Exception | None = None
    streamed: bool = False
    """True once `grew` has been called: the client has seen tokens, so the job cannot start again."""
    alone: bool = False
    """True if it must run alone, because its batch has failed."""
    rows: list[int] = field(default_factory=list)
    """The rows of the job in the running batch."""

    def __post_init__(self) -> None:
        self.search = self.new_search()

    def restart(self, *, alone: bool) -> None:
        """Start again, if need be in a batch of its own."""
        self.search, self.rows, self.alone = self.new_search(), [], alone

    @property
    def ended(self) -> bool:
        """True if it is done or has failed, or if its caller has left."""
        return self.search.done or self.failure is not None or self.future.done()

    @property
    def width(self) -> int:
        """The number of its rows in the batch."""
        return len(self.search.live)

    @property
    def needs(self) -> int:
        """The tokens that its rows must hold for its next step."""
        return self.first_position + len(self.search.live[0].tokens) + 1

    @property
    def most(self) -> int:
        """The tokens that they may come to hold."""
        return self.first_position + self.limit


class DecodeLoop:
    """The running batch of one model. All rows take a step together, each at its own position.

    If targets continue their source (a causal language model), `encode` returns the caches of the source. The first
    step is fed the last token of the source again: it overwrites its own slot of the caches, and its logits are those
    of the first new token.
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
        tracer: Tracer = SILENT,
    ) -> None:
        self._encode, self._decode = encode, decode
        self._device, self._settings, self._budget = device, settings, budget
        self._metrics, self._tracer, self._name = metrics, tracer, decode.name
        self._labels = model, _ = self._name.split("/")  # and a role
        self._run_seconds = metrics.run_seconds.labels(*self._labels)
        self._batch_items = metrics.batch_items.labels(*self._labels)
        self._queue_seconds = metrics.queue_seconds.labels(model, budget.queue)
        self._generated = metrics.generated.labels(model)
        self._first_token_seconds = metrics.first_token_seconds.labels(model)
        # of the bound on tokens that run: others may run beside it
        self._share = min(decode.cores / device.cores, 1.0)
        self._waiting: FairQueue[Job] = FairQueue()
        self._running: list[Job] = []
        self._cache, self._stopping = KVCache(decode, generation), False
        self._arrived = asyncio.Event()
        self.failures = 0
        """The number of targets that have failed since the last success."""

    async def generate(
        self,
        source: Mapping[str, Array],
        size: int,
        search: Callable[[], Search],
        limit: int,
        grew: Callable[[Hypothesis], None] | None = None,
        caller: Caller = NOBODY,
        start: int | None = None,
    ) -> Hypothesis:
        """Return the target that a search finds in at most `limit` tokens. Cancelling frees its rows at the next step.

        The source is given as arrays by port, and counts as `size` tokens. The target begins with the token `start`;
        without one, it continues its source. `grew`, if given, is called after every step with the first live
        hypothesis. If a batch fails, each of its targets starts again, alone, except those for which `grew` was called
        already: they fail. A target for which it is not given may start again to make room for others.
        """
        future: asyncio.Future[Hypothesis] = asyncio.get_running_loop().create_future()
        first, position = (int(source["source"][-1]), len(source["source"]) - 1) if start is None else (start, 0)
        job = Job(source, size, first, position, search, limit, future, grew, caller)
        self._wait(job)
        self._arrived.set()
        with self._tracer.span("generate", {"lane": self._name}):
            try:
                return await job.future
            except asyncio.CancelledError:
                if job in self._waiting:  # what waits holds its source, which no budget counts any more
                    self._waiting.remove(job)
                    self._metrics.cancelled.labels("queued").inc()
                raise

    async def work(self) -> None:
        """Take steps until cancelled. Between two turns the device serves others."""
        self._stopping, place = False, Place()
        try:
            while True:
                await self._arrived.wait()
                asked = time.monotonic()
                async with self._device.turn(self._decode.cores, self._share, place) as run:
                    begun = time.monotonic()
                    until = begun + min(begun - asked, MOST_HELD_SECONDS)
                    await self._work(run, until)
                    while self._running and run.awaited and time.monotonic() < until:
                        self._report()
                        await self._work(run, until)
                self._report()
                if not self._waiting and not self._running:
                    self._arrived.clear()
        except Exception as error:  # of any kind: no caller may wait for ever
            for job in (*self._running, *self._waiting):
                self._fail(job, error)
            self._drop(self._running)
            raise
        finally:
            self._stopping = True

    async def _work(self, run: Turn, until: float) -> None:
        """Let jobs join, and take steps: while others wait for the device, until a time (monotonic)."""
        self._drop([job for job in self._running if job.future.done()])
        self._put_back()
        joining = self._admit(self._settings.batch_tokens * min(run.room, 1.0))
        if joining:
            run.share = max(run.share, min(_padded_size(joining) / self._settings.batch_tokens, 1.0))
            await self._run_jobs(run(self._join, joining), joining, run)
        if self._running:
            await self._run_jobs(run(self._steps, run, until), self._running, run)

    async def _run_jobs(self, work: "asyncio.Future[int]", jobs: list[Job], turn: Turn) -> None:
        """Wait for work on the device, which returns its number of tokens. Jobs that fail together run again, alone."""
        start = time.monotonic()
        try:
            with while_wanted([job.future for job in jobs], turn.stop):
                cost = await work
        except Exception as raised:
            # the caches take memory outside of runs, whose own errors say so already
            error = DeviceFull(f"{self._name}: no memory is left for the caches", 1) if no_memory(raised) else raised
            self._drop([job for job in jobs if job in self._running])
            wanted = [job for job in jobs if not job.future.done()]
            for job in wanted:
                if len(jobs) > 1 and not job.streamed and not isinstance(error, DeviceLost):
                    job.restart(alone=True)
                    self._wait(job)
                else:
                    self._fail(job, error)
            if wanted and len(jobs) > 1:
                log.warning("a batch failed, its targets begin anew", lane=self._name, size=len(jobs), exc_info=raised)
        else:
            self._budget.spent(cost, (time.monotonic() - start) * turn.part)  # others run beside it

    def _wait(self, job: Job) -> None:
        cost = job.size + job.width * job.limit
        self._waiting.add(job, cost * STREAM_COST if job.grew else cost, job.caller)

    def _admit(self, most: float) -> list[Job]:
        """Take from the queue, in its order, the jobs that fit beside the running ones.

        A client of which some run leaves a part of the rows to others. The sources are encoded together, and have at
        most `most` padded tokens, unless the first one has more. While rows run, which must wait for that, they have no
        more than JOINING_TOKENS.
        """
        if self._running:
            most = min(most, JOINING_TOKENS)
        joining: list[Job] = []
        longest, full = 0, False
        for job in [job for job in self._waiting if job.future.done()]:
            self._waiting.remove(job)
            self._metrics.cancelled.labels("queued").inc()
        clients = {job.caller.client for job in self._running}
        share = self._settings.batch_rows - self._settings.batch_rows // LEFT
        for job in self._waiting:
            together = [*self._running, *joining, job]
            if job.caller.client in clients and (full or sum(one.width for one in together) > share):
                full = True  # nobody who has rows passes it
                continue
            if not self._fits(together):
                break
            longest = max(longest, job.size)
            if joining and longest * (len(joining) + 1) > most:
                break
            self._queue_seconds.observe(time.monotonic() - job.since)
            joining.append(job)
            clients.add(job.caller.client)
        self._waiting.take(joining)
        return joining

    def _put_back(self) -> None:
        """Before the caches grow, let the youngest jobs begin again later, until the others have room to go on.

        Those that stream stay: their clients have seen tokens.
        """
        if not self._cache.full:
            return
        while not self._fits(self._running):
            job = next((job for job in reversed(self._running) if not job.grew), None)
            if job is None:
                return
            self._drop([job])
            job.restart(alone=False)
            self._wait(job)

    def _fits(self, jobs: list[Job]) -> bool:
        """Return whether jobs may run together: one job always may, several within limits of rows and bytes.

        The bytes are those of all rows but the job's that has most, since that one may run alone. They count as long as
        the caches are now, since most targets end early (`_put_back`); streams count as long as they may become.
        """
        if len(jobs) <= 1:
            return True
        if any(job.alone for job in jobs) or sum(job.width for job in jobs) > self._settings.batch_rows:
            return False
        now = self._cache.next_capacity(max(job.needs for job in jobs), max(job.most for job in jobs))
        streams = [job for job in jobs if job.grew]
        last = max((job.most for job in streams), default=0)
        return max(self._bytes(jobs, now), self._bytes(streams, last)) <= self._settings.batch_cache_bytes

    def _bytes(self, jobs: Sequence[Job], capacity: int) -> int:
        """Return what rows of this capacity take, without those of the job that has most."""
        widths = [job.width for job in jobs]
        row = self._cache.row_bytes(capacity, max((job.size for job in jobs), default=0))
        return (sum(widths) - max(widths, default=0)) * row

    def _join(self, jobs: list[Job]) -> int:
        """Encode new sources in one batch and add their rows to the running ones; return the number of tokens."""
        feed = {name: padded([job.source[name] for job in jobs]) for name in jobs[0].source}
        encoded = self._encode.run({port.name: feed[port.name] for port in self._encode.graph.inputs}) | feed
        fresh = {name: encoded[name] for name in self._cache.names if name in encoded}
        sources, together = [index for index, job in enumerate(jobs) for _ in range(job.width)], [*self._running, *jobs]
        lengths = {"capacity": max(job.needs for job in together), "source": max(job.size for job in together)}
        rows = self._cache.join(sources, fresh, lengths, max(job.most for job in together))
        for job in jobs:
            job.rows, rows = rows[: job.width], rows[job.width :]
        self._running = together
        return _padded_size(jobs)

    def _steps(self, turn: Turn, until: float) -> int:
        """Take steps until a job has streamed or ended, another job waits, the caches are full, or the loop ends.

        If others wait for the device, they do so until a time (monotonic). Return the number of tokens.
        """
        taken = 0
        while True:
            start = time.monotonic()
            taken += self._step()
            self._run_seconds.observe(time.monotonic() - start)
            self._batch_items.inc(len(self._running))
            must_report = any(job.ended or job.grew for job in self._running)
            if must_report or self._waiting or self._cache.full or self._stopping:
                return taken
            if turn.awaited and time.monotonic() >= until:
                return taken

    def _step(self) -> int:
        """Run one step for every row and let every search select its tokens; return the number of rows."""
        count = self._cache.count
        tokens, positions = [0] * count, [0] * count
        for job in self._running:
            for row, one in zip(job.rows, job.search.live, strict=True):
                tokens[row] = one.tokens[-1] if one.tokens else job.first
                positions[row] = job.first_position + len(one.tokens)
        wants = [job.search.wants for job in self._running]
        most = max(1, *wants, *(job.search.alternatives for job in self._running))
        log_probabilities, candidates, logits = self._cache.step(
            tokens, positions, most, everything=ALL_CANDIDATES in wants
        )
        exact = log_probabilities.astype(np.float64)
        broken = np.isnan(exact).any()
        for job, want in zip(self._running, wants, strict=True):
            before = [one.tokens for one in job.search.live]
            likely, likely_tokens = _rows_of(exact, job.rows), _rows_of(candidates, job.rows)
            alternatives = alternatives_of(likely, likely_tokens, job.search.alternatives)
            try:
                if want == ALL_CANDIDATES and logits is not None:
                    parents = job.search.advance(_rows_of(logits, job.rows), None, alternatives)
                else:
                    parents = job.search.advance(finite(likely) if broken else likely, likely_tokens, alternatives)
            except Exception as error:  # fails this job only; the others go on
                job.failure = error
            else:
                if not before[0]:
                    self._first_token_seconds.observe(time.monotonic() - job.since)
                if not job.search.done and len(job.rows) > 1:
                    held = dict(zip(job.rows, before, strict=True))
                    sources = [job.rows[parent] for parent in parents]
                    job.rows = self._cache.continue_from(held, sources, job.first_position + 1)
        self._generated.inc(len(self._running))
        return count

    def _drop(self, jobs: Sequence[Job]) -> None:
        """Remove the rows of jobs from the running batch."""
        if not jobs:
            return
        moved = self._cache.leave([row for job in jobs for row in job.rows])
        self._running = [job for job in self._running if job not in jobs]
        self._cache.most = max((job.most for job in self._running), default=0)
        self._metrics.cancelled.labels("running").inc(sum(job.future.cancelled() for job in jobs))
        for job in self._running:
            job.rows = [moved.get(row, row) for row in job.rows]

    def _report(self) -> None:
        """Report the step to jobs that stream, and the result to jobs that are done or have failed."""
        for job in self._running:
            if job.failure:
                self._fail(job, job.failure)
                continue
            if job.grew:
                job.streamed = True
                job.grew(job.search.live[0])
            if job.search.done and not job.future.done():
                self.failures = 0
                best = job.search.best()
                self._budget.used(job.size + job.width * len(best.tokens), job.size + job.width * job.limit)
                job.future.set_result(best)
        self._drop([job for job in self._running if job.ended])

    def _fail(self, job: Job, error: Exception) -> None:
        if job.future.done():
            return
        self.failures += 1
        self._metrics.faults.labels(*self._labels, kind_of(error)).inc()
        log.error("decoding failed", lane=self._name, exc_info=error)
        failure = error if isinstance(error, Refusal) else RuntimeError(f"{self._name}: decoding failed")
        job.future.set_exception(failure)


def _padded_size(jobs: Sequence[Job]) -> int:
    """Return the tokens of the sources of jobs that are encoded together."""
    return max(job.size for job in jobs) * len(jobs)


def _rows_of(array: Array, rows: Sequence[int]) -> Array:
    """Return some rows of an array: a view of a single one, a copy of several."""
    return array[rows[0] : rows[0] + 1] if len(rows) == 1 else array.take(rows, 0)
