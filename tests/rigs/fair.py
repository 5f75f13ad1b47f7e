"""Fairness: one client asks for as much as it can, another for half of what it gets alone; each has an address.

What is asked for is legal. Nothing of the other client may be refused, and its requests may take, 99 of 100, three
times as long as alone, and as long as the longest run of the greedy one's beside that.

    python -m tests.rigs.fair
"""

import asyncio
import base64
import io
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import uvloop
from PIL import Image

from tests.rigs import mixes, report
from tests.rigs.client import Broken, Connection
from tests.rigs.load import Apart, Phase, Plan, Sample, closed
from tests.rigs.replica import Replica, two_cores
from tests.rigs.report import Verdict, percentile

GREEDY = "127.0.0.2"
"""The address of the greedy client. All of 127/8 is this machine."""
LONG = "the quick brown fox jumps over the lazy dog " * 20
ROUNDS = 3
REQUESTS = 1000
"""Of the other client, measured in a round, at least."""
LONGER = 3.0
LEARNING = 4.0
"""Seconds for which the greedy one is alone, to see how long its runs are."""
APART = 0.5
"""Seconds for which the greedy one is at work before the other comes."""


def _paths() -> bytes:
    image = base64.b64encode(mixes.SMALL).decode()
    options = {"method": "integrated", "steps": 256, "target": list(range(10))}
    return mixes.document(mixes.DIGITS + "/attention", images=[image], attention=options)


def _texts(priority: str) -> bytes:
    return mixes.document(mixes.MINILM + "/embed", inputs=[LONG] * 32, priority=priority)


@cache
def _pixels() -> bytes:
    file, picture = io.BytesIO(), Image.new("L", (4000, 3990), 0)
    picture.paste(255, (1900, 1000, 2100, 3000))
    picture.save(file, "PNG")
    return mixes.document(mixes.DIGITS + "/classify", images=[base64.b64encode(file.getvalue()).decode()] * 32)


def _both_sides() -> bytes:
    options = {"method": "integrated", "against": {"text": LONG}, "sides": "both", "steps": 8}
    return mixes.document(mixes.MINILM + "/attention", inputs=[LONG], attention=options)


@dataclass(frozen=True)
class Greed:
    """What a greedy client sends, on how many connections, and what the other sends meanwhile."""

    sent: Callable[[], bytes]
    connections: int
    other: str
    model: str = "digits"


GREEDS = {
    "paths": Greed(_paths, 1, "rollout"),
    "texts": Greed(lambda: _texts("interactive"), 4, "short text", "minilm"),
    "texts, batch": Greed(lambda: _texts("batch"), 4, "short text", "minilm"),
    "pixels": Greed(_pixels, 8, "classify"),
    "compare": Greed(lambda: mixes.image("/attention?evaluate=compare", mixes.SMALL), 4, "rollout"),
    "both sides": Greed(_both_sides, 2, "short text", "minilm"),
    "streams": Greed(lambda: mixes.document(mixes.DATES + "/generate", inputs=mixes.DATE, stream=True), 64, "generate"),
}


@dataclass
class Shared:
    """What one greedy client cost another. Rates are answers a second, times milliseconds."""

    greed: str
    other: str
    rate: float
    """What the other asks for: half of what it gets alone."""
    run_ms: float
    """The longest run, of the greedy one alone or beside the other: the mean of the graph's whose runs are longest."""
    alone_ms: float
    """How long the other waits alone, 99 of 100: the median of the rounds."""
    beside_ms: float
    times: float
    """`beside_ms` by what it may be: more than 1 is missed."""
    refused: int
    greedy: dict[str, int] = field(default_factory=dict)
    """What the greedy one was answered."""


@dataclass
class Fair(Verdict):
    """What greedy clients cost others."""

    shared: list[Shared] = field(default_factory=list)


def run(artifacts: Path, only: str = "", rounds: int = ROUNDS, requests: int = REQUESTS) -> Fair:
    """Measure each greedy client beside another."""
    served, loading = two_cores()
    result = Fair()
    with Replica(artifacts, cores=served, log_level="warning") as replica, Apart(loading) as apart:
        for name, greed in GREEDS.items():
            if only not in ("", name):
                continue
            if not (artifacts / greed.model).is_dir():
                report.progress("fair", f"{name}: left out, {greed.model} is not there")
                continue
            one = _measure(replica, apart, name, greed, rounds, requests, result.faults)
            result.shared.append(one)
            if one.refused:
                result.missed.append(f"{name}: {one.refused} of the other client were refused")
            if one.times > 1:
                result.missed.append(f"{name}: {one.beside_ms} ms is {one.times} of what it may be")
            report.progress("fair", str(one))
    return result


