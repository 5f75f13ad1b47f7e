"""An open-loop generator: requests arrive when they are meant to, whether or not earlier ones have been answered.

Latency counts from the intended moment, so that a service that stalls is charged with all that would have come
meanwhile. It runs in a process and on a core of its own.

    python -m tests.rigs.load --rate 200 --requests 10000
"""

import asyncio
import multiprocessing
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import uvloop

from tests.conftest import ROOT
from tests.rigs import mixes, report
from tests.rigs.client import Broken, Connection, Reply, request
from tests.rigs.replica import Replica, two_cores
from tests.rigs.report import Verdict, percentile

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds without an answer that are called a hang."""
FORBIDDEN = re.compile(
    rb"0x[0-9a-f]{6,}|object at|Traceback|site-packages|" + re.escape(str(ROOT).encode()) + rb"|" + mixes.MARK.encode()
)
"""What no refusal may hold: an address, a path of the server, or what the client sent."""
LAST_EVENTS = {"stream": b"event: done", "streamed completion": b"data: [DONE]"}
"""The event with which each stream must end."""


@dataclass(frozen=True)
class Phase:
    """So many requests a second for so long."""

    rate: float
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What is sent to a port: a mix of requests in phases, at random moments (Poisson) or evenly."""

    port: int
    mix: Mapping[str, float]
    phases: Sequence[Phase]
    seed: int = 0
    poisson: bool = True


class Sample(NamedTuple):
    """One request: when it was meant to be sent (monotonic), its case, its status, and how long it took."""

    meant: float
    name: str
    status: int
    """The status of the answer; 0 of a connection that broke, -1 of a client that left."""
    seconds: float
    late: float
    """How long after the intended moment it was sent: the generator's own delay."""
    fault: str = ""


@dataclass
class Loaded(Verdict):
    """What came of a load."""

    sent: int = 0
    rate: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    refused_p99_ms: float = 0.0
    late_p99_ms: float = 0.0


class Generator:
    """Sends a plan. Connections are kept and used again, the last first; as many are open as are needed at once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._idle: list[Connection] = []
        self.samples: list[Sample] = []

    async def run(self) -> None:
        """Send all requests and wait for all answers."""
        chance = random.Random(self._plan.seed)
        tasks: set[asyncio.Task[None]] = set()
        meant = time.monotonic() + 0.05
        for phase in self._plan.phases:
            end = meant + phase.seconds
            while meant < end:
                case = mixes.draw(self._plan.mix, chance)
                if (early := meant - time.monotonic()) > 0:
                    await asyncio.sleep(early)
                task = asyncio.create_task(self._send(case, meant))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                meant += chance.expovariate(phase.rate) if self._plan.poisson else 1 / phase.rate
            meant = end
        if tasks:
            await asyncio.wait(tasks)
        for connection in self._idle:
            connection.close()

    async def _send(self, case: mixes.Case, meant: float) -> None:
        late = time.monotonic() - meant
        status, fault = 0, ""
        try:
            async with asyncio.timeout(PATIENCE):
                if case.leaves is None:
                    reply = await self._ask(case)
                    status, fault = reply.status, wrong(case, reply)
                else:
                    status = await self._leave(case)
        except TimeoutError:
            fault = f"{case.name}: no answer within {PATIENCE:g} seconds"
        except (OSError, Broken) as error:
            fault = f"{case.name}: connection broke: {error}"
        self.samples.append(Sample(meant, case.name, status, time.monotonic() - meant, late, fault))

    async def _ask(self, case: mixes.Case) -> Reply:
        while True:
            old = bool(self._idle)
            connection = self._idle.pop() if old else await Connection.open(self._plan.port)
            try:
                reply = await connection.ask(case.request)
            except Broken:
                connection.close()
                if not old:  # one that was kept may have been closed while it was idle
                    raise
                continue
            except BaseException:
                connection.close()
                raise
            if connection.reusable:
                self._idle.append(connection)
            else:
                connection.close()
            return reply

    async def _leave(self, case: mixes.Case) -> int:
        connection = await Connection.open(self._plan.port)
        connection.leave(case.request)
        await asyncio.sleep(case.leaves or 0)
        connection.reset()
        return -1


def wrong(case: mixes.Case, reply: Reply) -> str:
    """Say what is wrong with an answer, if anything is."""
    if reply.status not in case.right and reply.status not in (429, 503, 504):
        return f"{case.name}: status {reply.status}: {reply.body[:200]!r}"
    if reply.status != 200 and (found := FORBIDDEN.search(reply.body)):
        return f"{case.name}: status {reply.status} tells {found[0]!r}"
    if reply.status == 200 and LAST_EVENTS.get(case.name, b"") not in reply.body:
        return f"{case.name}: ended without its last event"
    return ""


class Apart:
    """A process on a core of its own for a generator, and one that watches the health endpoints beside it."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._pool = ProcessPoolExecutor(
            2, multiprocessing.get_context("spawn"), initializer=os.sched_setaffinity, initargs=(0, set(cores))
        )

    def __enter__(self) -> "Apart":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def submit(self, function: Callable[..., T], *arguments: object) -> "Future[T]":
        """Begin to run a function there."""
        return self._pool.submit(function, *arguments)

    def start(self, plan: Plan) -> "Future[list[Sample]]":
        """Begin to send a plan."""
        return self._pool.submit(_send, plan)

    def watch(self, port: int, seconds: float) -> "Future[Health]":
        """Begin to ask for health, ten times a second."""
        return self._pool.submit(_watch, port, seconds)


