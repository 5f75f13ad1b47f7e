"""Show on a CPU that the kit packs, unpacks and measures: `python -m benchmarks.gpu_kit.rehearse`.

Small models, packed for this Python, unpacked in a folder of its own, and measured by the Python below the environment,
beside the packages that a machine for machine learning has: what the kit forgets to carry is missing there.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from benchmarks.gpu_kit.measure import PARTS
from benchmarks.gpu_kit.prepare import CODE
from benchmarks.gpu_kit.wheels import PRESENT, closure, lacking
from benchmarks.peers import ROOT

DONE = ROOT / "build" / "gpu-kit"
"""Results by what they depend on: without a change, nothing is rehearsed again."""


def key() -> str:
    """Return a hash of the files that the kit carries, and of the packages that are installed."""
    listed = subprocess.run(["git", "ls-files", "-s", *CODE], cwd=ROOT, capture_output=True, check=True).stdout
    changed = subprocess.run(["git", "diff", "HEAD", *CODE], cwd=ROOT, capture_output=True, check=True).stdout
    return hashlib.sha256(listed + changed + " ".join(lacking()).encode()).hexdigest()[:16]


def bare(to: Path) -> Path:
    """Make a folder of packages with what a machine for machine learning has, as links."""
    to.mkdir()
    for name in closure((*PRESENT, "transformers")):
        for file in distribution(name).files or ():
            top = file.parts[0]
            found = Path(str(distribution(name).locate_file(top)))
            if top not in ("..", "__pycache__") and not (to / top).exists() and found.exists():
                (to / top).symlink_to(found)
    return to


def rehearse(work: Path) -> tuple[dict[str, Any], dict[str, float]]:
    """Pack, unpack and measure in a folder; return the result, and the seconds that each took."""
    taken: dict[str, float] = {}

    def timed(name: str, *commands: list[object], **options: object) -> None:
        began = time.perf_counter()
        for command in commands:
            subprocess.run(command, check=True, **options)  # type: ignore[call-overload]
        taken[name] = time.perf_counter() - began

    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    prepare = [sys.executable, "-m", "benchmarks.gpu_kit.prepare", "--small", "--to", work / "kit", "--python", python]
    timed("packed", prepare, cwd=ROOT, stdout=sys.stderr)
    packs = sorted((work / "kit").iterdir())
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "REGARD_"))}
    environment["PYTHONPATH"] = str(bare(work / "bare"))
    below = getattr(sys, "_base_executable", sys.executable)
    # one by one, as where each call carries one
    unpack = [[below, packs[0] / "unpack.py", pack, "--to", work / "there"] for pack in packs]
    timed("unpacked", *unpack, cwd=work, env=environment, stdout=sys.stderr)
    shutil.rmtree(work / "kit")
    measure = [below, work / "there/measure.py", "--device", "cpu"]
    timed("measured", measure, cwd=work, env=environment, stdout=sys.stderr)
    return json.loads((work / "there/result.json").read_text()), taken


def main() -> None:
    """Rehearse, and raise SystemExit if a part fails or says nothing."""
    done = DONE / f"{key()}.json"
    if done.exists():
        print(f"nothing that the kit depends on has changed: {done.relative_to(ROOT)}")
        return
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        result, taken = rehearse(work)
        faults = [f"{part['part']}: {part['ended'] or 'no figure'}" for part in result["parts"]
                  if part["ended"] or not part["figures"]]  # fmt: skip
        for fault in faults:
            print((work / "there" / f"{fault.partition(':')[0]}.log").read_text()[-2000:], file=sys.stderr)
    print(", ".join(f"{name} in {seconds:.0f} s" for name, seconds in taken.items()))
    if faults or [part["part"] for part in result["parts"]] != list(PARTS):
        raise SystemExit(f"the kit does not work: {', '.join(faults)}")
    DONE.mkdir(parents=True, exist_ok=True)
    done.write_text(json.dumps(result | {"seconds": taken}, indent=1))


if __name__ == "__main__":
    main()