def _measure(
    replica: Replica, apart: Apart, name: str, greed: Greed, rounds: int, requests: int, faults: list[str]
) -> Shared:
    begin = time.monotonic()
    rate = len(closed(replica.port, greed.other, 6, 5.0)) / (time.monotonic() - begin) / 2
    before = _runs(replica)
    apart.submit(_ask_always, replica.port, name, LEARNING).result()
    run_alone = _longest(before, _runs(replica))
    seconds = requests / rate
    plan = Plan(replica.port, {greed.other: 1}, [Phase(rate, seconds)])
    alone, beside, runs, refused, greedy = [], [], [], 0, Counter[int]()
    for _ in range(rounds):
        alone.append(_p99(samples := apart.start(plan).result()))
        faults += [sample.fault for sample in samples if sample.fault][:5]
        before = _runs(replica)
        asking = apart.submit(_ask_always, replica.port, name, APART + seconds)
        time.sleep(APART)
        beside.append(_p99(samples := apart.start(plan).result()))
        faults += [sample.fault for sample in samples if sample.fault][:5]
        refused += sum(sample.status != 200 for sample in samples)
        greedy += asking.result()
        runs.append(max(run_alone, _longest(before, _runs(replica))))
    most = [LONGER * one + run for one, run in zip(alone, runs, strict=True)]
    return Shared(
        greed=name,
        other=greed.other,
        rate=round(rate, 1),
        run_ms=round(statistics.median(runs), 1),
        alone_ms=round(statistics.median(alone), 1),
        beside_ms=round(statistics.median(beside), 1),
        times=round(statistics.median(one / may for one, may in zip(beside, most, strict=True)), 2),
        refused=refused,
        greedy={str(status): count for status, count in sorted(greedy.items())},
    )


def _p99(samples: list[Sample]) -> float:
    return 1000 * percentile([sample.seconds for sample in samples if sample.status == 200], 0.99)


def _runs(replica: Replica) -> dict[str, tuple[float, float]]:
    """Return of each lane how many runs there were, and how many seconds they took."""
    families = {family.name: family for family in replica.metrics()}
    found: dict[str, dict[str, float]] = {}
    for sample in families["regard_run_seconds"].samples:
        lane = f"{sample.labels['model']}/{sample.labels['role']}"
        found.setdefault(lane, {})[sample.name.rpartition("_")[2]] = sample.value
    return {lane: (values.get("count", 0), values.get("sum", 0)) for lane, values in found.items()}


def _longest(before: dict[str, tuple[float, float]], after: dict[str, tuple[float, float]]) -> float:
    """Return the mean milliseconds of the runs between two looks, of the lane in which it is longest."""
    begun = {lane: before.get(lane, (0.0, 0.0)) for lane in after}
    return max(
        1000 * (seconds - begun[lane][1]) / (count - begun[lane][0])
        for lane, (count, seconds) in after.items()
        if count > begun[lane][0]
    )


def _ask_always(port: int, name: str, seconds: float) -> Counter[int]:
    """Ask as the greedy client does; return what it was answered."""
    return uvloop.run(_asking(port, GREEDS[name], seconds))


async def _asking(port: int, greed: Greed, seconds: float) -> Counter[int]:
    end, statuses, sent = time.monotonic() + seconds, Counter[int](), greed.sent()

    async def client() -> None:
        connection = await Connection.open(port, GREEDY)
        while time.monotonic() < end:
            try:
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + end - time.monotonic()):
                    statuses[(await connection.ask(sent)).status] += 1
            except (Broken, TimeoutError):  # it leaves what is not answered by then
                connection.reset()
                connection = await Connection.open(port, GREEDY)
        connection.close()

    await asyncio.gather(*(client() for _ in range(greed.connections)))
    return statuses


def main() -> int:
    """Run from the command line."""
    parser = report.arguments("Let one client ask for all that it can beside another.", REQUESTS)
    parser.add_argument("--only", choices=list(GREEDS), default="")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    random.seed(given.seed)
    with report.only_bundled(given.artifacts, "minilm") as artifacts:
        return report.finish("fair", run(artifacts, given.only, given.rounds, given.requests))


if __name__ == "__main__":
    sys.exit(main())
