"""What happens to late and refused requests, from 2 to 1,000 replicas, under several loads: a table and a plot."""

import time
from dataclasses import dataclass

import numpy as np

from benchmarks.peers import ROOT, log
from benchmarks.scale import arrivals, costs, plan
from benchmarks.scale.autoscaler import Rule
from benchmarks.scale.fleets import Fleet
from benchmarks.scale.replicas import CLUSTER, Controller, Service

PLOT = ROOT / "docs/pictures/capacity.png"
SIZES = (2, 30, 1000)
OBJECTIVE = 1.0
"""An answer that takes more seconds than this is late."""
MOST = 4
"""The autoscaler may make as many times the replicas of the start, as `k8s/` does: 2 to 8."""


@dataclass(frozen=True)
class Scenario:
    """A load, and what happens meanwhile. `share` is the base rate, of what the replicas at the start can answer."""

    load: object
    share: float
    seconds: float
    deaths: tuple[tuple[float, float], ...] = ()


SCENARIOS = {
    "bursts (3x)": Scenario(arrivals.bursts, 0.6, 1800),
    "a day in an hour (4x)": Scenario(arrivals.day, 2.0, 3600),
    "step (5x)": Scenario(arrivals.step, 0.3, 1200),
    "flash crowd (10x)": Scenario(arrivals.flash, 0.25, 1200),
    "half of the nodes die": Scenario(arrivals.steady, 0.6, 900, deaths=((120.0, 0.5),)),
}
CONTROLS = {
    "fixed": None,
    "queue 0.3": {"queue": 0.3},
    "processor 0.5": {"processor": 0.5},
    "both": {"queue": 0.3, "processor": 0.5},
}
"""The targets of the autoscaler; `both` is what the component `keda` of `k8s/` asks for."""
COLORS = ("0.6", "tab:blue", "tab:orange", "tab:green")


REPLICAS = {"light": ("digits", 50), "heavy": ("deit-s", 197)}
"""The model, and the tokens of its request."""


def service(model, tokens):
    """Return how a replica answers: alone, and when it is full, both from processor time.

    A light model is taken to run on one core, a heavy one to be divided evenly over all cores of its replica. Assumed:
    the machine was shared, so times by the clock are too long (`deit-s` alone: 60 ms here, 143 ms by the clock).
    """
    cost, full = costs.read()[model, "no maps"], plan.USED.get(model, 1.0)
    each = 1 / plan.most(cost)
    alone = cost.processor_alone_ms / 1000 / (1 if model in plan.USED else plan.CORES)
    return Service(first=alone, each=min(each, alone), tokens=tokens, cores=full)


def simulate(service, scenario, size, targets, cluster=CLUSTER, seed=0):
    """Return the simulation of one scenario."""
    chance = np.random.default_rng(seed)
    rates = scenario.share * size * service.capacity * scenario.load(scenario.seconds, chance)
    controller = Controller(targets, Rule(size, MOST * size)) if targets else None
    return Fleet(service, arrivals.counts(rates, chance), size, cluster, controller, scenario.deaths).run(OBJECTIVE)


def main(sizes=SIZES, plot=PLOT):
    """Print a table for docs/capacity.md, and draw what happens in time."""
    print("| load | model | replicas | " + " | ".join(f"{name}: late; refused" for name in CONTROLS) + " |")
    print("|---|---|---|" + "---|" * len(CONTROLS))
    shown, drawn = {}, sizes[len(sizes) // 2]
    for name, scenario in SCENARIOS.items():
        for kind, (model, tokens) in REPLICAS.items():
            served = service(model, tokens)
            for size in sizes:
                cells, start = [], time.perf_counter()
                for control, targets in CONTROLS.items():
                    found = simulate(served, scenario, size, targets)
                    arrived = found.counts["arrived"]
                    cells.append(f"{found.late / arrived:.2%}; {found.counts['refused'] / arrived:.2%}")
                    if size == drawn:
                        shown[name, kind, control] = found
                log(f"{name}, {kind}, {size}: {time.perf_counter() - start:.1f} s")
                print(f"| {name} | {kind} | {size:,} | {' | '.join(cells)} |", flush=True)
    draw(shown, drawn, plot)


def draw(shown, size, file):
    """Draw, for a number of replicas at the start, how many there are and what is late or refused in time."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(SCENARIOS), 2, figsize=(11, 2.4 * len(SCENARIOS)), squeeze=False)
    for row, name in zip(axes, SCENARIOS, strict=True):
        for left, kind in zip(row, REPLICAS, strict=True):
            right = left.twinx()
            for color, control in zip(COLORS, CONTROLS, strict=True):
                found = shown[name, kind, control]
                every = round(10 / arrivals.STEP)
                bad = (found.late_seconds + found.refused).reshape(-1, every).sum(axis=1) / 10
                left.plot(np.arange(len(bad)) / 6, bad, color=color, label=control)
                if CONTROLS[control]:
                    right.plot(*zip(*((at / 60, ready) for at, _, ready in found.sizes), strict=True), ":", color=color)
            left.set_title(f"{name}, {kind}", fontsize=9)
            left.set_ylabel("late or refused/s", fontsize=8)
            right.set_ylabel("replicas that are ready (dotted)", fontsize=7)
            right.set_ylim(0, MOST * size * 1.05)
            for axis in (left, right):
                axis.tick_params(labelsize=7)
    for axis in axes[-1]:
        axis.set_xlabel("minutes", fontsize=8)
    figure.suptitle(f"{size} replicas at the start", fontsize=10)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="upper right", ncols=len(CONTROLS), fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=100)
    plt.close(figure)
