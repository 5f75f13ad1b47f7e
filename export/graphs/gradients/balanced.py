"""The balanced backward pass of an ONNX graph (LibraGrad, Mehri et al., CVPR 2025), and what its biases add.

It is defined in `model/methods/attribution.py`, against which it is verified: attention's weights, the deviation of a
norm, the slope g of an activation x g(x), sigmoids and divisors are constants; each of two factors gets half of the
gradient.
"""

from collections.abc import Mapping, Sequence

import onnx

from export.errors import ExportError
from export.graphs.gradients.gradient import descendants, differentiate
from export.graphs.gradients.gradient_rules import RULES, batch_norm_factor, gelu_share, of_channels, sum_broadcast
from export.graphs.gradients.tape import Rule, Tape

CONSTANTS = {"Softmax", "Sigmoid", "Erf", "Sqrt", "Reciprocal", "ReduceL2"}
"""Operators whose results are constants."""

BIASES = {"Gemm": 2, "Conv": 2, "LayerNormalization": 2, "BatchNormalization": 2}
"""The index of the input that an operator adds to its result."""


def balanced_gradients(
    model: onnx.ModelProto, output: str, seed: str, states: Sequence[str]
) -> tuple[dict[str, str], list[list[str]]]:
    """Append the balanced gradient of Σ seed ⊙ output with respect to states, each of which depends on those before it.

    Returns the names of the gradients, and for each state the names (batch) of what each bias adds to the score that
    lies behind it and before the next state.
    """
    nodes = list(model.graph.node)
    behind = [descendants(nodes, [state]) for state in states]
    biases: list[list[str]] = [[] for _ in states]

    def visit(tape: Tape, node: onnx.NodeProto, gradient: str) -> None:
        if added := _added(tape, node, gradient):
            last = max(index for index, names in enumerate(behind) if names.intersection(node.input))
            biases[last].append(added)

    gradients = differentiate(model, output, seed, states, rules=BALANCED_RULES, is_constant=_is_constant, visit=visit)
    return gradients, biases


def _is_constant(tape: Tape, node: onnx.NodeProto) -> bool:
    """True if no gradient flows through a node: it computes a factor that is taken as a constant."""
    if node.op_type == "Tanh":  # of ½ x (1 + tanh u), as older opsets write a GELU
        readers = tape.consumers(node.output[0])
        return bool(readers) and all(one.op_type == "Add" and _is_one(tape, one, node.output[0]) for one in readers)
    return node.op_type in CONSTANTS


def _is_one_more(tape: Tape, add: onnx.NodeProto) -> bool:
    """True of the sum in log(1 + x), which has no share of its own: the logarithm is x g(x)."""
    return any(_is_one(tape, add, name) for name in add.input) and any(
        reader.op_type == "Log" for reader in tape.consumers(add.output[0])
    )


def _is_one(tape: Tape, add: onnx.NodeProto, name: str) -> bool:
    """True if a node adds 1 to a tensor."""
    other = add.input[1 - list(add.input).index(name)]
    return other in tape.weights and not tape.shapes[other] and float(tape.constant_value(other)) == 1


def _added(tape: Tape, node: onnx.NodeProto, gradient: str) -> str | None:
    """Return what the constant that a node adds gives to the score, (batch); None if it adds none."""
    constants = [name for name in node.input if name and name not in tape.dependent]
    if node.op_type in ("Add", "Sub"):
        if not constants or (node.op_type == "Add" and _is_one_more(tape, node)):
            return None
        (bias,) = constants
        summed = _summed(tape, gradient, bias)
        return tape.op("Neg", summed) if node.op_type == "Sub" and node.input[1] == bias else summed
    index = BIASES.get(node.op_type)
    if index is None or len(node.input) <= index or not node.input[index]:
        return None
    bias = node.input[index]
    if node.op_type == "BatchNormalization":  # (x - mean) f + bias
        bias = tape.op("Sub", bias, tape.op("Mul", node.input[3], batch_norm_factor(tape, node)))
    if node.op_type in ("Conv", "BatchNormalization"):
        bias = of_channels(tape, bias, node.output[0])
        return _total(tape, tape.op("Mul", tape.as_float32(gradient), tape.as_float32(bias)))
    return _summed(tape, gradient, bias)


def _summed(tape: Tape, gradient: str, bias: str) -> str:
    """Return Σ gradient ⊙ bias of each row of the batch."""
    gradient, wide = tape.as_float32(gradient), tape.as_float32(bias)
    if len(tape.shapes[bias]) != 1:
        return _total(tape, tape.op("Mul", gradient, wide))
    (channels,) = tape.shapes[bias]
    if not isinstance(channels, int):
        raise ExportError("gradient: a bias has a fixed length")
    rows = tape.op("Reshape", gradient, tape.constant([0, -1, channels]))  # (batch, token, channel)
    return tape.op("MatMul", tape.reduce("ReduceSum", rows, 1, keep=False), wide)


def _total(tape: Tape, x: str) -> str:
    """Return the sum of each row of the batch."""
    return tape.reduce("ReduceSum", tape.op("Flatten", x), 1, keep=False)


def _layer_norm(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    """Differentiate (x - mean) / deviation with the deviation as a constant."""
    names = [str(name) for name in node.output] + [f"{node.output[0]}.{what}" for what in ("mean", "inverse")]
    if len(node.output) == 1:
        node.output.extend(names[1:])
    gradient, scale = (tape.as_float32(name) for name in (gradient, node.input[1]))
    g = tape.op("Mul", gradient, scale)
    centred = tape.op("Sub", g, tape.reduce("ReduceMean", g, -1))
    return tape.op("Cast", tape.op("Mul", centred, node.output[2]), to=tape.types[node.input[0]])


def _multiply(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    """Give half of the gradient to each factor, if both depend on what is explained."""
    product = tape.op("Mul", gradient, node.input[1 - index])
    if set(node.input) <= tape.dependent:
        product = tape.op("Mul", product, tape.number(0.5, node.input[index]))
    return sum_broadcast(tape, node, product, index)


def _gelu(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    return tape.op("Mul", gradient, gelu_share(tape, node))


def _tanh(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    """Differentiate tanh(x) = x g(x) with g as a constant."""
    return _through_value(tape, node, gradient, node.input[0])


def _logarithm(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    """Differentiate log(1 + x) = x g(x) with g as a constant. What is added to 1 is x as it was rounded."""
    y = node.input[0]
    sums = [one for one in tape.graph.node if one.op_type == "Add" and y in one.output]
    if not any(_is_one_more(tape, one) for one in sums):
        return RULES["Log"](tape, node, gradient, index)
    return _through_value(tape, node, gradient, tape.op("Sub", y, tape.number(1, y)))


def _through_value(tape: Tape, node: onnx.NodeProto, gradient: str, x: str) -> str:
    """Differentiate f(x) = x g(x) with g as a constant; at 0 it is the derivative, 1."""
    zero, one = (tape.number(value, node.input[0]) for value in (0, 1))
    at_zero = tape.op("Equal", x, zero)
    share = tape.op("Where", at_zero, one, tape.op("Div", node.output[0], tape.op("Where", at_zero, one, x)))
    return tape.op("Mul", gradient, share)


BALANCED_RULES: Mapping[str, Rule] = {
    **RULES,
    "LayerNormalization": _layer_norm,
    "Mul": _multiply,
    "Gelu": _gelu,
    "Tanh": _tanh,
    "Log": _logarithm,
}
