"""A decode step for a CPU: the same numbers from fewer nodes, in place, and the same bits alone and in a batch."""

import copy
import functools

import numpy as np
import onnx
import pytest
import torch

from export.bundled import dates_clm
from export.checks.comparison import run
from export.graphs.editing.cleanup import ATTENTION_OPERATORS
from export.graphs.lowering.decode_step import fuse_step
from export.graphs.lowering.top_k import without_top_k
from model.architectures.gpt_variants import LlamaConfig, NeoXConfig, Olmo2Config
from model.parts.stretch import Yarn
from model.vocabularies import ALPHABET, SPECIALS
from tests.samples.export_graphs import copied, kinds, session, traced_in
from tests.samples.export_models import continuer, translator

SIZES = {"batch": 5, "source": 11, "capacity": 16}


SIZES_OF_LLAMA = {"width": 32, "layers": 2, "heads": 4, "hidden": 24, "key_heads": 2, "head": 16}


def llama(config=LlamaConfig, **options):
    """A decoder whose queries and keys are turned."""
    return continuer(config(len(SPECIALS) + len(ALPHABET), length=48, **(SIZES_OF_LLAMA | options)))


TURNED = {
    "llama": {},
    "keys of their own": {"key_heads": 4, "bias": True},
    "windows": {"near": (1,), "window": 5, "still": (0,)},
    "norms of heads": {"heads_normed": True, "near": (0,), "window": 1},
    "norms of all heads": {"config": Olmo2Config, "stretch": Yarn(4.0, 1.5, 16)},
    "half turned": {"config": NeoXConfig, "head": 32, "turned": 16, "bias": True},
    "few turned": {"config": NeoXConfig, "turned": 8, "bias": True},
}
"""Ways in which queries and keys are turned."""
TURNED_BEFORE = ("few turned",)
"""Those of which the runtime's node turns none."""
NORMED = ("norms of heads", "norms of all heads")
SOURCES = {"translator": translator, "dates-clm": dates_clm}
SOURCES |= {name: functools.partial(llama, **options) for name, options in TURNED.items()}


@functools.cache
def made(name):
    """Return the plan of a decode step, its graph as traced, and the fused one."""
    source = SOURCES[name]()
    plan = without_top_k(source.plan("decode"))
    graph = traced_in(plan, source.traced_at)
    return plan, graph, fuse_step(copied(graph), plan)


@pytest.fixture(params=SOURCES)
def step(request):
    return made(request.param)


def drawn(plan):
    """Inputs with sharp keys, and rows at the first position, at the last, and between."""
    positions = torch.tensor([0, 15, 3, 9, 14])
    return [tensor.numpy() for tensor in plan.example(SIZES, 0, {"position": positions})]


def assert_exact(plan, graph):
    """Hold a graph against the definition in double floats."""
    given = drawn(plan)
    exact = copy.deepcopy(plan.module).double()
    with torch.no_grad():
        wanted = exact(*(torch.from_numpy(one.astype(np.float64) if one.dtype == np.float32 else one) for one in given))
    for port, ours, theirs in zip(plan.outputs, run(plan, session(graph), given), wanted, strict=True):
        limit = 1e-5 * theirs.abs().max().item()
        np.testing.assert_allclose(ours, theirs.numpy(), atol=limit, err_msg=port.name)


@pytest.mark.parametrize("name", SOURCES)
def test_every_attention_is_one_node_and_its_queries_keys_and_values_one_product(name):
    """But for norms and turns that stand between the products and the node."""
    plan, graph, fused = made(name)
    before, after = (kinds(one) for one in (graph, fused))
    assert sum(after.count(kind) for kind in ATTENTION_OPERATORS) == plan.attentions
    assert "Softmax" not in after
    assert "ScatterND" not in after
    own = 0 if name in (*TURNED_BEFORE, *NORMED) else after.count("GroupQueryAttention")
    assert before.count("MatMul") - after.count("MatMul") == 2 * own + 2 * plan.attentions
    onnx.checker.check_model(fused)


@pytest.mark.parametrize("name", TURNED)
def test_the_node_turns_queries_and_keys_and_no_key_is_repeated(name):
    _, _, fused = made(name)
    turns = [
        next(one.i for one in node.attribute if one.name == "do_rotary")
        for node in fused.graph.node
        if node.op_type == "GroupQueryAttention"
    ]
    still = len(TURNED[name].get("still", ()))
    assert sorted(turns) == ([0, 0] if name in TURNED_BEFORE else [0] * still + [1] * (2 - still))
    assert kinds(fused).count("Sub") == (4 if name in TURNED_BEFORE else 0)
    assert kinds(fused).count("Expand") == 1, "a zero of no positions"


def test_a_fused_step_answers_and_writes_its_caches_as_the_definition(step):
    plan, _, fused = step
    assert_exact(plan, fused)


@pytest.mark.parametrize("name", TURNED)
def test_a_step_for_half_floats_turns_before_the_node_and_answers_as_the_definition(name):
    """The runtime's node for a GPU has no rows of angles for each row."""
    plan, graph, _ = made(name)
    fused = fuse_step(copied(graph), plan, half=True)
    assert kinds(fused).count("GroupQueryAttention") == plan.attentions
    assert kinds(fused).count("Expand") == 1, "a zero of no positions"
    assert_exact(plan, fused)


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
