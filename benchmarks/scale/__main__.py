"""The parts: `python -m benchmarks.scale PART`, or `make bench-scale ARGS=PART`."""

import argparse
from pathlib import Path

from benchmarks.peers import ROOT
from benchmarks.scale import breaking, costs, plan, scenarios

BUNDLED = ["digits", "dates"]


def main():
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)

    def measured(name, what):
        part = parts.add_parser(name, help=what)
        part.add_argument("--artifacts", type=Path, default=ROOT / "model/artifacts", help="a folder for each model")
        part.add_argument("--models", nargs="+", default=BUNDLED, choices=list(costs.kinds()))
        return part

    part = measured("costs", "measure what requests cost here (needs wrk and redis-server)")
    part.add_argument("--seconds", type=int, default=5, help="of each kind one at a time, and as long at 16")
    part.add_argument("--to", type=Path, default=costs.FILE)
    part = parts.add_parser("plan", help="what a load needs, from these costs")
    part.add_argument("--rates", type=int, nargs="+", default=[10, 1000, 20000], help="requests a second")
    part.add_argument("--models", nargs="+", default=["digits", "deit-s"])
    part = parts.add_parser("simulate", help="late and refused requests under several loads, and the plot")
    part.add_argument("--replicas", type=int, nargs="+", default=scenarios.SIZES)
    part.add_argument("--plot", type=Path, default=scenarios.PLOT)
    measured("breaks", "what a store, a proxy and a Prometheus carry (needs haproxy, wrk and redis-server)")
    given = parser.parse_args()
    match given.part:
        case "costs":
            costs.main(given.artifacts, given.models, given.seconds, given.to)
        case "plan":
            plan.main(given.rates, given.models)
        case "simulate":
            scenarios.main(given.replicas, given.plot)
        case "breaks":
            breaking.main(given.artifacts, given.models)


if __name__ == "__main__":
    main()
