"""Reverse-mode differentiation of an ONNX graph: nodes that compute gradients are appended to it.

An operator without a rule, or a shape that its rule does not cover, is an error. Verification compares gradients with
autograd.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import onnx

from export.errors import ExportError
from export.graphs.gradients.gradient_rules import OF_ALL_OUTPUTS, RULES
from export.graphs.gradients.tape import Rule, Tape

Visit: TypeAlias = Callable[[Tape, onnx.NodeProto, str], None]
"""A function of the tape, a node that depends on what is wanted, and the gradient of its output."""


def differentiate(
    model: onnx.ModelProto,
    output: str,
    seed: str,
    wanted: Sequence[str],
    *,
    rules: Mapping[str, Rule] | None = None,
    is_constant: Callable[[Tape, onnx.NodeProto], bool] = lambda tape, node: False,
    visit: Visit = lambda tape, node, gradient: None,
) -> dict[str, str]:
    """Append to a graph the gradient of Σ seed ⊙ output with respect to tensors; return their gradients' names.

    `seed` is the name of a tensor of the output's shape. Only what lies between `wanted` and `output` is computed.
    `rules` are those of the operators, by default `RULES`. No gradient flows through a node that `is_constant`. `visit`
    is called once for each node that a gradient flows through by its first output. Raises ExportError for an operator,
    a shape, or a further output, without a rule.
    """
    tape = Tape(model)
    forward = list(model.graph.node)
    rules = RULES if rules is None else rules
    tape.dependent = descendants((node for node in forward if not is_constant(tape, node)), wanted, tape.is_real)
    tape.gradients[output] = seed
    for node in reversed(forward):
        reached = [index for index, name in enumerate(node.output) if name in tape.gradients]
        if not reached or is_constant(tape, node) or not tape.dependent.intersection(node.input):
            continue
        if reached[-1] and node.op_type not in OF_ALL_OUTPUTS:
            raise ExportError(f"gradient: output {reached[-1]} of {node.op_type} has no gradient here")
        gradient = tape.gradients.get(node.output[0], "")
        if gradient:
            visit(tape, node, gradient)
        for index, name in enumerate(node.input):
            if name in tape.dependent:
                if node.op_type not in rules:
                    raise ExportError(f"gradient: {node.op_type} has no gradient here")
                tape.add(name, rules[node.op_type](tape, node, gradient, index))
    missing = [name for name in wanted if name not in tape.gradients]
    if missing:
        raise ExportError(f"gradient: {output} does not depend on {', '.join(missing)}")
    return {name: tape.gradients[name] for name in wanted}


def descendants(
    nodes: Iterable[onnx.NodeProto], wanted: Sequence[str], among: Callable[[str], bool] = lambda name: True
) -> set[str]:
    """Return the wanted tensors and all that depend on them by these nodes, through tensors `among` some only."""
    dependent = set(wanted)
    for node in nodes:
        if dependent.intersection(node.input):
            dependent.update(filter(among, node.output))
    return dependent
