"""The inside graph, against scaled dot-product attention written out in numpy, and against the raw maps."""

import math

import numpy as np
import onnxruntime as ort
import pytest
import torch

from contract.manifest import HIDDEN_SCORE, INSIDE
from export.checks.comparison import run
from export.checks.exact import in_float64
from export.checks.inside_reference import draw_cells, inside
from export.checks.reference import CASES, with_fixed_axes
from export.errors import ExportError
from export.pipeline import EXPLAINING_GRAPHS, _trace_graph
from model.architectures.gpt import GPTConfig
from model.architectures.vit_variants import axial, hard, re_attention
from tests.samples.export_models import VIT, classifier, continuer, embedder, sharpened, translator, windowed, written

CAUSAL = GPTConfig(24, length=12, width=16, layers=2, heads=2, hidden=20)
SOURCES = {"image": classifier, "text": lambda: embedder("mean"), "causal": lambda: continuer(CAUSAL)}


def attended(source, given):
    """What enters each attention of a definition, and which keys its tokens may see, in float64."""
    entered = {}

    def hook(name):
        return lambda _, arguments: entered.update({name: arguments})

    with in_float64(source.traced) as exact, torch.no_grad():
        hooks = [part.register_forward_pre_hook(hook(name)) for name, part in exact.attentions.items()]
        exact.observe(*given)
        [one.remove() for one in hooks]
        weights = {name: {key: one.numpy().copy() for key, one in part.state_dict().items()}
                   for name, part in exact.attentions.items()}  # fmt: skip
    return {
        name: (x.numpy(), None if context.visible is None else context.visible.numpy(), weights[name])
        for name, (x, context) in entered.items()
    }


def written_out(x, visible, weights, heads, row, column):
    """Scaled dot-product attention of one input of a batch: Vaswani et al. 2017, equation 1, a head at a time."""
    found = []
    for head in range(heads):
        own = np.s_[head * x.shape[1] // heads : (head + 1) * x.shape[1] // heads]
        query, key, value = (
            x @ weights[f"{name}.weight"][own].T + weights[f"{name}.bias"][own] for name in ("query", "key", "value")
        )
        products = np.array([sum(a * b for a, b in zip(query[row], one, strict=True)) for one in key])
        products /= math.sqrt(len(query[row]))
        scores = np.where(visible, products, -np.inf) if visible is not None else products
        shares = np.exp(scores - scores.max())
        shares /= shares.sum()
        mixed = sum(share * one for share, one in zip(shares, value, strict=True))
        found.append((query[row], key[column], products, scores, shares, value[column], mixed))
    return [np.array(one) for one in zip(*found, strict=True)]


@pytest.mark.parametrize("name", SOURCES)
def test_the_numbers_are_those_of_scaled_dot_product_attention(name, tmp_path):
    source = SOURCES[name]()
    written(source, tmp_path)
    (kind,), plan, sizes = source.attention, source.plan("inside"), source.verified_at[-1]
    given = source.plan("predict").example(sizes, seed=1)
    controls = draw_cells([kind], with_fixed_axes(source, sizes), seed=5)
    tensors = plan.example(sizes, 1, controls)
    found = run(plan, ort.InferenceSession(tmp_path / "inside.onnx"), [one.numpy() for one in tensors])
    assert [port.name for port in plan.outputs] == [f"{kind.name}.{what}" for what in INSIDE]
    for layer, (x, visible, weights) in enumerate(attended(source, given).values()):
        for number in range(sizes["batch"]):
            row, column = (int(controls[one][number]) for one in ("query", "key"))
            seen = None if visible is None else np.broadcast_to(visible, (len(x), 1, *[x.shape[1]] * 2))[number, 0, row]
            for what, ours, exact in zip(
                INSIDE, found, written_out(x[number], seen, weights, kind.heads, row, column), strict=True
            ):
                mine = ours[number, :, layer].astype(np.float64)
                mine = np.where(mine <= HIDDEN_SCORE, -np.inf, mine)
                assert np.allclose(mine, exact, atol=1e-5, rtol=1e-5), (what, layer, number)
    assert found[INSIDE.index("weights")].max() > 2 / sizes.get("source", 7), "attention is not uniform"


@pytest.mark.parametrize("name", ["image", "causal"])
def test_weights_are_the_rows_of_the_raw_map(name, tmp_path):
    source = SOURCES[name]()
    written(source, tmp_path)
    (kind,), plan, sizes = source.attention, source.plan("inside"), {**source.verified_at[-1], "batch": 2}
    axes = with_fixed_axes(source, sizes)
    controls = draw_cells([kind], axes, seed=5)
    asked = {"attention": CASES[0].controls([kind], axes, 1) | {f"{kind.name}.heads": torch.arange(kind.heads),
             "fusion": torch.tensor(0)}, "inside": controls}  # fmt: skip
    maps, inner = (
        run(one, ort.InferenceSession(tmp_path / f"{one.role}.onnx"),
            [tensor.numpy() for tensor in one.example(sizes, 1, asked[one.role])])
        for one in (source.plan("attention"), plan)
    )  # fmt: skip
    raw = maps[1]  # behind the answer, (batch, heads, layer, row, key)
    for number, row in enumerate(controls["query"].tolist()):
        assert np.array_equal(inner[INSIDE.index("weights")][number], raw[number, :, :, row])


def test_the_reference_knows_every_kind_of_an_encoder_decoder():
    source = translator()
    sizes = {"batch": 2, "source": 6, "target": 4, "answered": 1}
    given = source.plan("predict").example(sizes, seed=1)
    controls = draw_cells(source.attention, with_fixed_axes(source, sizes), seed=5)
    with in_float64(source.traced) as exact:
        found = inside(exact, given, controls)
        weights = [layer for kind in exact.observe(*given).weights for layer in kind]
    assert len(found) == len(INSIDE) * len(source.attention)
    cross = found[2 * len(INSIDE) + INSIDE.index("weights")]
    for number, row in enumerate(controls["query"].tolist()):
        assert torch.allclose(cross[number, :, 1], weights[-1][number, :, row])
    assert not any("_mix" in vars(part) for part in source.traced.attentions.values())


@pytest.mark.parametrize("make", [axial, hard, re_attention])
def test_other_attentions_have_no_such_graph(make):
    source = classifier(sharpened(make(VIT)))
    assert not source.has("inside")


def test_windows_have_no_such_graph():
    assert not windowed().has("inside")


def test_what_is_no_scaled_product_is_refused():
    source = classifier()
    base = _trace_graph(source.base, source, "fp32", 20, "base")
    for node in base.graph.node:
        if node.op_type == "Div":
            node.op_type = "Mul"
    with pytest.raises(ExportError, match=r"inside: the scores of encoder\.blocks\.0\.attention must be scaled"):
        EXPLAINING_GRAPHS["inside"](base, source.plan("inside"), source.traced)
