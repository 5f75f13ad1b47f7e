"""`python -m export NAME ...`: run `export/command.py`, after PyTorch was installed if it is missing.

The service needs no PyTorch, so the environment that `make serve` makes has none.
"""

import importlib
import importlib.util
import signal
import subprocess
import sys
from pathlib import Path

from contract.names import BUNDLED

ROOT = Path(__file__).parents[1]
NEEDED = ("torch", "onnx", "onnxscript", "safetensors", "huggingface_hub", "sentencepiece", "onnxruntime")
"""Modules of the extra `export`, and of the runtime that verifies."""


def main() -> int:
    """Install what is missing, then run the command; return the exit status."""
    try:
        if importlib.util.find_spec("pydantic"):  # else not even the service is installed
            importlib.import_module("export.command").read_arguments()  # before anything is installed for a wrong one
        if not all(map(importlib.util.find_spec, NEEDED)) and (status := install_missing()):
            return status
        importlib.invalidate_caches()
    except KeyboardInterrupt:
        print("not exported: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    return int(importlib.import_module("export.command").main())


def install_missing() -> int:
    """Install what the exporter needs beside the service; return the exit status."""
    runtime = "gpu" if importlib.util.find_spec("pynvml") else "cpu"
    extras = f"{runtime},export"
    print("export: needs PyTorch and its ONNX exporter, which are not installed here", file=sys.stderr)
    if sys.prefix == sys.base_prefix or not (ROOT / "deploy/install.py").exists():
        print(f"  in a virtual environment, run: pip install --editable '{ROOT}[{extras}]'", file=sys.stderr)
        return 2
    if "--list" in sys.argv:
        print("  a model that is exported installs them (0.2 GB to download, 0.8 GB in all)", file=sys.stderr)
        print(f"  the bundled models are {', '.join(BUNDLED)}; docs/checkpoints.md has the others", file=sys.stderr)
        return 2
    command = [sys.executable, "-m", "deploy.install", *extras.split(",")]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603 # our own words


if __name__ == "__main__":
    sys.exit(main())
