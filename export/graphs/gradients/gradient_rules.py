"""The rules of differentiation: for each operator the vector-Jacobian product of its definition (ONNX specification).

An operator without a rule, or a shape that its rule does not cover, is an error.
"""

import math

import numpy as np
import onnx

from export.errors import ExportError
from export.graphs.gradients.index_rules import INDEX_RULES
from export.graphs.gradients.tape import Rule, Tape, attributes_of


def _axes(tape: Tape, node: onnx.NodeProto, x: str) -> list[int]:
    given = attributes_of(node).get("axes") or (
        tape.constant_value(node.input[1]).tolist() if len(node.input) > 1 else None
    )
    rank = len(tape.shapes[x])
    return [axis % rank for axis in (given or range(rank))]


def sum_broadcast(tape: Tape, node: onnx.NodeProto, gradient: str, index: int, axes: slice = slice(None)) -> str:
    """Sum a gradient over the axes along which an input was broadcast, among those of its own that `axes` selects."""
    own, out = tape.shapes[node.input[index]], tape.shapes[node.output[0]]
    more = len(out) - len(own)
    if more:
        gradient = tape.op("ReduceSum", gradient, tape.constant(range(more)), keepdims=0)
    spread = [at for at in range(len(own))[axes] if own[at] == 1 != out[more + at]]
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
    return sum_broadcast(tape, node, gradient, index)


