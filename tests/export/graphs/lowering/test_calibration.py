"""Calibration: the ranges of what matrices multiply."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from export.graphs.lowering.calibration import measure_ranges
from tests.samples.export_graphs import copied, model_of

RNG = np.random.default_rng(0)


def test_ranges_are_those_of_what_matrices_multiply_over_all_inputs_and_the_graph_stays_as_it_is():
    matrix = RNG.standard_normal((64, 64)).astype(np.float32)  # large enough to go to a file of its own
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
        helper.make_node("Mul", ["x", "unused"], ["z"]),
    ]
    rows = ["row", 64]
    model = model_of(nodes, {"x": rows, "unused": rows}, {"y": rows, "z": rows}, {"w": matrix})
    before = copied(model)
    samples = [RNG.standard_normal((count, 64)).astype(np.float32) + count for count in (1, 5)]  # of two shapes
    found = measure_ranges(model, [{"x": one, "unused": one} for one in samples])
    hidden = [np.maximum(one @ matrix, 0) for one in samples]
    assert found.keys() == {"x", "r"}
    for name, arrays in (("x", samples), ("r", hidden)):
        wanted = min(array.min() for array in arrays), max(array.max() for array in arrays)
        np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-5)
    assert [value.name for value in model.graph.output] == ["y", "z"]
    np.testing.assert_array_equal(
        numpy_helper.to_array(model.graph.initializer[0]), numpy_helper.to_array(before.graph.initializer[0])
    )
    model.SerializeToString()
    onnx.checker.check_model(model)
