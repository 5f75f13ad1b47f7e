"""Quantization to 8 bits: the matrices of a traced graph by column, and what they multiply in one of three ways."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from contract.manifest import Scales
from export.graphs.editing.builder import Builder

Ranges: TypeAlias = Mapping[str, tuple[float, float]]
"""The least and the largest value of tensors, by name."""

MATRIX_RANK = 2

GEMM_INPUTS_WITHOUT_BIAS = 2


def quantize(graph: onnx.ModelProto, scales: Scales = "row", ranges: Ranges | None = None) -> onnx.ModelProto:
    """Quantize matrices to 8 bits with one scale per column, and what they multiply with scales of one of three sorts.

    `row`: one for each row, which is a token, computed at run time. `input`: one for the whole tensor, computed at run
    time; an input must then run alone, or its answer depends on the rest of the batch. `fixed`: one for the whole
    tensor, from the range of its values in `ranges` (`calibration.py`). Embeddings, norms and attention stay as they
    are. Returns a graph of its own; the given one is of no more use.
    """
    b = Builder(graph, "int8.")
    way: Way = _Fixed(b, ranges or {}) if scales == "fixed" else {"row": _ByRow, "input": _ByInput}[scales](b)
    return replace_products(graph, way)


def replace_products(graph: onnx.ModelProto, way: "Way") -> onnx.ModelProto:
    """Replace each product with a matrix by one of a way, whose builder adds to that graph; return the rest of it."""
    tensors = {tensor.name: tensor for tensor in graph.graph.initializer}
    products = {node.output[0]: (weight, flipped) for node, weight, flipped in _products(graph)}
    biases = _biases(graph, products) if way.adds_bias else {}
    folded = {add.output[0] for add in biases.values()}
    given = list(graph.graph.node)
    del graph.graph.node[:]
    for node in given:
        if node.output[0] in folded:
            continue
        if node.output[0] not in products:
            graph.graph.node.append(node)
            continue
        weight, flipped = products[node.output[0]]
        matrix = numpy_helper.to_array(tensors[weight])
        add = biases.get(node.output[0])
        bias = add.input[1] if add else node.input[2] if len(node.input) > GEMM_INPUTS_WITHOUT_BIAS else ""
        way.product(node.input[0], matrix.T if flipped else matrix, bias)
        graph.graph.node[-1].output[0] = (add or node).output[0]
    return _without_unused(graph)


def quantized_inputs(graph: onnx.ModelProto) -> list[str]:
    """Return the names of the tensors that matrices of a graph multiply, each once."""
    return list(dict.fromkeys(node.input[0] for node, _, _ in _products(graph)))


def is_plain_gemm(options: Mapping[str, Any]) -> bool:
    """True if a Gemm with these attributes is x W + c or x Wᵀ + c."""
    return not options.get("transA") and options.get("alpha", 1.0) == options.get("beta", 1.0) == 1.0


def _products(graph: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, str, bool]]:
    """Yield each product with a matrix, the name of the matrix, and whether it is multiplied as its transpose.

    What is computed of constants alone is left out: it is computed once, when the graph is loaded.
    """
    tensors = {tensor.name: tensor for tensor in graph.graph.initializer}
    constants = _constants(graph)
    transposed = {node.output[0]: node.input[0] for node in graph.graph.node if node.op_type == "Transpose"}
    for node in graph.graph.node:
        options = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        name = node.input[1] if node.op_type in ("MatMul", "Gemm") else ""
        weight = tensors.get(transposed.get(name, name))  # a head tied to the embeddings is their transpose
        if weight is None or node.input[0] in constants:
            continue
        if len(weight.dims) == MATRIX_RANK and is_plain_gemm(options):
            yield node, weight.name, bool(options.get("transB", 0)) != (name in transposed)


def _constants(graph: onnx.ModelProto) -> set[str]:
    """Return the names of the tensors that depend on no input of a graph."""
    found = {"", *(tensor.name for tensor in graph.graph.initializer)}
    for node in graph.graph.node:  # sorted by what they read
        if found.issuperset(node.input):
            found.update(node.output)
    return found


def _biases(graph: onnx.ModelProto, products: Mapping[str, Any]) -> dict[str, onnx.NodeProto]:
    """Return for outputs of products the node that adds a bias to it, where nothing else reads the output."""
    vectors = {tensor.name for tensor in graph.graph.initializer if len(tensor.dims) == 1}
    read = [name for node in graph.graph.node for name in node.input]
    without = {node.output[0] for node, *_ in _products(graph) if len(node.input) == GEMM_INPUTS_WITHOUT_BIAS}
    shared = {name for name in products if read.count(name) > 1} | {value.name for value in graph.graph.output}
    return {
        node.input[0]: node
        for node in graph.graph.node
        if node.op_type == "Add" and node.input[0] in without - shared and node.input[1] in vectors
    }


class _Matrix(NamedTuple):
    """The names of a matrix of int8, and of the scales and zero points of its columns."""

    eight: str
    steps: str
    zeros: str


class Way(ABC):
    """Multiplies tensors by matrices of few bits."""

    adds_bias = False
    """True if the kernel of the product adds the bias too."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    @abstractmethod
    def product(self, x: str, matrix: npt.NDArray[Any], bias: str) -> str:
        """Multiply a tensor by a matrix (in, out) of floats, which it quantizes, and add a bias (or "")."""


