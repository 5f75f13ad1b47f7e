"""The memory that attention of one long text takes: `python -m benchmarks.attention_memory`.

It serves BERT-base with random weights and 2,048 positions. For each method it prints the most memory that the service
held while it answered, above what it held when it was ready, and what docs/operations.md states at most.
"""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.running_service import served
from benchmarks.runtimes import artifacts, checkpoint
from contract.artifact import read_artifact
from contract.manifest import GRADIENT_METHODS
from service.repository.models.footprint import ATTENTION_RUN, GRADIENT_RUN

MODEL = "bert-base"
ADDED = 2
"""Tokens that the tokenizer adds to a text."""
METHODS = ("raw", "norm", "rollout", "relevance", "libra")


def mebibytes(process, name):
    """Return a line of the status of a process, such as VmRSS, in MiB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) >> 10


def stated(manifest, tokens, method):
    """Return the bytes that a run for one text takes at most, as docs/operations.md says it."""
    maps, states, _ = GRADIENT_RUN if method in GRADIENT_METHODS else ATTENTION_RUN
    (kind,) = manifest.attention
    layers = len(kind.maps)
    return maps * 4 * layers * kind.heads * tokens**2 + states * layers * tokens * manifest.width


def measure(folder, lengths):
    """Print a row for each method, a column for each length."""
    rows = {method: [] for method in METHODS}
    manifest = read_artifact(folder / MODEL / "1").manifest
    limits = {"request_seconds": 900, "run_bytes": 1 << 40, "queue_map_bytes": 1 << 40}
    with served(folder, **limits) as client:
        client.timeout = 900
        idle = mebibytes(client.process, "VmRSS")
        for tokens in lengths:
            for method in METHODS:
                Path(f"/proc/{client.process.pid}/clear_refs").write_text("5")  # forget the peak
                body = {"inputs": "[MASK]" * (tokens - ADDED), "attention": {"method": method}}
                answer = client.post(f"/v1/models/{MODEL}/classify", json=body).raise_for_status().json()
                (found,) = answer["results"][0]["attention"]["maps"]
                assert found["shape"][-1] == tokens
                peak = mebibytes(client.process, "VmHWM") - idle
                rows[method].append(f"{peak:,} of {stated(manifest, tokens, method) / 2**20:,.0f}")
                time.sleep(6)  # memory is given back within five seconds
    print(f"| method | {' | '.join(f'{tokens:,} tokens' for tokens in lengths)} |\n|{'---|' * (len(lengths) + 1)}")
    for method, cells in rows.items():
        print(f"| `{method}` | {' | '.join(cells)} |")


def main():
    """Make the artifact where it is missing, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the artifact is made, or lies already")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)) / MODEL
        if not (made := folder / "checkpoint").exists():
            made.mkdir(parents=True)
            checkpoint(MODEL, made)
        artifacts(MODEL, folder, precisions=("fp32",))
        measure(folder / "fp32", given.lengths)


if __name__ == "__main__":
    main()
