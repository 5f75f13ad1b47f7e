"""Eight bits: what the rewritten products compute."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from export.graphs.lowering.calibration import measure_ranges
from export.graphs.lowering.int8 import quantize, quantized_inputs
from tests.samples.export_graphs import kinds, model_of

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
    tensors = {name: value.astype(np.float32) for name, value in weights.items()}
    return model_of(nodes, {"x": ["row", WIDTH]}, {"y": ["row", 30], "dynamic": ["row", "row"]}, tensors), weights


def opened(model):
    """Open a graph so that its sums are exact on every processor."""
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    return ort.InferenceSession(model.SerializeToString(), options)


def product(x, matrix):
    """The definition, in float64: rows and columns in 255 steps, rounded to the nearest."""
    rows, columns = np.abs(x).max(1, keepdims=True), np.abs(matrix).max(0, keepdims=True)
    rows, columns = np.where(rows > 0, rows, 1) / 127, np.where(columns > 0, columns, 1) / 127
    return (x / rows).round() @ (matrix / columns).round() * rows * columns


def test_products_with_matrices_are_in_eight_bits_by_row_and_column():
    model, weights = graph()
    quantized = quantize(model)
    assert kinds(quantized).count("MatMulIntegerToFloat") == 3
    assert kinds(quantized).count("MatMul") == 1, "what two inputs are multiplied to stays as it is"
    assert {tensor.name for tensor in quantized.graph.initializer}.isdisjoint({"up", "down", "table"})
    x = RNG.standard_normal((7, WIDTH)).astype(np.float32)
    x[2] = 0
    hidden = np.maximum(product(x, weights["up"].astype(np.float32)), 0)
    out = product(hidden, weights["down"].astype(np.float32).T) + weights["bias"].astype(np.float32)
    wanted = product(out, weights["table"].astype(np.float32).T)
    got = opened(quantized).run(None, {"x": x})[0]
    # a value that lies between two steps may be rounded to either
    assert np.abs(got - wanted).max() < 0.02 * np.abs(wanted).max()
    assert np.abs(got - wanted).mean() < 2e-3 * np.abs(wanted).max()


def test_a_row_is_the_same_to_the_last_bit_whatever_it_is_with():
    session = opened(quantize(graph()[0]))
    x = RNG.standard_normal((9, WIDTH)).astype(np.float32) * np.logspace(-3, 3, 9, dtype=np.float32)[:, None]
    together = session.run(["y"], {"x": x})[0]
    for row in range(9):
        np.testing.assert_array_equal(session.run(["y"], {"x": x[row : row + 1]})[0][0], together[row])


def in_steps(x, low, high):
    """The definition, in float64: the range, and zero, in 255 steps; values beyond it are its ends."""
    low, high = min(low, 0), max(high, 0)
    step = (high - low) / 255
    zero = np.round(-low / step)
    return (np.clip(np.round(x / step) + zero, 0, 255) - zero) * step


def product_in_steps(x, matrix, low, high):
    """The definition, in float64: the left side in steps of its range, columns in 255 steps."""
    columns = np.abs(matrix).max(0, keepdims=True)
    columns = np.where(columns > 0, columns, 1) / 127
    return in_steps(x, low, high) @ (matrix / columns).round() * columns


def chain(x, weights, ranges):
    """The graph's definition, where a range is that of the tensor itself or one of `ranges`."""
    up, down, table = (weights[name].astype(np.float32) for name in ("up", "down", "table"))
    r = np.maximum(product_in_steps(x, up, *ranges.get("x", (x.min(), x.max()))), 0)
    d = product_in_steps(r, down.T, *ranges.get("r", (r.min(), r.max()))) + weights["bias"].astype(np.float32)
    return product_in_steps(d, table.T, *ranges.get("d", (d.min(), d.max())))


def close(got, wanted):
    """True if two products are the same but for values between two steps, which may be rounded to either."""
    largest = np.abs(wanted).max()
    return np.abs(got - wanted).max() < 0.03 * largest and np.abs(got - wanted).mean() < 3e-3 * largest


