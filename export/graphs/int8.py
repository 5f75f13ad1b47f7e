"""Dynamic quantization to 8 bits: the matrices of a traced graph, with one scale per column and one per token."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from export.graphs.builder import Builder


def quantize(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Quantize matrices to 8 bits with one scale per column, and what they multiply with one scale per row.

    A row is a token. Its scale is computed at run time from its own largest value, so that an answer does not depend on
    the rest of the batch. (The runtime's own dynamic quantization has one scale for a whole batch; one per row takes up
    to a fifth more time, and loses less.) Embeddings, norms and attention stay as they are. Changes the graph in place.
    """
    b = Builder(graph, "int8.")
    tensors = {tensor.name: tensor for tensor in graph.graph.initializer}
    transposed = {node.output[0]: node.input[0] for node in graph.graph.node if node.op_type == "Transpose"}
    given, rows, columns = list(graph.graph.node), _RowQuantizer(b), dict[str, tuple[str, str]]()
    del graph.graph.node[:]
    for node in given:
        options = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        name = node.input[1] if node.op_type in ("MatMul", "Gemm") else ""
        weight = tensors.get(transposed.get(name, name))  # a head tied to the embeddings is their transpose
        if weight is None or len(weight.dims) != MATRIX_RANK or not is_plain_gemm(options):
            graph.graph.node.append(node)
            continue
        if name not in columns:
            matrix = numpy_helper.to_array(weight)
            columns[name] = _quantize_columns(
                b, matrix.T if options.get("transB", 0) != (name in transposed) else matrix
            )
        x, scale = rows.quantized(node.input[0])
        eight, steps = columns[name]
        product = b.op("MatMulIntegerToFloat", x, eight, rows.step, steps, rows.zero, domain="com.microsoft")
        if len(node.input) > GEMM_INPUTS_WITHOUT_BIAS:
            b.op("Add", b.op("Mul", product, scale), node.input[2])
        else:
            b.op("Mul", product, scale)
        graph.graph.node[-1].output[0] = node.output[0]
    wanted = {value.name for value in graph.graph.output}
    used = wanted | {name for node in graph.graph.node for name in node.input}
    nodes = [node for node in graph.graph.node if used.intersection(node.output)]  # without transposes of matrices
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.graph.initializer if tensor.name in used]
    kept = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
    del graph.graph.initializer[:]
    graph.graph.initializer.extend(kept)
    return graph


MATRIX_RANK = 2

GEMM_INPUTS_WITHOUT_BIAS = 2


def is_plain_gemm(options: Mapping[str, Any]) -> bool:
    """True if a Gemm with these attributes is x W + c or x Wᵀ + c."""
    return not options.get("transA") and options.get("alpha", 1.0) == options.get("beta", 1.0) == 1.0


class _RowQuantizer:
    """Quantizes tensors by row, each tensor once."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.step = b.constant(1 / 127, np.float32)
        self.zero = b.constant(128, np.uint8)
        self._smallest = b.constant(1e-30, np.float32)  # for a row of zeros
        self._quantized: dict[str, tuple[str, str]] = {}

    def quantized(self, x: str) -> tuple[str, str]:
        """Return for every row x / max|x| in steps of 1/127 around 128, as uint8, and max|x|."""
        if x not in self._quantized:
            b = self.b
            largest = b.op("Max", b.reduce("ReduceMax", b.op("Abs", x), -1), self._smallest)
            self._quantized[x] = b.op("QuantizeLinear", b.op("Div", x, largest), self.step, self.zero), largest
        return self._quantized[x]


def _quantize_columns(b: Builder, matrix: npt.NDArray[Any]) -> tuple[str, str]:
    """Add a matrix (in, out) as int8 to the graph, and the scale of each column. Returns the names of both."""
    largest = np.abs(matrix).max(axis=0)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    return b.constant(np.round(matrix / scale), np.int8), b.constant(scale, np.float32)
