"""The simulation of benchmarks/scale held against two real replicas behind HAProxy.

Requests arrive at random moments at a low, a middle and too high a rate, and the simulation gets the same moments.
What it is told is measured through the proxy just before and after: how long a request takes alone, and how many are
answered when some always wait. A rate during which the latter drifts is measured again.

`computed`: each replica has a core of its own, which it shares with the proxy and the generator. `paced`: its batches
take a known time, nearly all of which they sleep (tests/rigs/pacing.py), so that what is compared is the queues, the
batches, the refusals and the proxy, and not the machine.

How near they are is for a person to read, from a run by hand on a machine that does nothing else: the slow test of it
only asks that both refuse far above the most, and neither far below it.

    python -m tests.rigs.scale --artifacts model/artifacts --seconds 30
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from benchmarks.scale.events import Simulation
from benchmarks.scale.replicas import Service
from tests.rigs import report
from tests.rigs.haproxy import Haproxy
from tests.rigs.load import Apart, Phase, Plan, Sample, closed
from tests.rigs.pacing import EACH, FIRST
from tests.rigs.replica import Replica
from tests.rigs.report import Verdict, percentile

KINDS = ("paced", "computed")
MIX = "classify"
SHARES = (0.4, 0.8, 1.5)
"""The shares, of what two replicas answered at most, that are sent."""
DEADLINE = 10.0
PACED_TOKENS = 400
WAITING = 32
"""Clients that keep a queue filled while the most is measured."""
CALIBRATION_SECONDS = 6.0
STEADY, LATE = 0.1, 25.0
"""A rate during which the machine's speed drifted by more, or the generator was later (milliseconds), is measured
again."""


@dataclass
class Compared:
    """One rate, measured and simulated; milliseconds, and shares of what was sent."""

    kind: str
    share: float
    rate: float
    answered: tuple[float, float]
    mean_ms: tuple[float, float]
    median_ms: tuple[float, float]
    p99_ms: tuple[float, float]
    refused: tuple[float, float]
    given_up: tuple[float, float]
    late_ms: float
    """The generator's own delay, 99 %."""
    drift: float
    """By how much the most that was answered changed from before to after."""


@dataclass
class Scale(Verdict):
    """What came of it."""

    loads: list[Compared] = field(default_factory=list)


def run(
    artifacts: Path, seconds: float, seed: int, kinds: Sequence[str], shares: Sequence[float] = SHARES, tries: int = 3
) -> Scale:
    """Compare every kind at every rate."""
    result = Scale()
    for kind in kinds:
        with ExitStack() as stack:
            replicas = [stack.enter_context(replica) for replica in _two(artifacts, kind)]
            proxy = stack.enter_context(Haproxy([replica.port for replica in replicas]))
            apart = stack.enter_context(Apart(sorted(os.sched_getaffinity(0))))
            apart.submit(_closed, proxy.port, 4, 3.0).result()
            cost = _cost(replicas[0], apart)
            for share in shares:
                found: list[Compared] = []
                while len(found) < tries and all(one.drift > STEADY or one.late_ms > LATE for one in found):
                    found.append(_try(proxy.port, kind, share, seconds, seed, cost, apart))
                    report.progress("scale", str(found[-1]))
                result.loads.append(min(found, key=lambda one: one.drift))
    result.faults = [f"{one.kind} at {one.share}: nothing was answered" for one in result.loads if not one.answered[0]]
    return result


def _two(artifacts: Path, kind: str) -> list[Replica]:
    if kind == "paced":
        # small batches, since the pictures of the bundled model are small
        program, settings = ("-m", "tests.rigs.pacing"), {"batch_tokens": PACED_TOKENS}
        return [Replica(artifacts, program=program, request_seconds=DEADLINE, **settings) for _ in range(2)]
    cores = sorted(os.sched_getaffinity(0))
    return [Replica(artifacts, cores=[cores[number % len(cores)]], request_seconds=DEADLINE) for number in range(2)]


def _try(port: int, kind: str, share: float, seconds: float, seed: int, cost: int, apart: Apart) -> Compared:
    """Measure a rate, between two measurements of the most that is answered, and simulate it."""

    def most() -> float:
        return len(apart.submit(_closed, port, WAITING, CALIBRATION_SECONDS).result()) / CALIBRATION_SECONDS

    before = most()
    alone = apart.submit(_closed, port, 2, CALIBRATION_SECONDS).result()
    samples = apart.start(Plan(port, {MIX: 1.0}, [Phase(share * before, seconds)], seed)).result()
    after = most()
    service = service_of(kind, alone, (before + after) / 4, cost)
    return compare(kind, share, samples, service, seconds, abs(after / before - 1))


