"""The parts: `python -m benchmarks.scale PART`, or `make bench-scale ARGS=PART`."""

import argparse
from pathlib import Path

from benchmarks.peers import ROOT
from benchmarks.scale import costs


def main():
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    part = parts.add_parser("costs", help="measure what requests cost here")
    part.add_argument("--artifacts", type=Path, default=ROOT / "model/artifacts", help="holds a folder for each model")
    part.add_argument("--models", nargs="+", default=["digits", "dates"], choices=list(costs.kinds()))
    part.add_argument("--seconds", type=float, default=5, help="of each kind one at a time, and as long at 16")
    part.add_argument("--to", type=Path, default=costs.FILE)
    given = parser.parse_args()
    if given.part == "costs":
        costs.main(given.artifacts, given.models, given.seconds, given.to)


if __name__ == "__main__":
    main()
