"""A pool of decoders for a test, and what can be learnt of its processes."""

from contextlib import asynccontextmanager
from pathlib import Path

from service.errors import Refusal
from service.inputs.sandbox.decoder_pool import DecoderPool
from service.settings import Settings
from service.telemetry.metrics import Metrics


@asynccontextmanager
async def decoding(**settings):
    """Give a pool of decoders and its metrics; the decoders have ended when the block has."""
    metrics = Metrics()
    pool = DecoderPool(Settings(**settings), metrics)
    try:
        yield pool, metrics
    finally:
        await pool.close()


def replaced(metrics):
    """Return how many decoders were replaced for each cause."""
    (family,) = metrics.decoders_replaced.collect()
    return {sample.labels["cause"]: sample.value for sample in family.samples if sample.name.endswith("_total")}


async def outcome(work):
    """Return what a coroutine returns, or the class and words of its refusal."""
    try:
        return await work
    except Refusal as refusal:
        return type(refusal).__name__, refusal.detail


def children(number):
    """Return all processes below one, those that have ended and are not waited for among them."""
    found = [int(one) for one in Path(f"/proc/{number}/task/{number}/children").read_text().split()]
    return [one for child in found for one in (child, *children(child)) if one not in OTHERS]


OTHERS = set()
"""Processes below this one that other tests have left running."""