class _EightBits(Way):
    """Multiplies in 8 bits. A tensor that several matrices multiply is quantized once."""

    def __init__(self, b: Builder) -> None:
        super().__init__(b)
        self._quantized: dict[str, tuple[str, ...]] = {}

    def quantized(self, x: str) -> tuple[str, ...]:
        """Return what `_quantize` returns for a tensor."""
        if x not in self._quantized:
            self._quantized[x] = self._quantize(x)
        return self._quantized[x]

    @abstractmethod
    def _quantize(self, x: str) -> tuple[str, ...]:
        """Add what quantizes a tensor. Returns the names that the product needs."""

    def product(self, x: str, matrix: npt.NDArray[Any], bias: str) -> str:
        """Multiply a tensor by a matrix, whose columns it quantizes, and add a bias (or "").

        Each product has a copy of its matrix: onnxruntime cannot convert one that two read for processors without VNNI.
        """
        return self._times(x, _quantize_columns(self.b, matrix), bias)

    @abstractmethod
    def _times(self, x: str, matrix: _Matrix, bias: str) -> str:
        """Multiply a tensor by a matrix of int8, and add a bias (or "")."""


class _ByRow(_EightBits):
    """One scale for each row: max|x| of the row. The kernel gets x / max|x| in steps of 1/127 around 128."""

    def __init__(self, b: Builder) -> None:
        super().__init__(b)
        self._step = b.constant(1 / 127, np.float32)
        self._zero = b.constant(128, np.uint8)
        self._smallest = b.constant(1e-30, np.float32)  # for a row of zeros

    def _quantize(self, x: str) -> tuple[str, ...]:
        b = self.b
        largest = b.op("Max", b.reduce("ReduceMax", b.op("Abs", x), -1), self._smallest)
        return b.op("QuantizeLinear", b.op("Div", x, largest), self._step, self._zero), largest

    def _times(self, x: str, matrix: _Matrix, bias: str) -> str:
        b, (given, largest) = self.b, self.quantized(x)
        product = b.op(
            "MatMulIntegerToFloat", given, matrix.eight, self._step, matrix.steps, self._zero, domain="com.microsoft"
        )
        scaled = b.op("Mul", product, largest)
        return b.op("Add", scaled, bias) if bias else scaled


class _ByInput(_EightBits):
    """One scale and one zero point for the whole tensor, from its own range."""

    adds_bias = True

    def _quantize(self, x: str) -> tuple[str, ...]:
        return tuple(self.b.ops("DynamicQuantizeLinear", 3, x))

    def _times(self, x: str, matrix: _Matrix, bias: str) -> str:
        given, step, zero = self.quantized(x)
        last = ("", bias) if bias else ()  # without zero points of the matrix, which are 0
        inputs = (given, matrix.eight, step, matrix.steps, zero, *last)
        return self.b.op("MatMulIntegerToFloat", *inputs, domain="com.microsoft")


class _Fixed(_EightBits):
    """One scale and one zero point that are constants, in standard operators, which several runtimes fuse."""

    def __init__(self, b: Builder, ranges: Ranges) -> None:
        super().__init__(b)
        self._ranges = ranges

    def _quantize(self, x: str) -> tuple[str, ...]:
        b, (low, high) = self.b, self._ranges[x]
        low, high = min(low, 0.0), max(high, 0.0)  # zero is a step
        step = max(high - low, 1e-30) / 255
        constants = b.constant(step, np.float32), b.constant(round(-low / step), np.uint8)
        return (b.op("DequantizeLinear", b.op("QuantizeLinear", x, *constants), *constants),)

    def _times(self, x: str, matrix: _Matrix, bias: str) -> str:
        b = self.b
        # zero points that are named: onnxruntime converts them with the matrix for processors without VNNI
        product = b.op("MatMul", *self.quantized(x), b.op("DequantizeLinear", *matrix, axis=1))
        return b.op("Add", product, bias) if bias else product


def _quantize_columns(b: Builder, matrix: npt.NDArray[Any]) -> _Matrix:
    """Add a matrix (in, out) as int8 to the graph, with a scale for each column."""
    largest = np.abs(matrix).max(axis=0)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    zeros = b.constant(np.zeros(len(scale)), np.int8)
    return _Matrix(b.constant(np.round(matrix / scale), np.int8), b.constant(scale, np.float32), zeros)


def _without_unused(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Return a graph without transposes of matrices that are quantized, and without the matrices.

    It is a message of its own, since one of protobuf frees nothing of what it held before it ends itself.
    """
    read = {value.name for value in graph.graph.output} | {name for node in graph.graph.node for name in node.input}
    rest = onnx.ModelProto(
        ir_version=graph.ir_version, producer_name=graph.producer_name, opset_import=graph.opset_import,
        functions=graph.functions,
    )  # fmt: skip
    rest.graph.CopyFrom(onnx.GraphProto(name=graph.graph.name, input=graph.graph.input, output=graph.graph.output))
    rest.graph.node.extend(node for node in graph.graph.node if read.intersection(node.output))
    read = {name for node in rest.graph.node for name in node.input}
    rest.graph.initializer.extend(tensor for tensor in graph.graph.initializer if tensor.name in read)
    return rest
