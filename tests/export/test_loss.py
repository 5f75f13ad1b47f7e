"""Eight bits: what the rewritten products compute, and what is refused because it loses too much."""

import re

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from export.bundled import SOURCES
from export.checks import int8_loss as loss
from export.checks.int8_loss import hold, sampled
from export.errors import CheckpointError, ExportError
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


def test_what_loses_too_much_is_refused_and_says_how_much():
    fine = {"1 - cosine": 1e-4, "other answer": 0.0, "maps moved": 0.01}
    hold(fine, real=True)
    hold(fine | {"other answer": 0.5}, real=False)  # inputs that are drawn lie between classes
    for what, value, words in (
        ("1 - cosine", 0.02, "int8 loses too much: 1 - cosine 0.02, at most 0.01; --force exports it all the same"),
        ("maps moved", 0.2, "int8 loses too much: maps moved 0.2, at most 0.05; --force"),
        ("other answer", 0.5, "int8 loses too much: other answer 0.5, at most 0.1; --force"),
        ("1 - cosine", float("nan"), "int8 loses too much: 1 - cosine nan"),
    ):
        with pytest.raises(ExportError, match=re.escape(words)):
            hold(fine | {what: value}, real=True)


def test_the_figures_are_those_of_the_definitions():
    one, other = np.array([[1.0, 0.0], [3.0, 4.0]]), np.array([[1.0, 1.0], [4.0, 3.0]])
    apart, another = loss._apart(one, other)
    assert apart == pytest.approx(1 - (0.5**0.5 + 24 / 25) / 2)
    assert another == 0.5
    maps = np.array([[0.5, 0.5], [1.0, 0.0]])
    assert loss._moved([maps], [np.array([[0.5, 0.5], [0.25, 0.75]])]) == pytest.approx(0.375)


def test_samples_are_read_as_inputs(tmp_path):
    digits, dates = SOURCES["digits"](), SOURCES["dates"]()
    for index in range(3):
        Image.fromarray(RNG.integers(0, 256, (40, 30, 3), dtype=np.uint8)).save(tmp_path / f"{index}.png")
    (tmp_path / "notes.txt").write_text("no image")
    found = sampled(digits, tmp_path)
    assert [[tuple(tensor.shape) for tensor in tensors] for tensors in found] == [[(1, 28, 28, 1)]] * 3
    texts = tmp_path / "texts"
    texts.write_text("3/23/21\n\nthe third of May\n")
    (source, visible, target), _ = sampled(dates, texts)
    assert source.shape == visible.shape == (1, 7)
    assert visible.all()
    assert target.shape[0] == 1


@pytest.mark.parametrize(("name", "given"), [("digits", "empty"), ("dates", "empty.txt"), ("digits", "none")])
def test_samples_that_are_none_are_refused(tmp_path, name, given):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(
        CheckpointError, match=r"^--samples: must be a (folder of images|file of texts), given one that"
    ):
        sampled(SOURCES[name](), tmp_path / given)


def test_a_quantized_graph_is_one_that_the_checker_takes():
    model = quantize(graph()[0])
    assert {one.domain for one in model.opset_import} == {"", "com.microsoft"}
    onnx.checker.check_model(model)
