"""Eight bits: what the rewritten products compute."""

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from export.graphs.int8 import quantize

RNG = np.random.default_rng(0)
WIDTH, HIDDEN = 24, 40


def graph():
    """A branch with a bias, a Gemm of either layout, and a head that is tied to embeddings."""
    weights = {
        "up": RNG.standard_normal((WIDTH, HIDDEN)),
        "down": RNG.standard_normal((WIDTH, HIDDEN)),
        "bias": RNG.standard_normal(WIDTH),
        "table": RNG.standard_normal((30, WIDTH)),
    }
    weights["up"][:, 3] = 0  # a column without a scale of its own
    nodes = [
        helper.make_node("MatMul", ["x", "up"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Gemm", ["r", "down", "bias"], ["d"], transB=1),
        helper.make_node("Transpose", ["table"], ["head"], perm=[1, 0]),
        helper.make_node("MatMul", ["d", "head"], ["y"]),
        helper.make_node("MatMul", ["d", "x.T"], ["dynamic"]),
        helper.make_node("Transpose", ["x"], ["x.T"], perm=[1, 0]),
    ]
    nodes.insert(5, nodes.pop())
    made = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["row", WIDTH])],
        [helper.make_tensor_value_info(*one) for one in (
            ("y", TensorProto.FLOAT, ["row", 30]), ("dynamic", TensorProto.FLOAT, ["row", "row"]))],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )  # fmt: skip
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), weights


def product(x, matrix):
    """The definition, in float64: rows and columns in 255 steps, rounded to the nearest."""
    rows, columns = np.abs(x).max(1, keepdims=True), np.abs(matrix).max(0, keepdims=True)
    rows, columns = np.where(rows > 0, rows, 1) / 127, np.where(columns > 0, columns, 1) / 127
    return (x / rows).round() @ (matrix / columns).round() * rows * columns


def test_products_with_matrices_are_in_eight_bits_by_row_and_column():
    model, weights = graph()
    quantized = quantize(model)
    kinds = [node.op_type for node in quantized.graph.node]
    assert kinds.count("MatMulIntegerToFloat") == 3
    assert kinds.count("MatMul") == 1, "what two inputs are multiplied to stays as it is"
    assert {tensor.name for tensor in quantized.graph.initializer}.isdisjoint({"up", "down", "table"})
    x = RNG.standard_normal((7, WIDTH)).astype(np.float32)
    x[2] = 0
    hidden = np.maximum(product(x, weights["up"].astype(np.float32)), 0)
    out = product(hidden, weights["down"].astype(np.float32).T) + weights["bias"].astype(np.float32)
    wanted = product(out, weights["table"].astype(np.float32).T)
    got = ort.InferenceSession(quantized.SerializeToString()).run(None, {"x": x})[0]
    # a value that lies between two steps may be rounded to either
    assert np.abs(got - wanted).max() < 0.02 * np.abs(wanted).max()
    assert np.abs(got - wanted).mean() < 2e-3 * np.abs(wanted).max()


def test_a_row_is_the_same_to_the_last_bit_whatever_it_is_with():
    session = ort.InferenceSession(quantize(graph()[0]).SerializeToString())
    x = RNG.standard_normal((9, WIDTH)).astype(np.float32) * np.logspace(-3, 3, 9, dtype=np.float32)[:, None]
    together = session.run(["y"], {"x": x})[0]
    for row in range(9):
        np.testing.assert_array_equal(session.run(["y"], {"x": x[row : row + 1]})[0][0], together[row])


def test_a_quantized_graph_is_one_that_the_checker_takes():
    model = quantize(graph()[0])
    assert {one.domain for one in model.opset_import} == {"", "com.microsoft"}
    onnx.checker.check_model(model)
