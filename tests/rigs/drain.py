"""A planned stop loses nothing: two replicas behind a proxy, one of them told to stop and started again, many times.

python -m tests.rigs.drain --rounds 50
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.rigs import report
from tests.rigs.clients import Asked, Clients
from tests.rigs.haproxy import Haproxy
from tests.rigs.replica import Replica
from tests.rigs.report import Verdict
from tests.samples.ports import free_port

MIX = {"classify": 5.0, "generate": 4, "stream": 1}
EXIT_SECONDS = 30
SETTLE = 1.2
"""Seconds until the proxy has seen that a replica is ready again."""


@dataclass
class Drained(Verdict):
    """What came of stops."""

    rounds: int = 0
    sent: int = 0
    replicas: dict[str, int] = field(default_factory=dict)
    exit_statuses: dict[str, int] = field(default_factory=dict)
    longest_exit_seconds: float = 0.0


def run(artifacts: Path, rounds: int, seed: int = 0, clients: int = 200, pause: float = 0.5) -> Drained:
    """Stop and start replicas in turn while clients ask; every request must be answered rightly."""
    result = Drained(rounds=rounds)
    with behind_a_proxy(artifacts, clients, pause, seed) as (running, asking):
        for turn in range(rounds):
            replica = running[turn % 2]
            status, seconds = _stop(replica)
            result.longest_exit_seconds = max(result.longest_exit_seconds, round(seconds, 1))
            result.exit_statuses[str(status)] = result.exit_statuses.get(str(status), 0) + 1
            if status != 0:
                result.faults.append(f"round {turn}: exit status {status} after {seconds:.1f} s")
            running[turn % 2] = start(artifacts, replica.port).wait_ready()
            time.sleep(SETTLE)
            report.progress("drain", f"round {turn + 1} of {rounds}")
        asked = asking.stop()
    count(result, asked)
    return result


@contextmanager
def behind_a_proxy(artifacts: Path, clients: int, pause: float, seed: int) -> Iterator[tuple[list[Replica], Clients]]:
    """Run two replicas, those that the block puts in their place too, behind a proxy by which clients ask them."""
    ports = [free_port(), free_port()]
    running = [start(artifacts, port) for port in ports]
    try:
        for replica in running:
            replica.wait_ready()
        with Haproxy(ports) as proxy, Clients(proxy.port, MIX, clients, pause, seed) as asking:
            time.sleep(SETTLE)
            yield running, asking
    finally:
        for replica in running:
            replica.kill()


def start(artifacts: Path, port: int) -> Replica:
    """Start a replica as it would be behind a proxy."""
    return Replica(artifacts, port=port, log_level="warning")


def count(result: Drained, asked: list[Asked]) -> None:
    """Note how many were asked, whom, and what failed."""
    result.sent = len(asked)
    result.replicas = dict(Counter(one.replica for one in asked))
    failed = [one for one in asked if one.fault]
    result.faults += [f"{len(failed)} of {len(asked)} failed"] if failed else []
    result.faults += [f"{kind}: {many}" for kind, many in Counter(one.fault for one in failed).most_common(10)]


def _stop(replica: Replica) -> tuple[int, float]:
    begun = time.monotonic()
    return replica.stop(EXIT_SECONDS), time.monotonic() - begun


def command(rig: str, what: str, rounds: int, run: Callable[..., Verdict]) -> int:
    """Run a rig of replicas behind a proxy from the command line."""
    parser = report.arguments(what, 0)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between an answer and the next request")
    given = parser.parse_args()
    with report.only_bundled(given.artifacts) as artifacts:
        found = run(artifacts, given.rounds, given.seed, given.clients, given.pause)
    return report.finish(rig, found)


if __name__ == "__main__":
    sys.exit(command("drain", "Stop replicas behind a proxy.", 50, run))
