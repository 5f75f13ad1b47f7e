"""TODO: what export/graphs/int8.py is."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from export.graphs.builder import Builder


def quantize(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Return a graph whose matrices are 8-bit, a scale a column, and so is what they multiply, a scale a row.

    A row is a token: its scale is its own largest value's, found as it comes, so that an answer does not depend on what
    else is in the batch. (The runtime has, with its own dynamic quantization, one scale for all that runs
    together; rows cost up to a fifth more time, and lose less.) Embeddings, norms and attention stay as they are.
    """
    b = Builder(graph, "int8.")
    tensors = {tensor.name: tensor for tensor in graph.graph.initializer}
    turned = {node.output[0]: node.input[0] for node in graph.graph.node if node.op_type == "Transpose"}
    given, rows, columns = list(graph.graph.node), _Rows(b), dict[str, tuple[str, str]]()
    del graph.graph.node[:]
    for node in given:
        options = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        name = node.input[1] if node.op_type in ("MatMul", "Gemm") else ""
        weight = tensors.get(turned.get(name, name))  # a head that is tied to embeddings is these, turned
        if weight is None or len(weight.dims) != MATRIX or not plain(options):
            graph.graph.node.append(node)
            continue
        if name not in columns:
            matrix = numpy_helper.to_array(weight)
            columns[name] = _columns(b, matrix.T if options.get("transB", 0) != (name in turned) else matrix)
        x, scale = rows.quantized(node.input[0])
        eight, steps = columns[name]
        product = b.op("MatMulIntegerToFloat", x, eight, rows.step, steps, rows.zero, domain="com.microsoft")
        if len(node.input) > MATRIX:
            b.op("Add", b.op("Mul", product, scale), node.input[2])
        else:
            b.op("Mul", product, scale)
        graph.graph.node[-1].output[0] = node.output[0]
    wanted = {value.name for value in graph.graph.output}
    used = wanted | {name for node in graph.graph.node for name in node.input}
    nodes = [node for node in graph.graph.node if used.intersection(node.output)]  # but what turned a matrix
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.graph.initializer if tensor.name in used]
    kept = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
    del graph.graph.initializer[:]
    graph.graph.initializer.extend(kept)
    return graph


MATRIX = 2
"""Axes."""


def plain(options: Mapping[str, Any]) -> bool:
    """Return whether a Gemm is x W + c, or x Wᵀ + c."""
    return not options.get("transA") and options.get("alpha", 1.0) == options.get("beta", 1.0) == 1.0


class _Rows:
    """What was quantized by row, each tensor once."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.step = b.constant(1 / 127, np.float32)
        self.zero = b.constant(128, np.uint8)
        self._least = b.constant(1e-30, np.float32)  # of a row of zeros
        self._made: dict[str, tuple[str, str]] = {}

    def quantized(self, x: str) -> tuple[str, str]:
        """Return x / max|x| in steps of 1/127 around 128, and max|x|, of every row."""
        if x not in self._made:
            b = self.b
            largest = b.op("Max", b.reduce("ReduceMax", b.op("Abs", x), -1), self._least)
            self._made[x] = b.op("QuantizeLinear", b.op("Div", x, largest), self.step, self.zero), largest
        return self._made[x]


def _columns(b: Builder, matrix: npt.NDArray[Any]) -> tuple[str, str]:
    """Add a matrix (in, out) in 8 bits, and the scale of each column."""
    largest = np.abs(matrix).max(axis=0)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    return b.constant(np.round(matrix / scale), np.int8), b.constant(scale, np.float32)
