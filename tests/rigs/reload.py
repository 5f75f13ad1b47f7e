"""New versions under load: each is verified, warmed and swapped in, every fifth is spoilt and must change nothing.

A version's labels name it, so that an answer which one version computed and another worded would show.

    python -m tests.rigs.reload --swaps 100
"""

import json
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.rigs import report
from tests.rigs.clients import Clients
from tests.rigs.replica import Replica
from tests.rigs.report import Verdict
from tests.samples.ports import free_port

MIX = {"classify": 6.0, "rollout": 2, "several": 2}
MODEL = "digits"
MOST_BYTES, MOST_SHARE = 10 << 20, 0.01
SETTLED = 20
"""Swaps from which memory is compared; before, the allocator still takes what it will keep."""
SWAP_SECONDS = 60


class NotServed(Exception):
    """The service does not know how to load models again."""


@dataclass
class Reloaded(Verdict):
    """What came of swaps."""

    swaps: int = 0
    sent: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    versions: int = 0
    """How many different ones have answered."""
    bytes_before: int = 0
    """The median memory of the second tenth of the swaps, when what loading needs beside what serves was held once."""
    bytes_after: int = 0
    """The median memory of the last tenth of the swaps."""


def run(artifacts: Path, swaps: int, seed: int = 0, clients: int = 20, *, by_signal: bool = False) -> Reloaded:
    """Add versions while clients ask. `artifacts` is changed. Raises NotServed where versions cannot be swapped."""
    result = Reloaded(swaps=swaps)
    good = {"1"}
    held: list[int] = []
    newest = artifacts / MODEL / "1"
    write_version(newest, "1")
    with (
        Replica(artifacts, admin_port=free_port(), log_level="warning") as replica,
        Clients(replica.port, MIX, clients, 0.1, seed) as asking,
    ):
        time.sleep(2)
        for number in range(2, swaps + 2):
            spoilt = number % 5 == 0
            spoil = SPOIL[number // 5 % len(SPOIL)] if spoilt else None
            made = add_version(artifacts / MODEL, number, newest, spoil)
            outcome = reload(replica, by_signal=by_signal, version=None if spoilt else str(number))
            result.outcomes[outcome] = result.outcomes.get(outcome, 0) + 1
            if outcome != ("refused" if spoilt else "replaced"):
                result.faults.append(f"version {number}, {'spoilt' if spoilt else 'good'}: {outcome}")
            if not spoilt:
                good.add(str(number))
                newest = made
            held.append(replica.rss())
            report.progress("reload", f"{number - 1} of {swaps}: {outcome}, {held[-1] >> 20} MiB")
        asked = asking.stop()
    tenth = max(swaps // 10, 1)
    result.bytes_before = int(statistics.median(held[tenth : 2 * tenth]))
    result.bytes_after = int(statistics.median(held[-tenth:]))
    result.sent = len(asked)
    result.versions = len({one.version for one in asked})
    result.faults += sorted({one.fault for one in asked if one.fault})[:10]
    result.faults += sorted({f"an answer names {one.version!r}" for one in asked if one.version not in good})[:10]
    grown = result.bytes_after - result.bytes_before
    if swaps >= SETTLED and grown > max(MOST_BYTES, MOST_SHARE * result.bytes_before):
        result.faults.append(f"memory: grew by {grown} bytes from {result.bytes_before}")
    return result


def reload(replica: Replica, *, by_signal: bool = False, version: str | None = None) -> str:
    """Let the service look for new versions; return what became of the model.

    After a signal that is known only by `version` being served within a minute, or still not after some seconds.
    """
    if not by_signal:
        answer = replica.admin.post("/admin/reload")
        if answer.status_code in (404, 405):
            raise NotServed(f"/admin/reload: status {answer.status_code}")
        return next(one["outcome"] for one in answer.json()["models"] if one["model"] == MODEL)
    replica.process.send_signal(signal.SIGHUP)
    last = time.monotonic() + (SWAP_SECONDS if version else 5)
    while time.monotonic() < last:
        time.sleep(0.05)
        if replica.process.poll() is not None:
            raise NotServed(f"SIGHUP: exit status {replica.process.returncode}")
        if version and replica.http.get(f"/v1/models/{MODEL}").json()["version"] == version:
            return "replaced"
    return "refused"


def write_version(folder: Path, version: str) -> None:
    """Let a folder be a version, whose labels name it."""
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["version"] = version
    manifest["labels"] = [f"version-{version} {index}" for index in range(10)]
    file.write_text(json.dumps(manifest))


def add_version(model: Path, number: int, newest: Path, spoil: Callable[[Path], None] | None = None) -> Path:
    """Copy a good version under a new number, whole or spoilt; it appears at once, as a mount would."""
    making = Path(shutil.copytree(newest, model / f".{number}"))
    write_version(making, str(number))
    if spoil:
        spoil(making)
    return making.rename(model / str(number))


def truncate(folder: Path) -> None:
    """Take the end from the weights."""
    file = folder / "weights.bin"
    file.write_bytes(file.read_bytes()[:-1000])


def flip(folder: Path) -> None:
    """Change a bit of the weights, whose size stays."""
    file = folder / "weights.bin"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _drop(folder: Path) -> None:
    (folder / "predict.onnx").unlink()


def _mangle(folder: Path) -> None:
    (folder / "manifest.json").write_text("{")


SPOIL = (truncate, flip, _drop, _mangle)


def main() -> int:
    """Run from the command line."""
    parser = report.arguments("Swap versions under load.", 0)
    parser.add_argument("--swaps", type=int, default=100)
    parser.add_argument("--signal", action="store_true", help="by SIGHUP rather than /admin/reload")
    given = parser.parse_args()
    with report.only_bundled(given.artifacts) as artifacts:
        return report.finish("reload", run(artifacts, given.swaps, given.seed, by_signal=given.signal))


if __name__ == "__main__":
    sys.exit(main())
