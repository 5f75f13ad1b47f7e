"""From a load to replicas, nodes, bandwidth, the store's memory and cost."""

import math
from dataclasses import dataclass

from benchmarks.scale import costs

CORES = 2
"""The cores of a replica, as `k8s/` requests them."""
USED = {"digits": 0.85, "dates": 0.85}
"""The share of its cores that a full replica can use: light models run on one thread beside the event loop; others,
which are not named here, on all cores (1.0).

Assumed: the machine was shared while the costs were measured. With 16 requests at a time a replica then used of its two
cores: `digits` 0.86, `digits` with libra 0.52, `dates` 0.38, `minilm` 0.47, `deit-s` 0.33.
"""
UTILISATION = 0.6
"""The share of a replica's cores that is used at the highest rate of the day; docs/capacity.md says how that fares."""
NODE_CORES, NODE_USABLE = 16, 0.9
"""The cores of a node, and the share of them that the system's own pods leave."""
PRICE = 0.04
"""The price of a core for an hour: an assumption, of no provider."""
KEPT_SECONDS = 600


@dataclass(frozen=True)
class Needs:
    """What a load needs. Bytes a second are those of requests and answers together, at the highest rate."""

    cores: float
    replicas: int
    nodes: int
    bytes_a_second: float
    store_bytes: float
    price_an_hour: float


def most(cost):
    """Return the requests that one full replica answers a second on a machine that does nothing else.

    It is computed from processor time and the share of cores that is assumed (`USED`). What was answered by the clock
    (`Cost.every_ms`) is less for most kinds, since other work used the machine.
    """
    return CORES * USED.get(cost.model, 1.0) * 1000 / cost.processor_ms


def needs(rate, cost, spare=1):
    """Return what a rate of requests of one kind needs: `spare` replicas more, so that one may be missing."""
    cores = rate * cost.processor_ms / 1000
    replicas = math.ceil(rate / (most(cost) * UTILISATION)) + spare
    in_node = math.floor(NODE_CORES * NODE_USABLE / CORES)
    nodes = max(math.ceil(replicas / in_node), min(replicas, 2))  # two, so that one may die
    return Needs(
        cores=cores,
        replicas=replicas,
        nodes=nodes,
        bytes_a_second=rate * (cost.sent + cost.answered),
        store_bytes=rate * KEPT_SECONDS * cost.stored,
        price_an_hour=nodes * NODE_CORES * PRICE,
    )


def readable(count):
    """Return bytes in the unit that suits."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def main(rates, models):
    """Print what each rate of each kind needs."""
    print("| requests/s | model | request | cores busy | replicas | nodes | in and out, /s | kept by id | an hour |")
    print("|---|---|---|---|---|---|---|---|---|")
    for rate in rates:
        for (model, name), cost in costs.read().items():
            if model in models:
                need = needs(rate, cost)
                print(
                    f"| {rate:,} | {model} | {name} | {need.cores:.1f} | {need.replicas:,} | {need.nodes:,} "
                    f"| {readable(need.bytes_a_second)} | {readable(need.store_bytes)} | {need.price_an_hour:,.2f} |"
                )