def _subtract(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return sum_broadcast(tape, node, tape.op("Neg", gradient) if index else gradient, index)


def _multiply(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return sum_broadcast(tape, node, tape.op("Mul", gradient, _other(node, index)), index)


def _divide(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    share = tape.op("Div", gradient, node.input[1])
    share = tape.op("Neg", tape.op("Mul", share, node.output[0])) if index else share
    return sum_broadcast(tape, node, share, index)


def _matmul(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    first, second = node.input
    if len(tape.shapes[first]) < 2 or len(tape.shapes[second]) < 2:
        raise ExportError("gradient: MatMul has a gradient here of matrices")
    if index == 0 and second in tape.weights:  # this needs no transposed copy of the weights
        product = tape.op("FusedMatMul", gradient, second, transB=1, domain="com.microsoft")
    elif index == 0:
        product = tape.op("MatMul", gradient, tape.transposed(second))
    else:
        product = tape.op("MatMul", tape.transposed(first), gradient)
    return sum_broadcast(tape, node, product, index, slice(-2))


def _gemm(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    given = attributes_of(node)
    if index or given.get("transA") or given.get("alpha", 1.0) != 1:
        raise ExportError("gradient: Gemm has a gradient here only of its first factor, as it is")
    return tape.op("Gemm", gradient, node.input[1], transB=1 - given.get("transB", 0))


def _softmax(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    share = tape.op("Mul", gradient, node.output[0])
    total = tape.reduce("ReduceSum", share, attributes_of(node).get("axis", -1))
    return tape.op("Sub", share, tape.op("Mul", node.output[0], total))


def _layer_norm(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    if index or attributes_of(node).get("axis", -1) not in (-1, len(tape.shapes[node.input[0]]) - 1):
        raise ExportError("gradient: LayerNormalization has a gradient here of its input, over the last axis")
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


def batch_norm_factor(tape: Tape, node: onnx.NodeProto) -> str:
    """Return what BatchNormalization multiplies each channel by, (channel)."""
    _, scale, _, _, variance = node.input
    spread = tape.op("Sqrt", tape.op("Add", variance, tape.number(attributes_of(node).get("epsilon", 1e-5), variance)))
    return tape.op("Div", scale, spread)


def of_channels(tape: Tape, values: str, x: str) -> str:
    """Shape a number a channel, which is the second axis of x, so that it is broadcast to x."""
    return tape.op("Reshape", values, tape.constant([-1, *[1] * (len(tape.shapes[x]) - 2)]))


def _batch_norm(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    if index:
        raise ExportError("gradient: BatchNormalization has a gradient here of its input")
    return tape.op("Mul", gradient, of_channels(tape, batch_norm_factor(tape, node), node.input[0]))


def _convolution(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    """Differentiate by the input: a transposed convolution. Pixels that no step reached, at the end, are padded."""
    given = attributes_of(node)
    if index or given.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise ExportError("gradient: Conv has a gradient here of its input, padded by numbers")
    kept = {name: given[name] for name in ("pads", "group", "dilations", "strides", "kernel_shape") if name in given}
    strides = given.get("strides", [1])
    if set(strides) != {1}:
        sides, kernel = tape.shapes[node.input[0]][2:], tape.shapes[node.input[1]][2:]
        if not all(isinstance(side, int) for side in (*sides, *kernel)):
            raise ExportError("gradient: Conv has a gradient here of steps of 1, or of an input of a fixed size")
        pads, dilations = given.get("pads", [0] * 2 * len(sides)), given.get("dilations", [1] * len(sides))
        kept["output_padding"] = [
            (int(side or 0) + before + after - dilation * (int(size or 0) - 1) - 1) % stride
            for side, size, before, after, dilation, stride in zip(
                sides, kernel, pads[: len(sides)], pads[len(sides) :], dilations, strides, strict=True
            )
        ]
    return tape.op("ConvTranspose", gradient, node.input[1], **kept)


def _transpose(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    given = attributes_of(node).get("perm") or list(reversed(range(len(tape.shapes[node.input[0]]))))
    return tape.op("Transpose", gradient, perm=[int(axis) for axis in np.argsort(given)])


def _reshape(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return tape.op("Reshape", gradient, tape.op("Shape", node.input[0]))


def gelu_share(tape: Tape, node: onnx.NodeProto) -> str:
    """Return g of x g(x): Φ(x), or its approximation ½ (1 + tanh u), u = √(2/π) (x + 0.044715 x³)."""
    x = node.input[0]

    def number(value: float) -> str:
        return tape.number(value, x)

    if attributes_of(node).get("approximate", b"none") == b"none":
        bent = tape.op("Erf", tape.op("Mul", x, number(0.5**0.5)))
    else:
        scale, square = (2 / math.pi) ** 0.5, tape.op("Mul", x, x)
        bent = tape.op("Tanh", tape.op("Mul", x, tape.op(
            "Add", tape.op("Mul", square, number(0.044715 * scale)), number(scale))))  # fmt: skip
    return tape.op("Mul", tape.op("Add", bent, number(1)), number(0.5))


def _gelu(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    """Differentiate x g(x): g + x g'."""
    x, share = node.input[0], gelu_share(tape, node)

    def number(value: float) -> str:
        return tape.number(value, x)

    if attributes_of(node).get("approximate", b"none") == b"none":  # g' is the normal density
        bell = tape.op("Exp", tape.op("Mul", tape.op("Mul", x, x), number(-0.5)))
        more = tape.op("Mul", tape.op("Mul", bell, x), number((2 * math.pi) ** -0.5))
    else:  # g' = ½ (1 - tanh² u) u' = 2 g (1 - g) u'
        scale, square = (2 / math.pi) ** 0.5, tape.op("Mul", x, x)
        along = tape.op(
            "Mul", x, tape.op("Add", tape.op("Mul", square, number(6 * 0.044715 * scale)), number(2 * scale))
        )
        more = tape.op("Mul", tape.op("Mul", share, tape.op("Sub", number(1), share)), along)
    return tape.op("Mul", gradient, tape.op("Add", share, more))


def _erf(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    x = node.input[0]
    bell = tape.op("Exp", tape.op("Neg", tape.op("Mul", x, x)))
    return tape.op("Mul", gradient, tape.op("Mul", bell, tape.number(2 / math.pi**0.5, x)))


def _power(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    if index:
        raise ExportError("gradient: Pow has a gradient here of its base")
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


def _root(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    y = node.output[0]
    return tape.op("Div", gradient, tape.op("Add", y, y))


def _exponential(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return tape.op("Mul", gradient, node.output[0])


def _logarithm(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return tape.op("Div", gradient, node.input[0])


def _softplus(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return tape.op("Mul", gradient, tape.op("Sigmoid", node.input[0]))


def _sine(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return tape.op("Mul", gradient, tape.op("Cos", node.input[0]))


def _cosine(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return tape.op("Neg", tape.op("Mul", gradient, tape.op("Sin", node.input[0])))


def _negative(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return tape.op("Neg", gradient)


def _reciprocal(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    y = node.output[0]
    return tape.op("Neg", tape.op("Mul", gradient, tape.op("Mul", y, y)))


def _clip(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    x = node.input[0]
    return tape.op("Where", tape.op("Equal", node.output[0], x), gradient, tape.number(0, x))


def _where(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    zero = tape.number(0, node.input[index])
    chosen = tape.op("Where", node.input[0], *((gradient, zero) if index == 1 else (zero, gradient)))
    return sum_broadcast(tape, node, chosen, index)


def _expand(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return sum_broadcast(tape, node, gradient, index)


def _extreme(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    """Differentiate Max or Min of several: where more than one are the result, each gets an equal share."""
    y = node.output[0]
    found = [tape.op("Cast", tape.op("Equal", x, y), to=tape.types[y]) for x in node.input]
    share = tape.op("Div", gradient, tape.op("Sum", *found))
    return sum_broadcast(tape, node, tape.op("Mul", found[index], share), index)


def _reduce(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    x = node.input[0]
    axes = _axes(tape, node, x)
    if not attributes_of(node).get("keepdims", 1):
        gradient = tape.op("Unsqueeze", gradient, tape.constant(axes))
    shape = tape.op("Shape", x)
    spread = tape.op("Expand", gradient, shape)
    if node.op_type == "ReduceSum":
        return spread
    lengths = tape.op("Gather", shape, tape.constant(axes))
    count = tape.op("ReduceProd", lengths, keepdims=0)
    return tape.op("Div", spread, tape.op("Cast", count, to=tape.types[x]))


def _largest(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    """Differentiate a maximum: where several are the largest, each gets an equal share."""
    x, y = node.input[0], node.output[0]
    axes = _axes(tape, node, x)
    if not attributes_of(node).get("keepdims", 1):
        gradient, y = (tape.op("Unsqueeze", name, tape.constant(axes)) for name in (gradient, y))
    found = tape.op("Cast", tape.op("Equal", x, y), to=tape.types[x])
    count = tape.op("ReduceSum", found, tape.constant(axes))
    return tape.op("Mul", found, tape.op("Div", gradient, count))


def _length(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    """Differentiate the length of vectors: x / ‖x‖, 0 at 0."""
    x, y = node.input[0], node.output[0]
    if not attributes_of(node).get("keepdims", 1):
        axes = tape.constant(_axes(tape, node, x))
        gradient, y = (tape.op("Unsqueeze", name, axes) for name in (gradient, y))
    least = tape.number(2.0**-14 if tape.types[x] == onnx.TensorProto.FLOAT16 else 2.0**-126, x)
    return tape.op("Mul", x, tape.op("Div", gradient, tape.op("Max", y, least)))


RULES: dict[str, Rule] = {
    **INDEX_RULES,
    "Identity": _identity,
    "Cast": _cast,
    "Add": _add,
    "Sum": _add,
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
    "Sqrt": _root,
    "Neg": _negative,
    "Exp": _exponential,
    "Log": _logarithm,
    "Softplus": _softplus,
    "Sin": _sine,
    "Cos": _cosine,
    "Max": _extreme,
    "Min": _extreme,
    "Reciprocal": _reciprocal,
    "Expand": _expand,
    "Clip": _clip,
    "Where": _where,
    "ReduceMean": _reduce,
    "ReduceSum": _reduce,
    "ReduceMax": _largest,
    "ReduceL2": _length,
}

OF_ALL_OUTPUTS = {"Split"}
"""Operators whose rule reads the gradients of all outputs."""
