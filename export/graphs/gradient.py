"""Reverse-mode differentiation of an ONNX graph: nodes that compute gradients are appended to it.

There is one rule per operator, the vector-Jacobian product of its definition in the ONNX specification. An operator
without a rule, or a shape that its rule does not cover, is an error. Verification compares gradients with autograd.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from export.errors import ExportError
from export.graphs.builder import Builder

Shape: TypeAlias = tuple[int | str | None, ...]


class Tape(Builder):
    """A builder that also knows the shapes, types and gradients of a graph's tensors."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model, "gradient.")
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        known = {one.name: one.type.tensor_type for one in (*inferred.value_info, *inferred.input, *inferred.output)}
        self.shapes = {name: _shape(kind) for name, kind in known.items()}
        self.types = {name: kind.elem_type for name, kind in known.items()}
        self.shapes |= {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
        self.types |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
        self.weights = {tensor.name for tensor in model.graph.initializer}
        self.gradients: dict[str, str] = {}

    def number(self, value: float, like: str) -> str:
        """Add a constant with the type of another tensor."""
        return self.constant(value, helper.tensor_dtype_to_np_dtype(self.types[like]))

    def constant_value(self, name: str) -> npt.NDArray[Any]:
        """Return the value of a tensor. Raises ExportError if it is not constant."""
        for node in self.graph.node:
            if node.op_type == "Constant" and node.output[0] == name:
                return numpy_helper.to_array(_attributes(node)["value"])
        for tensor in self.graph.initializer:
            if tensor.name == name:
                return numpy_helper.to_array(tensor)
        raise ExportError("relevance: an index that is not constant has no gradient here")

    def transposed(self, x: str) -> str:
        """Transpose the last two axes."""
        rank = len(self.shapes[x])
        return self.op("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])

    def add(self, name: str, gradient: str) -> None:
        """Add a term to the gradient of a tensor."""
        before = self.gradients.get(name)
        self.gradients[name] = gradient if before is None else self.op("Add", before, gradient)


Rule: TypeAlias = Callable[[Tape, onnx.NodeProto, str, int], str]
"""Takes a node, the gradient of its output and the index of an input; returns the gradient of that input."""


def differentiate(model: onnx.ModelProto, output: str, seed: str, wanted: Sequence[str]) -> dict[str, str]:
    """Append to a graph the gradient of Σ seed ⊙ output with respect to tensors; return their gradients' names.

    `seed` is the name of a tensor of the output's shape. Only what lies between `wanted` and `output` is computed.
    Raises ExportError for an operator, or a shape, without a rule.
    """
    tape = Tape(model)
    forward = list(model.graph.node)
    dependent = _descendants(forward, wanted)
    tape.gradients[output] = seed
    for node in reversed(forward):
        gradient = tape.gradients.get(node.output[0])
        if gradient is None or not dependent.intersection(node.output):
            continue
        for index, name in enumerate(node.input):
            if name in dependent:
                if node.op_type not in RULES:
                    raise ExportError(f"relevance: {node.op_type} has no gradient here")
                tape.add(name, RULES[node.op_type](tape, node, gradient, index))
    missing = [name for name in wanted if name not in tape.gradients]
    if missing:
        raise ExportError(f"relevance: {output} does not depend on {', '.join(missing)}")
    return {name: tape.gradients[name] for name in wanted}


def _descendants(nodes: Iterable[onnx.NodeProto], wanted: Sequence[str]) -> set[str]:
    """Return the wanted tensors and all that depend on them."""
    dependent = set(wanted)
    for node in nodes:
        if dependent.intersection(node.input):
            dependent.update(node.output)
    return dependent


def _shape(kind: onnx.TypeProto.Tensor) -> Shape:
    return tuple(
        one.dim_value if one.HasField("dim_value") else one.dim_param if one.HasField("dim_param") else None
        for one in kind.shape.dim
    )


def _attributes(node: onnx.NodeProto) -> Mapping[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _axes(tape: Tape, node: onnx.NodeProto, x: str) -> list[int]:
    given = _attributes(node).get("axes") or (
        tape.constant_value(node.input[1]).tolist() if len(node.input) > 1 else None
    )
    rank = len(tape.shapes[x])
    return [axis % rank for axis in (given or range(rank))]


def _sum_broadcast(tape: Tape, node: onnx.NodeProto, gradient: str, index: int, axes: slice = slice(None)) -> str:
    """Sum a gradient over the axes along which an input was broadcast, among those that `axes` selects."""
    own, out = tape.shapes[node.input[index]], tape.shapes[node.output[0]]
    if len(own) != len(out):
        raise ExportError(
            f"relevance: {node.op_type} broadcasts {list(own)} to {list(out)}, which has no gradient here"
        )
    spread = [at for at in range(len(own))[axes] if own[at] == 1 != out[at]]
    for axis in spread:
        gradient = tape.reduce("ReduceSum", gradient, axis)
    return gradient


def _other(node: onnx.NodeProto, index: int) -> str:
    return str(node.input[1 - index])


def _identity(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return gradient


def _cast(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return tape.op("Cast", gradient, to=tape.types[node.input[0]])


def _add(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return _sum_broadcast(tape, node, gradient, index)


def _subtract(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return _sum_broadcast(tape, node, tape.op("Neg", gradient) if index else gradient, index)


def _multiply(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return _sum_broadcast(tape, node, tape.op("Mul", gradient, _other(node, index)), index)


def _divide(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    share = tape.op("Div", gradient, node.input[1])
    share = tape.op("Neg", tape.op("Mul", share, node.output[0])) if index else share
    return _sum_broadcast(tape, node, share, index)


def _matmul(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    first, second = node.input
    if index == 0 and second in tape.weights:  # this needs no transposed copy of the weights
        product = tape.op("FusedMatMul", gradient, second, transB=1, domain="com.microsoft")
    elif index == 0:
        product = tape.op("MatMul", gradient, tape.transposed(second))
    else:
        product = tape.op("MatMul", tape.transposed(first), gradient)
    return _sum_broadcast(tape, node, product, index, slice(-2))


def _gemm(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    given = _attributes(node)
    if index or given.get("transA") or given.get("alpha", 1.0) != 1:
        raise ExportError("relevance: Gemm has a gradient here only of its first factor, as it is")
    return tape.op("Gemm", gradient, node.input[1], transB=1 - given.get("transB", 0))


def _softmax(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    share = tape.op("Mul", gradient, node.output[0])
    total = tape.reduce("ReduceSum", share, _attributes(node).get("axis", -1))
    return tape.op("Sub", share, tape.op("Mul", node.output[0], total))


def _layer_norm(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    if index or _attributes(node).get("axis", -1) not in (-1, len(tape.shapes[node.input[0]]) - 1):
        raise ExportError("relevance: LayerNormalization has a gradient here of its input, over the last axis")
    names = [str(name) for name in node.output] + [f"{node.output[0]}.{what}" for what in ("mean", "inverse")]
    if len(node.output) == 1:
        node.output.extend(names[1:])
    mean, inverse = node.output[1], node.output[2]  # floats, whatever x is
    x, gradient, scale = (tape.as_float32(name) for name in (node.input[0], gradient, node.input[1]))
    g = tape.op("Mul", gradient, scale)
    normal = tape.op("Mul", tape.op("Sub", x, mean), inverse)
    along = tape.op("Mul", normal, tape.reduce("ReduceMean", tape.op("Mul", g, normal), -1))
    rest = tape.op("Sub", tape.op("Sub", g, tape.reduce("ReduceMean", g, -1)), along)
    return tape.op("Cast", tape.op("Mul", rest, inverse), to=tape.types[node.input[0]])


def _batch_norm(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    x, scale, _, _, variance = node.input
    if index:
        raise ExportError("relevance: BatchNormalization has a gradient here of its input")
    spread = tape.op("Sqrt", tape.op("Add", variance, tape.number(_attributes(node).get("epsilon", 1e-5), variance)))
    shape = tape.constant([-1, *[1] * (len(tape.shapes[x]) - 2)])  # a factor a channel, the second axis
    return tape.op("Mul", gradient, tape.op("Reshape", tape.op("Div", scale, spread), shape))


def _convolution(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    """Differentiate by the input: a transposed convolution."""
    given = _attributes(node)
    if index or set(given.get("strides", [1])) != {1} or given.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise ExportError("relevance: Conv has a gradient here of its input, step 1")
    kept = {name: given[name] for name in ("pads", "group", "dilations", "kernel_shape") if name in given}
    return tape.op("ConvTranspose", gradient, node.input[1], **kept)


def _transpose(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    given = _attributes(node).get("perm") or list(reversed(range(len(tape.shapes[node.input[0]]))))
    return tape.op("Transpose", gradient, perm=[int(axis) for axis in np.argsort(given)])


def _reshape(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return tape.op("Reshape", gradient, tape.op("Shape", node.input[0]))


def _gelu(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    """Differentiate x Φ(x), or its approximation ½x (1 + tanh u), u = √(2/π) (x + 0.044715 x³)."""
    x = node.input[0]

    def number(value: float) -> str:
        return tape.number(value, x)

    half, one = number(0.5), number(1)
    if _attributes(node).get("approximate", b"none") == b"none":
        share = tape.op("Mul", tape.op("Add", tape.op("Erf", tape.op("Mul", x, number(0.5**0.5))), one), half)
        bell = tape.op("Exp", tape.op("Mul", tape.op("Mul", x, x), number(-0.5)))
        slope = tape.op("Add", share, tape.op("Mul", tape.op("Mul", bell, x), number((2 * math.pi) ** -0.5)))
    else:
        scale, square = (2 / math.pi) ** 0.5, tape.op("Mul", x, x)
        u = tape.op("Mul", x, tape.op("Add", tape.op("Mul", square, number(0.044715 * scale)), number(scale)))
        bent = tape.op("Tanh", u)
        along = tape.op("Mul", x, tape.op("Add", tape.op("Mul", square, number(3 * 0.044715 * scale)), number(scale)))
        inner = tape.op("Mul", tape.op("Sub", one, tape.op("Mul", bent, bent)), along)
        slope = tape.op("Mul", tape.op("Add", tape.op("Add", bent, one), inner), half)
    return tape.op("Mul", gradient, slope)


def _erf(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    x = node.input[0]
    bell = tape.op("Exp", tape.op("Neg", tape.op("Mul", x, x)))
    return tape.op("Mul", gradient, tape.op("Mul", bell, tape.number(2 / math.pi**0.5, x)))


def _power(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    if index:
        raise ExportError("relevance: Pow has a gradient here of its base")
    x, power = node.input[0], float(tape.constant_value(node.input[1]))
    lower = tape.op("Pow", x, tape.number(power - 1, x))
    return tape.op("Mul", gradient, tape.op("Mul", lower, tape.number(power, x)))


def _relu(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    zero = tape.number(0, node.input[0])
    return tape.op("Where", tape.op("Greater", node.output[0], zero), gradient, zero)


def _tanh(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    y = node.output[0]
    return tape.op("Mul", gradient, tape.op("Sub", tape.number(1, y), tape.op("Mul", y, y)))


def _sigmoid(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    y = node.output[0]
    return tape.op("Mul", gradient, tape.op("Mul", y, tape.op("Sub", tape.number(1, y), y)))


def _where(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    zero = tape.number(0, node.input[index])
    chosen = tape.op("Where", node.input[0], *((gradient, zero) if index == 1 else (zero, gradient)))
    return _sum_broadcast(tape, node, chosen, index)


def _gather(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    x, axis = node.input[0], _attributes(node).get("axis", 0) % len(tape.shapes[node.input[0]])
    place = tape.constant_value(node.input[1])
    if place.ndim:
        raise ExportError("relevance: Gather has a gradient here of one place")
    length = tape.length(x, axis)
    places = tape.op("Range", tape.constant(0), length, tape.constant(1))
    found = tape.op("Equal", places, tape.constant(int(place)) if place >= 0 else tape.op("Add", length, node.input[1]))
    shape = tape.constant([-1, *[1] * (len(tape.shapes[x]) - axis - 1)])
    spread = tape.op("Unsqueeze", gradient, tape.constant([axis]))
    return tape.op("Where", tape.op("Reshape", found, shape), spread, tape.number(0, x))


def _slice(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    x, shape = node.input[0], tape.shapes[node.input[0]]
    starts, ends = (tape.constant_value(name).tolist() for name in node.input[1:3])
    axes = tape.constant_value(node.input[3]).tolist() if len(node.input) > 3 else list(range(len(starts)))
    before, after = [0] * len(shape), [0] * len(shape)
    for start, end, axis in zip(starts, ends, axes, strict=True):
        length = shape[axis]
        if start < 0 or (len(node.input) > 4 and set(tape.constant_value(node.input[4]).tolist()) != {1}):
            raise ExportError("relevance: Slice has a gradient here from a place counted from the front, step 1")
        before[axis] = start
        if end < 2**31 - 1:
            if not isinstance(length, int):
                raise ExportError("relevance: Slice has a gradient here to the end, or of a fixed length")
            after[axis] = max(0, length - end) if end >= 0 else -end
    return tape.op("Pad", gradient, tape.constant(before + after), tape.number(0, x))


def _concat(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    axis = _attributes(node)["axis"]
    lengths = [tape.shapes[name][axis] for name in node.input[: index + 1]]
    if not all(isinstance(length, int) for length in lengths):
        raise ExportError("relevance: Concat has a gradient here along a fixed axis")
    *before, own = (int(length or 0) for length in lengths)
    start = sum(before)
    return tape.op("Slice", gradient, *(tape.constant([value]) for value in (start, start + own, axis)))


def _reduce(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    x = node.input[0]
    axes = _axes(tape, node, x)
    if not _attributes(node).get("keepdims", 1):
        gradient = tape.op("Unsqueeze", gradient, tape.constant(axes))
    shape = tape.op("Shape", x)
    spread = tape.op("Expand", gradient, shape)
    if node.op_type == "ReduceSum":
        return spread
    lengths = tape.op("Gather", shape, tape.constant(axes))
    count = tape.op("ReduceProd", lengths, keepdims=0)
    return tape.op("Div", spread, tape.op("Cast", count, to=tape.types[x]))


def _gather_elements(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    x, axis = node.input[0], _attributes(node).get("axis", 0)
    zeros = tape.zeros(tape.op("Shape", x))  # single floats: half ones are not added up everywhere
    scattered = tape.op("ScatterElements", zeros, node.input[1], tape.as_float32(gradient), axis=axis, reduction="add")
    return tape.op("Cast", scattered, to=tape.types[x])


RULES: dict[str, Rule] = {
    "Identity": _identity,
    "Cast": _cast,
    "Add": _add,
    "Sub": _subtract,
    "Mul": _multiply,
    "Div": _divide,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Softmax": _softmax,
    "LayerNormalization": _layer_norm,
    "BatchNormalization": _batch_norm,
    "Conv": _convolution,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Squeeze": _reshape,
    "Unsqueeze": _reshape,
    "Flatten": _reshape,
    "Gelu": _gelu,
    "Erf": _erf,
    "Pow": _power,
    "Relu": _relu,
    "Tanh": _tanh,
    "Sigmoid": _sigmoid,
    "Where": _where,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "ReduceMean": _reduce,
    "ReduceSum": _reduce,
    "GatherElements": _gather_elements,
}
