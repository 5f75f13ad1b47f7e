"""How a rig tells what it found: progress for a person, one line of JSON for a file, an exit status for a job."""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.conftest import ROOT

BUNDLED = ("digits", "dates")


@dataclass
class Verdict:
    """What a rig found. `faults` must be empty on every machine, `missed` on one that does nothing else."""

    faults: list[str] = field(default_factory=list)
    """What must never be: a failed request, an address in an answer, a hang."""
    missed: list[str] = field(default_factory=list)
    """Figures of time or size that were not met."""


def arguments(what: str, requests: int) -> argparse.ArgumentParser:
    """Return a parser of what all rigs are asked."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--requests", type=int, default=requests, help=f"how many (default {requests})")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--artifacts", type=Path, default=ROOT / "artifacts", help="holds digits and dates")
    return parser


@contextmanager
def only_bundled(artifacts: Path, *others: str) -> Iterator[Path]:
    """Copy the artifacts of the two bundled models, and of others that are there, to a folder that a rig may change."""
    with tempfile.TemporaryDirectory() as folder:
        for name in (*BUNDLED, *(name for name in others if (artifacts / name).is_dir())):
            shutil.copytree(artifacts / name, Path(folder) / name)
        yield Path(folder)


def progress(rig: str, words: str) -> None:
    """Say how far a rig is."""
    print(f"{rig}: {words}", file=sys.stderr, flush=True)


def finish(rig: str, verdict: Verdict) -> int:
    """Print the result as a line of JSON; return the exit status."""
    print(json.dumps({"rig": rig, **asdict(verdict)}), flush=True)
    return 1 if verdict.faults or verdict.missed else 0


def percentile(values: list[float], share: float) -> float:
    """Return the value below which a share of them lies; 0 of none."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0
