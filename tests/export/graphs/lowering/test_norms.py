"""Root-mean-square norms as one node each: as defined, and nothing else becomes one."""

import numpy as np
import onnx
import pytest
import torch

from export.graphs.lowering.norms import NORM, fuse_norms
from export.graphs.lowering.top_k import without_top_k
from model.architectures.gpt_variants import LlamaConfig
from model.parts.norms import RMSNorm
from model.vocabularies import ALPHABET, SPECIALS
from tests.samples.export_graphs import copied, kinds, session, traced_in
from tests.samples.export_models import continuer

WIDTH = 16


@pytest.fixture(scope="module")
def step():
    """A plan of a decode step whose norms have weights, and its graph."""
    config = LlamaConfig(
        len(SPECIALS) + len(ALPHABET), length=24, width=WIDTH, layers=1, heads=2, hidden=8, heads_normed=True
    )
    source = continuer(config)
    for part in source.traced.model.modules():
        if isinstance(part, RMSNorm):
            torch.nn.init.normal_(part.weight)
    plan = without_top_k(source.plan("decode"))
    return plan, traced_in(plan, source.traced_at)


def test_norms_of_states_and_of_heads_are_one_node_each_and_give_what_they_gave(step):
    plan, graph = step
    fused = fuse_norms(copied(graph), plan)
    assert kinds(fused).count(NORM) == 5
    assert not {"Pow", "ReduceMean", "Sqrt", "Reciprocal"} & set(kinds(fused))
    given = plan.example({"batch": 3, "capacity": 8}, 0)
    feed = {port.name: tensor.numpy() for port, tensor in zip(plan.inputs, given, strict=True)}
    for wanted, found in zip(session(graph).run(None, feed), session(fused).run(None, feed), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(("kind", "place", "value"), [("Pow", 1, 3.0), ("ReduceMean", 1, -2)])
def test_what_is_no_such_norm_stays(step, kind, place, value):
    plan, graph = step
    other = copied(graph)
    changed = next(node for node in other.graph.node if node.op_type == kind).input[place]
    tensor = next(one for one in other.graph.initializer if one.name == changed)
    array = np.full_like(onnx.numpy_helper.to_array(tensor), value)
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, changed))
    assert NORM not in kinds(fuse_norms(other, plan))
