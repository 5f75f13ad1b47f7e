"""Memory, files and threads over many requests: what is held after a tenth of them is held at the end, and no more.

A tenth of the requests is hostile, another is cancelled at a random moment, the others are of every kind and length.
With `--seeded-leak` the service leaks a kilobyte a request, and the rig must find it.

    python -m tests.rigs.leak --requests 100000
"""

import asyncio
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression

from tests.rigs import mixes, report
from tests.rigs.client import Broken, Connection
from tests.rigs.load import PATIENCE, wrong
from tests.rigs.replica import Replica
from tests.rigs.report import Verdict

CLIENTS = 16
KEPT = 200
"""Requests that the service keeps for later attention: few, so that they are all there after a tenth of a run."""
LEARNED = ("regard_queue_tokens_limit", "regard_queue_map_bytes_limit", "regard_queue_pixels_limit")
"""Gauges that follow how quick the work was, and need not be what they were."""
MOST_BYTES = 10 << 20
MOST_SHARE = 0.01


@dataclass
class Leak(Verdict):
    """What was held. Bytes are of resident memory; `before` is after a tenth of the requests."""

    sent: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    bytes_before: int = 0
    bytes_after: int = 0
    bytes_a_request: float = 0.0
    """The slope of a line through what was held between."""
    files: tuple[int, int] = (0, 0)
    threads: tuple[int, int] = (0, 0)


def run(artifacts: Path, requests: int, seed: int = 0, leaked: int = 0) -> Leak:
    """Send requests and compare; `leaked` bytes a request are left by a service that is made to."""
    before = ("env", f"LEAKED_BYTES={leaked}") if leaked else ()
    program = ("-m", "tests.rigs.leaking") if leaked else ("-m", "service")
    settings = {"keep_count": KEPT, "log_level": "warning"}
    with Replica(artifacts, before=before, program=program, **settings) as replica:
        return asyncio.run(_run(replica, mixes.served(mixes.MIXED, artifacts), requests, seed))


async def _run(replica: Replica, mix: Mapping[str, float], requests: int, seed: int) -> Leak:
    result = Leak()
    chance = random.Random(seed)
    gauges = replica.gauges()
    files, threads = 0, 0
    held: list[tuple[int, int]] = []
    start = time.monotonic()
    while result.sent < requests:
        many = min(max(requests // 100, 50), requests - result.sent)
        await _send(replica.port, [mixes.draw(mix, chance) for _ in range(many)], result)
        if result.sent >= requests / 10:
            await asyncio.sleep(0.05)
            held.append((result.sent, replica.rss()))
            if not files:
                files, threads = await _settled(replica)
        seconds = time.monotonic() - start
        if held:
            report.progress("leak", f"{result.sent} of {requests}, {held[-1][1] >> 20} MiB, {seconds:.0f} s")
    result.files, result.threads = (files, (await _settled(replica))[0]), (threads, replica.threads())
    result.bytes_a_request = round(linear_regression(*zip(*held, strict=True)).slope, 1)
    # a tenth of what was seen at either end, since memory goes up and down with what is in flight
    ends = max(len(held) // 10, 1)
    result.bytes_before = sum(size for _, size in held[:ends]) // ends
    result.bytes_after = sum(size for _, size in held[-ends:]) // ends
    _judge(result, gauges, replica.gauges())
    return result


def _judge(result: Leak, before: dict[str, float], after: dict[str, float]) -> None:
    grown = result.bytes_after - result.bytes_before
    if grown > max(MOST_BYTES, MOST_SHARE * result.bytes_before):
        result.faults.append(f"memory: grew by {grown} bytes from {result.bytes_before}")
    if result.files[1] > result.files[0]:
        result.faults.append(f"files: {result.files[1]} are open, {result.files[0]} were")
    if result.threads[1] > result.threads[0]:
        result.faults.append(f"threads: there are {result.threads[1]}, there were {result.threads[0]}")
    changed = {
        name: (value, after.get(name))
        for name, value in before.items()
        if after.get(name) != value and not name.startswith(LEARNED)
    }
    result.faults += [f"gauge {name}: was {was}, is {now}" for name, (was, now) in changed.items()]


async def _settled(replica: Replica) -> tuple[int, int]:
    """Return how many files and threads there are once the connections that were used have been closed."""
    await asyncio.sleep(1)
    return replica.files(), replica.threads()


async def _send(port: int, cases: Sequence[mixes.Case], result: Leak) -> None:
    waiting = list(cases)

    async def client() -> None:
        connection: Connection | None = None
        while waiting:
            case = waiting.pop()
            connection = connection or await Connection.open(port)
            status, fault = -1, ""
            if case.leaves is None:
                try:
                    async with asyncio.timeout(PATIENCE):
                        reply = await connection.ask(case.request)
                    status, fault = reply.status, wrong(case, reply)
                except (Broken, TimeoutError) as error:
                    status, fault = 0, f"{case.name}: {type(error).__name__}"
                    connection.reusable = False
            else:
                connection.leave(case.request)
                await asyncio.sleep(case.leaves)
                connection.reset()
                connection.reusable = False
            if not connection.reusable:
                connection.close()
                connection = None
            result.sent += 1
            result.statuses[str(status)] = result.statuses.get(str(status), 0) + 1
            if fault and len(result.faults) < 20:
                result.faults.append(fault)
        if connection:
            connection.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


def main() -> int:
    """Run from the command line."""
    parser = report.arguments("Look for what grows with the number of requests.", 100_000)
    parser.add_argument(
        "--seeded-leak",
        type=int,
        nargs="?",
        const=1024,
        default=0,
        metavar="BYTES",
        help="a request, left behind: the exit status is 0 if they are found",
    )
    given = parser.parse_args()
    with report.only_bundled(given.artifacts, mixes.DETECTOR) as artifacts:
        found = run(artifacts, given.requests, given.seed, given.seeded_leak)
    if not given.seeded_leak:
        return report.finish("leak", found)
    report.finish("seeded leak", found)
    return 0 if any(fault.startswith("memory") for fault in found.faults) else 1


if __name__ == "__main__":
    sys.exit(main())
