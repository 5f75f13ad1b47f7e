"""Calibration: the ranges of what matrices multiply."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from export.graphs.calibration import measure_ranges

RNG = np.random.default_rng(0)


def test_ranges_are_those_of_what_matrices_multiply_over_all_inputs_and_the_graph_stays_as_it_is():
    matrix = RNG.standard_normal((64, 64)).astype(np.float32)  # large enough to go to a file of its own
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
        helper.make_node("Mul", ["x", "unused"], ["z"]),
    ]
    made = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["row", 64]) for name in ("x", "unused")],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["row", 64]) for name in ("y", "z")],
        [numpy_helper.from_array(matrix, "w")],
    )  # fmt: skip
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    before = onnx.ModelProto.FromString(model.SerializeToString())
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
