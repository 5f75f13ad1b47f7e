"""Masks that are added give the same to the last bit, whatever is hidden."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from export.graphs.lowering.masks import HIDING, add_masks
from tests.samples.export_graphs import kinds, model_of, session

SHAPE = (2, 3, 4, 5)  # batch, head, query, key


def graph(least=HIDING, reader="Softmax", layers=2):
    """Layers that hide the same keys of their scores."""
    nodes = [helper.make_node("Not", ["visible"], ["hidden"])]
    for layer in range(layers):
        nodes.append(helper.make_node("Where", ["hidden", "least", f"scores{layer}"], [f"masked{layer}"]))
        nodes.append(helper.make_node(reader, [f"masked{layer}"], [f"y{layer}"]))
    scores, ends = (dict.fromkeys([f"{name}{layer}" for layer in range(layers)], SHAPE) for name in ("scores", "y"))
    model = model_of(nodes, scores, ends, {"least": np.array(least, np.float32)})
    model.graph.input.append(helper.make_tensor_value_info("visible", TensorProto.BOOL, [2, 1, None, 5]))
    return model


@pytest.mark.parametrize("queries", [1, 4])
def test_an_added_mask_gives_the_same_bits(queries):
    rng = np.random.default_rng(0)
    visible = rng.random((2, 1, queries, 5)) < 0.5
    visible[0, 0, 0] = False  # a row that sees nothing has equal weights
    given = {"visible": visible, **{f"scores{layer}": 30 * rng.standard_normal(SHAPE, np.float32) for layer in (0, 1)}}
    before, after = graph(), add_masks(graph())
    assert kinds(after) == ["Not", "Where", "Add", "Softmax", "Add", "Softmax"], "one mask for both layers"
    onnx.checker.check_model(after)
    found = [session(one).run(None, given) for one in (before, after)]
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)
        assert not other[~np.broadcast_to(visible, SHAPE) & visible.any(-1, keepdims=True)].any()


@pytest.mark.parametrize(("least", "reader"), [(-1.0, "Softmax"), (HIDING, "Relu")])
def test_what_hides_no_keys_stays(least, reader):
    assert add_masks(graph(least, reader)) == graph(least, reader)
