"""Unpack what was carried: `python3 kit/1/unpack.py kit/* --to there`. It needs Python alone, and says what is missing.

Packs may come one by one: each call unpacks what is there, and the last fills the models.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packs", type=Path, nargs="+")
    parser.add_argument("--to", type=Path, default=Path("there"))
    arguments = parser.parse_args()
    began, there = time.perf_counter(), arguments.to.resolve()
    there.mkdir(parents=True, exist_ok=True)
    kit = json.loads((arguments.packs[0] / "kit.json").read_text())
    for name in ("kit.json", "measure.py"):
        shutil.copy(arguments.packs[0] / name, there / name)
    for name, sha256 in kit["files"].items():
        part = there / name.partition(".")[0]
        found = next((pack / name for pack in arguments.packs if (pack / name).is_file()), None)
        if part.exists() or found is None:
            continue
        if hashlib.sha256(found.read_bytes()).hexdigest() != sha256:
            print(f"{name}: damaged, carry its pack again", flush=True)
            continue
        with tarfile.open(found) as packed:
            packed.extractall(part, filter="data")
        print(f"{time.perf_counter() - began:4.0f} s  {name}", flush=True)
    missing = [name for name in kit["files"] if not (there / name.partition(".")[0]).exists()]
    if missing:
        print(f"still to be carried: {', '.join(missing)}")
        return
    site = there / "site"
    if not site.exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
        subprocess.run([*install, "--target", site, *sorted((there / "wheels").glob("*.whl"))], check=False)
        if (there / "runtime/site").exists():
            shutil.copytree(there / "runtime/site", site, dirs_exist_ok=True)
        print(f"{time.perf_counter() - began:4.0f} s  packages", flush=True)
    fill = "import sys, pathlib, benchmarks.gpu_kit.weights as w; w.fill(*map(pathlib.Path, sys.argv[1:]))"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(site), str(there / "code"), os.environ.get("PYTHONPATH")])),
    }
    fills = []
    for model in (there / "models/timed").iterdir():
        target = there / "filled" / model.name / "1"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            fills.append(
                subprocess.Popen([sys.executable, "-c", fill, model, target], cwd=there / "code", env=environment)
            )
    failed = [process.wait() for process in fills]
    print(f"{time.perf_counter() - began:4.0f} s  models" + (": some could not be filled" if any(failed) else ""))


if __name__ == "__main__":
    main()
