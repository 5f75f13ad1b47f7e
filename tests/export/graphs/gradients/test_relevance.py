"""The relevance of encoder-decoders is that of the equations, however little evidence a row has."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from contract.manifest import Port
from export.graphs.editing.builder import Builder
from export.graphs.gradients.relevance import _bimodal_relevance
from export.plan import Plan
from tests.samples import explanations_reference as reference
from tests.samples.export_graphs import model_of, session

SOURCE, TARGET, LAYERS = 5, 4, 2
SHAPES = {"encoder": (SOURCE, SOURCE), "decoder": (TARGET, TARGET), "cross": (TARGET, SOURCE)}


def graph():
    """Return the graph of the relevance of layers that it is given."""
    shapes = {f"{kind}.{layer}": ["batch", *shape] for kind, shape in SHAPES.items() for layer in range(LAYERS)}
    model = model_of([], shapes, {})
    model.graph.input.append(helper.make_tensor_value_info("position", TensorProto.INT64, ["batch"]))
    outputs = [Port(name="logits", dtype="float32", axes=("batch",))]
    outputs += [Port(name=kind, dtype="float32", axes=("batch", 1, SHAPES[kind][1])) for kind in ("decoder", "cross")]
    layers = {kind: [f"{kind}.{layer}" for layer in range(LAYERS)] for kind in SHAPES}
    _bimodal_relevance(Builder(model, "x."), Plan("relevance", None, (), tuple(outputs), 0), layers)
    onnx.checker.check_model(model)
    return model


@pytest.mark.parametrize("size", [1.0, 1e-4, 1e-8, 1e-20, 1e-97])
def test_relevance_is_that_of_the_equations_whatever_the_sum_of_a_row(size):
    rng = np.random.default_rng(3)
    layers = {
        kind: [np.maximum(rng.normal(size=(TARGET, *shape)), 0) for _ in range(LAYERS)]
        for kind, shape in SHAPES.items()
    }
    for kind in ("encoder", "decoder"):
        for layer in layers[kind]:
            layer[:, 1] *= size  # a row of little evidence beside others of much
            layer[:, :, 1] *= size  # from which it must not get some
    feed = {
        f"{kind}.{index}": layer.astype(np.float32) for kind, own in layers.items() for index, layer in enumerate(own)
    }
    own, across = session(graph()).run(["decoder", "cross"], feed | {"position": np.arange(TARGET)})
    wanted_own, wanted_across = reference.bimodal(layers["encoder"], layers["decoder"], layers["cross"])
    at = np.arange(TARGET), np.arange(TARGET)
    np.testing.assert_allclose(own[:, 0], wanted_own[at], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(across[:, 0], wanted_across[at], rtol=1e-5, atol=1e-6)