def test_an_input_has_one_scale_from_its_own_range():
    model, weights = graph()
    x = RNG.standard_normal((7, WIDTH)).astype(np.float32) + 2  # a range whose middle is not zero
    wanted = chain(x, weights, {})
    got = opened(quantize(model, "input")).run(["y"], {"x": x})[0]
    assert close(got, wanted)


def test_fixed_scales_are_those_of_the_ranges_whatever_an_input_holds():
    model, weights = graph()
    samples = [RNG.standard_normal((7, WIDTH)).astype(np.float32) + 1 for _ in range(3)]
    ranges = measure_ranges(model, [{"x": one} for one in samples])
    session = opened(quantize(model, "fixed", ranges))
    x = 3 * samples[0]  # much of it lies beyond the range
    assert close(session.run(["y"], {"x": x})[0], chain(x, weights, ranges))
    together = np.concatenate([samples[1], 100 * samples[2]])
    np.testing.assert_array_equal(session.run(["y"], {"x": together})[0][:7], session.run(["y"], {"x": samples[1]})[0])


def branches():
    """Two products of one tensor, one of whose biases is read elsewhere as well, as an output."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "c"], ["y"]),
        helper.make_node("MatMul", ["x", "w"], ["kept"]),
        helper.make_node("Add", ["kept", "c"], ["z"]),
    ]
    random = np.random.default_rng(1)
    weights = {"w": random.standard_normal((4, 5)), "c": random.standard_normal(5)}
    tensors = {name: value.astype(np.float32) for name, value in weights.items()}
    return model_of(nodes, {"x": ["row", 4]}, dict.fromkeys(("y", "kept", "z"), ("row", 5)), tensors)


def test_the_kernel_of_a_product_adds_its_bias_where_nothing_else_reads_the_product():
    x = RNG.standard_normal((6, 4)).astype(np.float32)
    wanted = opened(branches()).run(None, {"x": x})
    for scales in ("row", "input", "fixed"):
        ranges = {"x": (float(x.min()), float(x.max()))}
        model = quantize(branches(), scales, ranges)
        got = opened(model).run(None, {"x": x})
        for one, other in zip(got, wanted, strict=True):
            assert np.abs(one - other).max() < 0.05 * np.abs(other).max()
        assert kinds(model).count("Add") == (1 if scales == "input" else 2)
        assert sum("QuantizeLinear" in kind and "De" not in kind for kind in kinds(model)) == 1, "x is quantized once"


@pytest.mark.parametrize("scales", ["row", "input", "fixed"])
def test_a_quantized_graph_is_one_that_the_checker_takes(scales):
    model = graph()[0]
    model = quantize(model, scales, dict.fromkeys(quantized_inputs(model), (-3.0, 3.0)))
    assert {one.domain for one in model.opset_import} == ({""} if scales == "fixed" else {"", "com.microsoft"})
    onnx.checker.check_model(model)


@pytest.mark.parametrize("scales", ["row", "input"])
def test_what_is_computed_of_constants_alone_stays_as_it_is(scales):
    """It is computed once: eight bits would lose something and gain nothing."""
    model, weights = graph()
    model.graph.node.insert(0, helper.make_node("MatMul", ["activated", "up"], ["places"]))
    model.graph.node.insert(0, helper.make_node("Relu", ["fixed"], ["activated"]))
    model.graph.output.append(helper.make_tensor_value_info("places", TensorProto.FLOAT, [5, HIDDEN]))
    fixed = RNG.standard_normal((5, WIDTH)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(fixed, "fixed"))
    assert quantized_inputs(model) == ["x", "r", "d"]
    found = opened(quantize(model, scales)).run(["places"], {"x": np.zeros((1, WIDTH), np.float32)})[0]
    np.testing.assert_allclose(found, np.maximum(fixed, 0) @ weights["up"].astype(np.float32), atol=1e-5)
