"""How much of a batch runs together."""

import types

import numpy as np
import pytest

from contract.manifest import Port
from service.repository.models.batches import PART_WORD_BYTES, Batches
from service.repository.models.footprint import ATTENTION_RUN, GRADIENT_RUN
from service.settings import Settings
from tests.samples.small_manifest import manifest_of

WORDS = 50_000


class Counting:
    """A session that keeps how many rows each of its runs has."""

    cores = 2

    def __init__(self):
        self.rows = []

    def run(self, feed):
        (array,) = feed.values()
        self.rows.append(len(array))
        return {"weights": np.zeros((len(array), 1), np.float32)}


def batches_of(device, task, width=None):
    manifest = manifest_of(width=width)
    source = Port(name="source", dtype="int64", axes=("batch", "source"))
    weights = Port(name="weights", dtype="float32", axes=("batch", WORDS))
    graph = manifest.graphs["predict"].model_copy(update={"inputs": (source,), "outputs": (weights,)})
    graphs = dict.fromkeys(("predict", "attention", "libra"), graph)
    manifest = manifest.model_copy(update={"task": task, "graphs": graphs})
    session = Counting()
    return Batches(manifest, dict.fromkeys(graphs, session), device, Settings()), session


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("role", "each"), [("predict", ATTENTION_RUN), ("libra", GRADIENT_RUN)])
def test_a_part_has_no_more_tokens_than_there_is_memory_for_the_logits_of(device, role, each):
    most = int(PART_WORD_BYTES / (each.words * WORDS))
    length = most // 3
    item = types.SimpleNamespace(arrays={"source": np.zeros(length, np.int64)}, lengths={"source": length})
    batches, session = batches_of(device, "sparse-embedding")
    assert batches.tokens_at_once(role) == most
    assert len(batches.run(role, [item] * 8)["weights"]) == 8
    assert session.rows == [3, 3, 2]
    other, session = batches_of(device, "feature-extraction")
    other.run(role, [item] * 8)
    assert session.rows == [8]


def test_a_part_has_at_least_one_item_and_on_a_cpu_no_more_than_its_caches_hold():
    item = types.SimpleNamespace(arrays={"source": np.zeros(9000, np.int64)}, lengths={"source": 9000})
    batches, session = batches_of("cpu", "sparse-embedding")
    batches.run("predict", [item] * 2)
    assert session.rows == [1, 1]
    wide = [batches_of("cpu", task, 4096)[0].tokens_at_once("predict") for task in ("sparse-embedding", "fill-mask")]
    assert wide == [96, 96]
