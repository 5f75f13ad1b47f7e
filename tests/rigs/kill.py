"""A crash costs what was in flight: one of two replicas behind a proxy is killed, and only its open requests fail.

python -m tests.rigs.kill --rounds 20
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.rigs import report
from tests.rigs.drain import SETTLE, behind_a_proxy, command, start
from tests.rigs.report import Verdict


@dataclass
class Killed(Verdict):
    """What came of crashes."""

    rounds: int = 0
    sent: int = 0
    in_flight: int = 0
    """Requests that were on their way when a replica died, to either: those that were answered say by which."""
    failed: int = 0
    longest_start_seconds: float = 0.0


def run(artifacts: Path, rounds: int, seed: int = 0, clients: int = 200, pause: float = 0.5) -> Killed:
    """Kill replicas in turn while clients ask; only what was in flight may fail."""
    result = Killed(rounds=rounds)
    deaths: list[tuple[float, float, str]] = []
    with behind_a_proxy(artifacts, clients, pause, seed) as (running, asking):
        for turn in range(rounds):
            replica = running[turn % 2]
            before = time.monotonic()
            replica.kill()
            deaths.append((before, time.monotonic(), f"replica{replica.port}"))
            running[turn % 2] = start(artifacts, replica.port).wait_ready()
            taken = time.monotonic() - deaths[-1][1]
            result.longest_start_seconds = max(result.longest_start_seconds, round(taken, 1))
            time.sleep(SETTLE)
            report.progress("kill", f"round {turn + 1} of {rounds}")
        asked = asking.stop()
    result.sent = len(asked)
    failed = [one for one in asked if one.fault]
    result.failed = len(failed)
    for before, after, name in deaths:
        result.in_flight += sum(
            one.sent <= after and one.done >= before and (bool(one.fault) or one.replica == name) for one in asked
        )
    innocent = [
        one for one in failed if not any(one.sent <= after and one.done >= before for before, after, _ in deaths)
    ]
    result.faults += [f"was not in flight: {one.fault}" for one in innocent[:10]]
    return result


if __name__ == "__main__":
    sys.exit(command("kill", "Kill replicas behind a proxy.", 20, run))
