"""Measure what was unpacked: `python3 there/measure.py`. It needs Python alone, and at most nine minutes.

Each part is a process with a time of its own; one that fails or takes too long keeps what it has measured, and the next
begins. After every figure `result.json` is written anew.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARTS = {
    "versions": 20, "right": 70, "vit": 110, "deit": 60, "marian": 90, "service": 60, "tests": 80, "profile": 50,
}  # fmt: skip
"""The parts, dearest question first, and the seconds that each may take: 540 in all."""


def run(name, seconds, device, save):
    """Run a part; pass each figure that it prints to `save`. Return why it ended early, or None."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            filter(
                None, [*(str(HERE / name) for name in ("site", "code", "code/client")), os.environ.get("PYTHONPATH")]
            )
        ),
        "PYTHONUNBUFFERED": "1",
        "TEST_DEVICE": device,
        "TEST_GPU_ARTIFACTS": str(HERE / "models/bundled"),
    }
    command = [sys.executable, "-m", "benchmarks.gpu_kit.parts", name, HERE, device]
    log = (HERE / f"{name}.log").open("w")
    process = subprocess.Popen(
        command,
        cwd=HERE / "code",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
    )
    timer = threading.Timer(seconds, lambda: os.killpg(process.pid, 9))
    timer.start()
    for line in process.stdout:
        try:
            save(json.loads(line))
        except ValueError:
            log.write(line)
    timer.cancel()
    status = process.wait()
    return {0: None, -9: f"ended after {seconds} seconds"}.get(status, f"failed: see {name}.log")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=Path, default=HERE / "result.json")
    parser.add_argument("--parts", choices=PARTS, nargs="+", default=list(PARTS))
    arguments = parser.parse_args()
    commit = json.loads((HERE / "kit.json").read_text())["commit"]
    result = {"commit": commit, "python": platform.python_version(), "device": arguments.device, "parts": []}
    for name in arguments.parts:
        began = time.perf_counter()
        part = {"part": name, "figures": []}
        result["parts"].append(part)

        def save(figure=None, part=part):
            if figure:
                part["figures"].append(figure)
                print(
                    "  ", *(f"{key} {value}" for key, value in figure.items() if value is not None), sep=" ", flush=True
                )
            arguments.out.write_text(json.dumps(result, indent=1))

        print(name, flush=True)
        reason = run(name, PARTS[name], arguments.device, save)
        part |= {"seconds": round(time.perf_counter() - began, 1), "ended": reason}
        save()
        if reason:
            print(f"   {name}: {reason}", flush=True)


if __name__ == "__main__":
    main()
