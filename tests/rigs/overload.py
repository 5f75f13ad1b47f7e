"""Overload: two, five and ten times what the service can do, sent open-loop.

It must go on answering as many as it can, each within what its queue allows, refuse the rest at once, stay live and
ready, and be as quick as before two seconds after the load has gone. A request that costs much more to answer than to
refuse is sent: on one core, every refusal takes its time from an answer.

    python -m tests.rigs.overload --seconds 60
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.rigs import mixes, report
from tests.rigs.client import Connection
from tests.rigs.load import Apart, Phase, Plan, Sample
from tests.rigs.replica import Replica, two_cores
from tests.rigs.report import Verdict, percentile

TIMES = (2, 5, 10)
QUEUE_TOKENS = 16_384
"""Less than by default, so that what waits is answered within a second or two."""
BEFORE, AFTER = 10.0, 4.0
"""Seconds at half of what the service can do, before and after the overload; before, so many that some of the requests
came close to each other."""
RECOVERY = 2.0
REFUSAL = 0.05
GOODPUT = 0.9


@dataclass
class Times:
    """One overload. Rates are answers a second, durations milliseconds at the 99th percentile."""

    times: float
    peak: float
    """What was answered at most just before: a machine's speed drifts."""
    goodput: float
    of_peak: float
    accepted_ms: float
    bound_ms: float
    refused: int
    refused_ms: float
    recovery_seconds: float
    live_ms: float
    ready_ms: float
    late_ms: float


@dataclass
class Overloaded(Verdict):
    """What came of overloads."""

    service_ms: float = 0.0
    loads: list[Times] = field(default_factory=list)


def run(artifacts: Path, seconds: float = 60, seed: int = 0, times: Sequence[float] = TIMES) -> Overloaded:
    """Measure what the service can do, then send more."""
    served, loading = two_cores()
    result = Overloaded()
    settings = {"queue_tokens": QUEUE_TOKENS, "log_level": "warning"}
    with Replica(artifacts, cores=served, **settings) as replica, Apart(loading) as apart:
        cost = _cost(replica)
        for many in times:
            peak = _peak(replica.port, min(seconds, 10))
            report.progress("overload", f"at most {peak:.1f} a second, each {cost} tokens of {QUEUE_TOKENS}")
            phases = [Phase(peak / 2, BEFORE), Phase(many * peak, seconds), Phase(peak / 2, AFTER)]
            watching = apart.watch(replica.port, BEFORE + seconds + AFTER)
            samples = apart.start(Plan(replica.port, {"heavy": 1}, phases, seed)).result()
            health = watching.result()
            first = min(sample.meant for sample in samples)
            calm = [one.seconds for one in samples if one.meant < first + BEFORE and one.status == 200]
            service = percentile(calm, 0.99)
            bound = QUEUE_TOKENS / cost / peak + service
            one = _figures(samples, first, seconds, many, peak, bound, service)
            one.live_ms = round(percentile(health.live, 0.99) * 1000, 1)
            one.ready_ms = round(percentile(health.ready, 0.99) * 1000, 1)
            result.service_ms = round(service * 1000, 1)
            result.loads.append(one)
            result.faults += [sample.fault for sample in samples if sample.fault][:5] + health.faults[:5]
            result.missed += _missed(one) + [f"{many}x: {what}" for what in health.late()]
            report.progress("overload", str(one))
    return result


def _figures(
    samples: Sequence[Sample], first: float, seconds: float, many: float, peak: float, bound: float, service: float
) -> Times:
    start, end = first + BEFORE, first + BEFORE + seconds
    over = [one for one in samples if start <= one.meant < end]
    accepted = [one for one in samples if one.status == 200]
    refused = [one.seconds for one in over if one.status == 429]
    # what is answered while the load is on, from the moment that the queue is full
    goodput = sum(start + 1 <= one.meant + one.seconds < end for one in accepted) / (seconds - 1)
    slow = [one.meant for one in samples if one.meant >= end and (one.status != 200 or one.seconds > 2 * service)]
    return Times(
        times=many,
        peak=round(peak, 1),
        goodput=round(goodput, 1),
        of_peak=round(goodput / peak, 3),
        accepted_ms=round(percentile([one.seconds for one in over if one.status == 200], 0.99) * 1000, 1),
        bound_ms=round(bound * 1000, 1),
        refused=len(refused),
        refused_ms=round(percentile(refused, 0.99) * 1000, 1),
        recovery_seconds=round(max(slow, default=end) - end, 2),
        live_ms=0.0,
        ready_ms=0.0,
        late_ms=round(percentile([one.late for one in over], 0.99) * 1000, 1),
    )


def _missed(one: Times) -> list[str]:
    held = {
        f"goodput {one.of_peak:.0%} of the peak": one.of_peak >= GOODPUT,
        f"accepted {one.accepted_ms} ms, at most {one.bound_ms}": one.accepted_ms <= one.bound_ms,
        f"refused {one.refused_ms} ms": one.refused_ms <= REFUSAL * 1000,
        f"recovery {one.recovery_seconds} s": one.recovery_seconds <= RECOVERY,
        "nothing was refused": one.refused > 0,
    }
    return [f"{one.times:g}x: {what}" for what, well in held.items() if not well]


def _peak(port: int, seconds: float, clients: int = 6) -> float:
    """Return how many requests a second are answered when there are always some waiting, and none too many."""

    async def main() -> float:
        start, answered = time.monotonic(), 0

        async def client() -> None:
            nonlocal answered
            connection = await Connection.open(port)
            while time.monotonic() < start + seconds:
                reply = await connection.ask(mixes.heavy())
                answered += reply.status == 200
            connection.close()

        await asyncio.gather(*(client() for _ in range(clients)))
        return answered / (time.monotonic() - start)

    return asyncio.run(main())


def _cost(replica: Replica) -> int:
    """Return what one request costs in the queue: its texts' tokens, and those that its beams may generate."""
    model = replica.http.get("/v1/models/dates").json()
    return 16 * (len(mixes.DATE) + 4 * int(model["limits"]["max_new_tokens"]))


def main() -> int:
    """Run from the command line."""
    parser = report.arguments("Send two, five and ten times what the service can do.", 0)
    parser.add_argument("--seconds", type=float, default=60, help="of each overload")
    given = parser.parse_args()
    with report.only_bundled(given.artifacts) as artifacts:
        return report.finish("overload", run(artifacts, given.seconds, given.seed))


if __name__ == "__main__":
    sys.exit(main())