def service_of(kind: str, alone: Sequence[float], most: float, cost: int) -> Service:
    """Return what the simulation needs: the times of requests alone, the most that one replica answered, the cost."""
    first = float(np.mean(alone))
    if kind == "paced":
        outside = np.maximum(np.array(alone) - FIRST, 0)
        return Service(FIRST, EACH, cost, outside=outside, most=PACED_TOKENS, deadline=DEADLINE)
    service = Service(first, first, cost, factors=np.array(alone) / first, deadline=DEADLINE)
    batch = min(service.batch, WAITING // 2)
    return replace(service, each=max((batch / most - first) / (batch - 1), 0.0))


def compare(
    kind: str, share: float, samples: Sequence[Sample], service: Service, seconds: float, drift: float
) -> Compared:
    """Send the same moments through the simulation."""
    meant = sorted(one.meant for one in samples)
    moments = np.array(meant) - meant[0]
    simulated = Simulation(service, moments, seconds + 2 * service.deadline, 2).run()
    real = [one.seconds for one in samples if one.status == 200]
    count = len(samples)

    def share_of(*statuses: int) -> float:
        return round(sum(one.status in statuses for one in samples) / count, 4)

    def both(function: object, scale: float = 1000.0) -> tuple[float, float]:
        first, second = (round(float(function(one)) * scale, 1) for one in (real, simulated.latencies))  # type: ignore[operator]
        return first, second

    return Compared(
        kind=kind,
        share=share,
        rate=round(count / seconds, 1),
        answered=both(lambda one: len(one) / seconds, 1.0),
        mean_ms=both(np.mean),
        median_ms=both(lambda one: percentile(list(one), 0.5)),
        p99_ms=both(lambda one: percentile(list(one), 0.99)),
        refused=(share_of(429, 503), round(simulated.counts["refused"] / count, 4)),
        given_up=(share_of(504), round(simulated.counts["expired"] / count, 4)),
        late_ms=round(percentile([one.late for one in samples], 0.99) * 1000, 1),
        drift=round(drift, 3),
    )


def _closed(port: int, clients: int, seconds: float) -> list[float]:
    """Return the times of the answers that came in time to clients that ask again as soon as they are answered."""
    end = time.monotonic() + seconds
    return [taken for at, taken in closed(port, MIX, clients, seconds) if at < end]


def _cost(replica: Replica, apart: Apart) -> int:
    """Return what a request costs the queue: the most that is held while there is one at a time."""
    asking = apart.submit(_closed, replica.port, 1, 2.0)
    held = [0.0]
    while not asking.done():
        held += [value for name, value in replica.gauges().items() if name.startswith("regard_queue_tokens[")]
    return max(int(max(held)), 1)


def table(found: Scale) -> str:
    """Return the figures for docs/capacity.md, each measured, then simulated."""
    head = (
        "| replicas | of the most | a second | answered a second | mean, ms | median, ms | p99, ms | refused "
        "| given up | generator late, p99 |"
    )
    lines = [head, "|---|---|---|---|---|---|---|---|---|---|"]
    for load in found.loads:
        times = [f"{a:,.0f} / {b:,.0f}" for a, b in (load.mean_ms, load.median_ms, load.p99_ms)]
        shares = [f"{a:.1%} / {b:.1%}" for a, b in (load.refused, load.given_up)]
        cells = [f"{load.answered[0]:.1f} / {load.answered[1]:.1f}", *times, *shares, f"{load.late_ms:.0f} ms"]
        lines.append(f"| {load.kind} | {load.share:.0%} | {load.rate:.1f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Run from the command line."""
    parser = report.arguments("Hold the simulation of benchmarks/scale against two replicas behind HAProxy.", 0)
    parser.add_argument("--seconds", type=float, default=40, help="of each rate")
    parser.add_argument("--kinds", choices=KINDS, nargs="+", default=KINDS)
    given = parser.parse_args()
    with report.only_bundled(given.artifacts) as artifacts:
        found = run(artifacts, given.seconds, given.seed, given.kinds)
    print(table(found), file=sys.stderr)
    return report.finish("scale", found)


if __name__ == "__main__":
    sys.exit(main())