def _send(plan: Plan) -> list[Sample]:
    generator = Generator(plan)
    uvloop.run(generator.run())
    return generator.samples


@dataclass
class Health:
    """How long the health endpoints took to answer, in seconds, and which answers were wrong."""

    live: list[float] = field(default_factory=list)
    ready: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def late(self, limit: float = 0.1) -> list[str]:
        """Say which did not answer within the limit, 99 of 100."""
        p99 = {"live": percentile(self.live, 0.99), "ready": percentile(self.ready, 0.99)}
        return [f"{name}: p99 {value * 1000:.0f} ms" for name, value in p99.items() if value > limit]


def _watch(port: int, seconds: float) -> Health:
    return uvloop.run(_ask_for_health(port, seconds))


async def _ask_for_health(port: int, seconds: float) -> Health:
    health = Health()
    end = time.monotonic() + seconds
    connection: Connection | None = None
    while time.monotonic() < end:
        for path, taken in (("/health/live", health.live), ("/health/ready", health.ready)):
            start = time.monotonic()
            try:
                connection = connection or await Connection.open(port)
                status = (await connection.ask(request("GET", path))).status
            except (OSError, Broken) as error:
                health.faults.append(f"{path}: {error}")
                connection = None
                continue
            taken.append(time.monotonic() - start)
            if status != 200:
                health.faults.append(f"{path}: status {status}")
            if not connection.reusable:
                connection = None
        await asyncio.sleep(0.1)
    return health


def closed(port: int, kind: str, clients: int, seconds: float) -> list[tuple[float, float]]:
    """Return when and after how many seconds requests were answered, of clients that ask again at once."""

    async def main() -> list[tuple[float, float]]:
        end, found = time.monotonic() + seconds, []

        async def client(number: int) -> None:
            connection, chance = await Connection.open(port), random.Random(number)
            while (start := time.monotonic()) < end:
                reply = await connection.ask(mixes.MAKERS[kind](chance).request)
                if reply.status == 200:
                    found.append((now := time.monotonic(), now - start))
            connection.close()

        await asyncio.gather(*(client(number) for number in range(clients)))
        return found

    return asyncio.run(main())


def summary(samples: Sequence[Sample], seconds: float) -> Loaded:
    """Return the figures of samples."""
    stayed = [one for one in samples if one.status >= 0]
    accepted = [one.seconds for one in stayed if one.status == 200]
    refused = [one.seconds for one in stayed if one.status in (429, 503)]
    return Loaded(
        faults=[one.fault for one in samples if one.fault][:20],
        sent=len(samples),
        rate=round(len(samples) / seconds, 1),
        statuses={str(status): count for status, count in sorted(Counter(one.status for one in samples).items())},
        p50_ms=round(percentile(accepted, 0.5) * 1000, 1),
        p99_ms=round(percentile(accepted, 0.99) * 1000, 1),
        refused_p99_ms=round(percentile(refused, 0.99) * 1000, 1),
        late_p99_ms=round(percentile([one.late for one in samples], 0.99) * 1000, 1),
    )


def run(artifacts: Path, requests: int, rate: float, seed: int = 0, mix: Mapping[str, float] = mixes.GOOD) -> Loaded:
    """Load the service at a rate; every request must be answered rightly."""
    served, loading = two_cores()
    seconds = requests / rate
    with Replica(artifacts, cores=served) as replica, Apart(loading) as apart:
        return summary(apart.start(Plan(replica.port, mix, [Phase(rate, seconds)], seed)).result(), seconds)


def main() -> int:
    """Run from the command line."""
    parser = report.arguments("Load the service at a fixed rate.", 10_000)
    parser.add_argument("--rate", type=float, default=100, help="requests a second")
    parser.add_argument("--mix", choices=["good", "mixed", *mixes.MAKERS], default="good")
    given = parser.parse_args()
    mix = {"good": mixes.GOOD, "mixed": mixes.MIXED}.get(given.mix, {given.mix: 1.0})
    with report.only_bundled(given.artifacts, mixes.DETECTOR) as artifacts:
        mix = mix if given.mix in mixes.MAKERS else mixes.served(mix, artifacts)
        return report.finish("load", run(artifacts, given.requests, given.rate, given.seed, mix))


if __name__ == "__main__":
    sys.exit(main())
