"""Four bits: what the rewritten products compute."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from export.graphs.lowering import int4
from export.graphs.lowering.int4 import quantize_blocks
from tests.samples.export_graphs import kinds, model_of
from tests.samples.four_bits import rounded

RNG = np.random.default_rng(0)
WIDTH, HIDDEN, TOKENS = 72, 40, 50


def graph():
    """A product with a bias, a Gemm of the other layout, and a head that is tied to embeddings."""
    weights = {
        "up": RNG.standard_normal((WIDTH, HIDDEN)),
        "down": RNG.standard_normal((WIDTH, HIDDEN)),
        "bias": RNG.standard_normal(WIDTH),
        "table": RNG.standard_normal((TOKENS, WIDTH)),
    }
    weights["up"][32:64, 3] = 0  # a block without a scale of its own
    nodes = [
        helper.make_node("MatMul", ["x", "up"], ["a"]),
        helper.make_node("Gemm", ["a", "down", "bias"], ["d"], transB=1),
        helper.make_node("Gather", ["table", "token"], ["e"]),
        helper.make_node("Add", ["d", "e"], ["f"]),
        helper.make_node("Transpose", ["table"], ["head"], perm=[1, 0]),
        helper.make_node("MatMul", ["f", "head"], ["y"]),
    ]
    tensors = {name: value.astype(np.float32) for name, value in weights.items()}
    tensors["token"] = np.array([7])
    return model_of(nodes, {"x": ["row", WIDTH]}, {"y": ["row", TOKENS]}, tensors), tensors


@pytest.mark.parametrize("rows", [1, 7])
def test_matrices_are_in_four_bits_by_blocks_and_all_else_in_floats(monkeypatch, rows):
    monkeypatch.setattr(int4, "COLUMNS_AT_ONCE", 16)  # so that matrices are quantized in parts
    model, weights = graph()
    quantized = quantize_blocks(model)
    onnx.checker.check_model(quantized)
    assert kinds(quantized).count("MatMulNBits") == 3
    assert {"MatMul", "Gemm", "Transpose"}.isdisjoint(kinds(quantized))
    names = {tensor.name for tensor in quantized.graph.initializer}
    assert "table" in names, "embeddings stay floats"
    assert names.isdisjoint({"up", "down"})
    x = RNG.standard_normal((rows, WIDTH)).astype(np.float32)
    d = x @ rounded(weights["up"]) @ rounded(weights["down"].T) + weights["bias"]
    wanted = (d + weights["table"][7]) @ rounded(weights["table"].T)
    (got,) = ort.InferenceSession(quantized.SerializeToString()).run(None, {"x": x})
    assert np.abs(got - wanted).max() < 1e-5 * np.abs(wanted).max()
    exact = (x @ weights["up"] @ weights["down"].T + weights["bias"] + weights["table"][7]) @ weights["table"].T
    assert 0.01 < np.abs(got - exact).mean() / np.abs(exact).mean() < 0.2, "there is a loss"


def test_two_numbers_are_a_byte_and_a_block_has_a_scale():
    model, _weights = graph()
    quantized = quantize_blocks(model)
    sizes = {tuple(tensor.dims): len(tensor.raw_data) for tensor in quantized.graph.initializer}
    assert sizes[TOKENS, 3, 16] == TOKENS * 3 * 16, "three blocks of 32 numbers, two to a byte; the last is filled up"
    assert sizes[TOKENS, 3] == TOKENS * 3 * 4
