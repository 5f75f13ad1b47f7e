"""Overload: two, five and ten times what the service can do, sent open-loop, for texts, images, generation, attention.

It must go on answering as many as it can, each within its deadline, refuse the rest at once, stay live and ready, and
be as quick as before once the load has gone and what waited is answered. Requests that cost much more to answer than to
refuse are sent: on one core, every refusal takes its time from an answer.

    python -m tests.rigs.overload --seconds 60
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from service.batching.admission import WAITING_SHARE
from tests.rigs import report
from tests.rigs.load import Apart, Phase, Plan, Sample, closed
from tests.rigs.replica import Replica, two_cores
from tests.rigs.report import Verdict, percentile

TIMES = (2, 5, 10)
KINDS = {"texts": "minilm", "images": "digits", "heavy": "dates", "heavy maps": "digits"}
"""What is sent, and the model that answers it. Of models that are not there the kind is left out."""
DEADLINE = 10.0
"""The seconds of a deadline that is shorter than by default, so that what waits is answered soon."""
BEFORE = 5.0
"""Seconds at half of what the service can do, before the overload; enough that some requests come close to others."""
QUEUE = DEADLINE * WAITING_SHARE
"""Seconds of work that may wait, and after the overload must be done."""
AFTER = QUEUE + 5.0
"""Seconds at half of what the service can do, after the overload."""
RECOVERY = QUEUE + 2.0
REFUSAL = 0.05
GOODPUT = 0.9


@dataclass
class Times:
    """One overload. Rates are answers a second, durations milliseconds at the 99th percentile."""

    kind: str
    times: float
    peak: float
    """What was answered at most just before: a machine's speed drifts."""
    goodput: float
    of_peak: float
    accepted_ms: float
    refused: int
    refused_ms: float
    too_slow: int
    """Requests that were admitted and then given up with 504."""
    recovery_seconds: float
    service_ms: float
    live_ms: float = 0.0
    ready_ms: float = 0.0
    late_ms: float = 0.0


@dataclass
class Overloaded(Verdict):
    """What came of overloads."""

    loads: list[Times] = field(default_factory=list)


def run(
    artifacts: Path,
    seconds: float = 60,
    seed: int = 0,
    times: Sequence[float] = TIMES,
    kinds: Sequence[str] = tuple(KINDS),
) -> Overloaded:
    """Measure what the service can do of each kind, then send more."""
    served, loading = two_cores()
    result = Overloaded()
    there = {folder.name for folder in artifacts.iterdir()}
    settings = {"request_seconds": DEADLINE, "log_level": "warning"}
    with Replica(artifacts, cores=served, **settings) as replica, Apart(loading) as apart:
        for kind in kinds:
            if KINDS[kind] not in there:
                report.progress("overload", f"{kind}: left out, {KINDS[kind]} is not there")
                continue
            for many in times:
                peak = _peak(replica.port, kind, min(seconds, 10))
                report.progress("overload", f"{kind}: at most {peak:.1f} a second")
                phases = [Phase(peak / 2, BEFORE), Phase(many * peak, seconds), Phase(peak / 2, AFTER)]
                watching = apart.watch(replica.port, BEFORE + seconds + AFTER)
                samples = apart.start(Plan(replica.port, {kind: 1}, phases, seed)).result()
                health = watching.result()
                one = _figures(kind, samples, seconds, many, peak)
                one.live_ms = round(percentile(health.live, 0.99) * 1000, 1)
                one.ready_ms = round(percentile(health.ready, 0.99) * 1000, 1)
                result.loads.append(one)
                result.faults += [sample.fault for sample in samples if sample.fault][:5] + health.faults[:5]
                result.missed += _missed(one) + [f"{kind} {many}x: {what}" for what in health.late()]
                report.progress("overload", str(one))
    return result


def _figures(kind: str, samples: Sequence[Sample], seconds: float, many: float, peak: float) -> Times:
    first = min(sample.meant for sample in samples)
    start, end = first + BEFORE, first + BEFORE + seconds
    service = percentile([one.seconds for one in samples if one.meant < start and one.status == 200], 0.99)
    over = [one for one in samples if start <= one.meant < end]
    accepted = [one for one in samples if one.status == 200]
    refused = [one.seconds for one in over if one.status == 429]
    # what is answered while the load is on, from the moment that the queue is full
    goodput = sum(start + 1 <= one.meant + one.seconds < end for one in accepted) / (seconds - 1)
    slow = [one.meant for one in samples if one.meant >= end and (one.status != 200 or one.seconds > 2 * service)]
    return Times(
        kind=kind,
        times=many,
        peak=round(peak, 1),
        goodput=round(goodput, 1),
        of_peak=round(goodput / peak, 3),
        accepted_ms=round(percentile([one.seconds for one in over if one.status == 200], 0.99) * 1000, 1),
        refused=len(refused),
        refused_ms=round(percentile(refused, 0.99) * 1000, 1),
        too_slow=sum(one.status == 504 for one in samples),
        recovery_seconds=round(max(slow, default=end) - end, 2),
        service_ms=round(service * 1000, 1),
        late_ms=round(percentile([one.late for one in over], 0.99) * 1000, 1),
    )


def _missed(one: Times) -> list[str]:
    held = {
        f"goodput {one.of_peak:.0%} of the peak": one.of_peak >= GOODPUT,
        f"{one.too_slow} admitted and given up": not one.too_slow,
        f"refused {one.refused_ms} ms": one.refused_ms <= REFUSAL * 1000,
        f"recovery {one.recovery_seconds} s": one.recovery_seconds <= RECOVERY,
        "nothing was refused": one.refused > 0,
    }
    return [f"{one.kind} {one.times:g}x: {what}" for what, well in held.items() if not well]


def _peak(port: int, kind: str, seconds: float, clients: int = 6) -> float:
    """Return how many requests a second are answered when there are always some waiting, and none too many."""
    start = time.monotonic()
    return len(closed(port, kind, clients, seconds)) / (time.monotonic() - start)


def main() -> int:
    """Run from the command line."""
    parser = report.arguments("Send two, five and ten times what the service can do.", 0)
    parser.add_argument("--seconds", type=float, default=60, help="of each overload")
    parser.add_argument("--times", type=float, nargs="+", default=TIMES)
    parser.add_argument("--kinds", choices=list(KINDS), nargs="+", default=list(KINDS))
    given = parser.parse_args()
    with report.only_bundled(given.artifacts, "minilm") as artifacts:
        return report.finish("overload", run(artifacts, given.seconds, given.seed, given.times, given.kinds))


if __name__ == "__main__":
    sys.exit(main())
