"""Seconds from a start to readiness, processor time and memory, of one or more checkouts in turns.

`python -m benchmarks.start ARTIFACTS [CHECKOUT ...]`, by default of this checkout alone. Processor time and memory are
those of all processes of the service: its own, the trial's, and those that decode images. A first start, which does not
count, leaves Python's bytecode behind; an image has it too.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from benchmarks.peers import ROOT
from benchmarks.running_service import free_port

TURNS = 15
TICKS = os.sysconf("SC_CLK_TCK")


def descendants(pid):
    """Return the ids of a process and of all below it."""
    below = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        below.setdefault(parent, []).append(int(folder.name))
    found = [pid]
    for state in found:
        found += below.get(state, [])
    return found


def used(pid):
    """Return the processor seconds of a process and of its children that have ended, and its MB (PSS)."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    shares = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    held = next(int(line.split()[1]) for line in shares if line.startswith("Pss:"))
    return sum(map(int, stat[11:15])) / TICKS, held * 1024 / 1e6


def start(checkout, artifacts):
    """Start the service once; return its seconds until it is ready, its processor seconds, and its MB."""
    port = free_port()
    without = ("REGARD_", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(without)}
    environment |= {"REGARD_ARTIFACTS": str(artifacts), "REGARD_PORT": str(port), "REGARD_DRAIN_SECONDS": "0"}
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "service"],
        cwd=checkout,
        env=environment | {"PYTHONPATH": str(checkout)},
        stdout=subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready"):
                    break
            except urllib.error.URLError:
                if process.poll() is not None:
                    raise RuntimeError(f"{checkout}: the service ended") from None
                time.sleep(0.01)
        seconds = time.perf_counter() - begun
        time.sleep(1)  # for what has been put off
        return seconds, *map(sum, zip(*map(used, descendants(process.pid)), strict=True))
    finally:
        process.terminate()
        process.wait(timeout=30)


def main():
    """Print a row for each checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifacts", type=lambda name: Path(name).resolve())
    parser.add_argument("checkouts", nargs="*", type=lambda name: Path(name).resolve(), default=[ROOT])
    given = parser.parse_args()
    found = {checkout: [] for checkout in given.checkouts}
    for turn in range(TURNS + 1):
        for checkout, starts in found.items():
            taken = start(checkout, given.artifacts)
            if turn:
                starts.append(taken)
    print(f"| checkout | ready, s (least to most of {TURNS}) | processor, s | memory, MB |\n|---|---|---|---|")
    for checkout, starts in found.items():
        ready, processor, memory = zip(*starts, strict=True)
        print(
            f"| {checkout.name} | {statistics.median(ready):.2f} ({min(ready):.2f} to {max(ready):.2f}) "
            f"| {statistics.median(processor):.2f} | {statistics.median(memory):.0f} |"
        )


if __name__ == "__main__":
    main()
