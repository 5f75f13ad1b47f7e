"""A decode step for a CPU: the same numbers from fewer nodes, in place, and the same bits alone and in a batch."""

import numpy as np
import onnx
import pytest
import torch

from export.bundled import dates_clm
from export.checks.comparison import run
from export.graphs.editing.cleanup import ATTENTION_OPERATORS
from export.graphs.lowering.decode_step import fuse_step
from export.graphs.lowering.top_k import without_top_k
from tests.samples.export_graphs import kinds, session, traced_in
from tests.samples.export_models import translator

SIZES = {"batch": 5, "source": 11, "capacity": 16}


@pytest.fixture(scope="module", params=[translator, dates_clm])
def step(request):
    """A plan of a decode step, its graph as traced, and the fused one."""
    source = request.param()
    plan = without_top_k(source.plan("decode"))
    graph = traced_in(plan, source.traced_at)
    return plan, graph, fuse_step(onnx.ModelProto.FromString(graph.SerializeToString()), plan)


def drawn(plan):
    """Inputs with sharp keys, and rows at the first position, at the last, and between."""
    positions = torch.tensor([0, 15, 3, 9, 14])
    return [tensor.numpy() for tensor in plan.example(SIZES, 0, {"position": positions})]


def test_every_attention_is_one_node_and_its_queries_keys_and_values_one_product(step):
    plan, graph, fused = step
    before, after = (kinds(one) for one in (graph, fused))
    assert sum(after.count(kind) for kind in ATTENTION_OPERATORS) == plan.attentions
    assert "Softmax" not in after
    assert "ScatterND" not in after
    own = after.count("GroupQueryAttention")
    assert before.count("MatMul") - after.count("MatMul") == 2 * own + 2 * plan.attentions
    onnx.checker.check_model(fused)


def test_a_fused_step_answers_and_writes_its_caches_as_the_plain_one(step):
    plan, graph, fused = step
    given = drawn(plan)
    for port, ours, theirs in zip(
        plan.outputs, *(run(plan, session(one), given) for one in (fused, graph)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=2e-5 * np.abs(theirs).max(), err_msg=port.name)


def test_a_row_of_a_fused_step_is_the_same_to_the_last_bit_whatever_it_is_with(step):
    plan, _, fused = step
    given, opened = drawn(plan), session(fused)
    together = run(plan, opened, given)
    for row in range(SIZES["batch"]):
        alone = run(plan, opened, [array[row : row + 1] for array in given])
        for port, one, many in zip(plan.outputs, alone, together, strict=True):
            np.testing.assert_array_equal(one[0], many[row], err_msg=port.name)


def test_what_lies_behind_a_position_changes_no_bit_of_the_answer(step):
    plan, _, fused = step
    given, opened = drawn(plan), session(fused)
    (logits, *_), positions = run(plan, opened, given), given[1]
    for port, array in zip(plan.inputs, given, strict=True):
        if port.name.startswith("past."):
            for row, position in enumerate(positions):
                array[row, :, position + 1 :] = 1e3
    np.testing.assert_array_equal(run(plan, opened, given)[0], logits)
