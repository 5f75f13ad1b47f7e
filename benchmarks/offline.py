"""Pack this repository and the packages that it needs, for a machine with a GPU and without a network.

    python -m benchmarks.offline --to bundle --python 3.12 --without torch
    # carry the folder there
    sh bundle/run.sh                    # make gpu-test and make bench-gpu, as commands; results in bundle/results

The packages are those that are installed here, at their versions, as wheels for that machine's Python on Linux
(x86-64); onnxruntime-gpu takes the place of onnxruntime, and CUDA's libraries come with it. What `--without` names, and
what only that needs, is taken from the Python that runs there: a PyTorch with CUDA, for example. CUDA's libraries then
come from PyTorch's packages.
"""

import argparse
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.peers import ROOT, log

EXTRAS = ("export", "dev")
PEERS = ("ctranslate2",)
BUILDER = "setuptools>=77"
"""The build backend that installs this repository there, editable."""
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")
RUN = """#!/bin/sh
# Make an environment of what was packed, beside the packages that this Python has; run the tests and measure.
set -e
cd "$(dirname "$0")"
mkdir -p results code
tar -xf code.tar -C code
${PYTHON:-python3} -m venv --system-site-packages env
env/bin/python -m pip install --quiet --no-index --no-deps wheels/*.whl
env/bin/python -m pip install --quiet --no-index --no-deps --no-build-isolation --editable code --editable code/client
cd code
../env/bin/python -m pytest -m gpu "$@" > ../results/gpu-test.txt 2>&1 || echo "tests failed: results/gpu-test.txt"
../env/bin/python -m benchmarks.gpu > ../results/bench-gpu.md 2> ../results/bench-gpu.log
cat ../results/bench-gpu.md
"""


def of_extras(lines, *extras):
    """Return the requirements of a distribution with these extras."""
    found = map(Requirement, lines or ())
    return [one for one in found if not one.marker or any(one.marker.evaluate({"extra": name}) for name in extras)]


def needed(without):
    """Return the packages that the tests and benchmarks need, in any depth, at the versions that are installed here."""
    found, todo = {}, of_extras(requires("regard-service"), *EXTRAS)
    while todo:
        name = canonicalize_name(todo.pop().name)
        if name in found or name in without or name == "onnxruntime":
            continue
        try:
            found[name] = version(name).partition("+")[0]
        except PackageNotFoundError:
            continue  # for another platform or Python
        todo += of_extras(requires(name), "")
    return [f"{name}=={number}" for name, number in sorted(found.items())]


def main():
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True, help="the folder to write")
    parser.add_argument("--python", default="3.12", help="the version of Python there (default: 3.12)")
    parser.add_argument("--without", nargs="*", default=(), help="packages that are installed there")
    arguments = parser.parse_args()
    wheels = arguments.to / "wheels"
    wheels.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip"]
    download = [*pip, "download", "--quiet", "--only-binary=:all:", "--implementation", "cp", "--dest", wheels]
    download += ["--python-version", arguments.python, *(f"--platform={name}" for name in PLATFORMS)]
    for package in (*needed({canonicalize_name(name) for name in arguments.without}), *PEERS):
        log(package)
        if subprocess.run([*download, "--no-deps", package]).returncode:
            log(f"{package} has no wheel for that Python, and is not packed")
    with_cuda = [] if "torch" not in arguments.without else ["--no-deps"]
    of_gpu = of_extras(requires("regard-service"), "gpu")
    gpu = [str(one).partition(";")[0] for one in of_gpu if "extra" in str(one.marker)]
    subprocess.run([*download, *with_cuda, *gpu], check=True)
    subprocess.run([*download, "--no-deps", BUILDER], check=True)
    subprocess.run(["git", "archive", "--output", (arguments.to / "code.tar").resolve(), "HEAD"], cwd=ROOT, check=True)
    (arguments.to / "run.sh").write_text(RUN)
    size = sum(file.stat().st_size for file in arguments.to.rglob("*") if file.is_file())
    print(f"{arguments.to}: {size / 2**20:.0f} MiB; there: sh {arguments.to.name}/run.sh")


if __name__ == "__main__":
    main()
