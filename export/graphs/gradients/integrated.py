"""The integrated graph: one point of the path from a baseline to the input, for integrated gradients.

At x' = b + point (x - b) it returns Σ_channels (x - b) ⊙ ∂score/∂x' for each token; the mean over the midpoints of n
equal steps is `attribution.integrated`, against which it is verified. x are the states that enter the first block of
each stack, b those of the baseline, times `blank`. If every row of a batch is at an end of the path, 0 or 1, only the
score is computed, and the tokens are 0.
"""

import functools
from collections.abc import Sequence

import numpy as np
import onnx

from contract.manifest import BASELINE
from export.graphs.editing.base_graph import copy_base
from export.graphs.editing.builder import BOOL, FLOAT, INT64, Builder
from export.graphs.editing.cleanup import prune
from export.graphs.gradients.gradient import differentiate
from export.graphs.gradients.score import gradient_scale, score_of, unscaled
from export.plan import Plan
from export.traced.base import Traced


def integrated_graph(base: onnx.ModelProto, plan: Plan, traced: Traced) -> onnx.ModelProto:
    """Extend the base graph to the integrated graph: gradient times difference of each token, and the score."""
    graph, b, answer = copy_base(base, plan, "integrated.")
    *ports, score = plan.outputs
    states = [traced.state(stack, 0) for stack in traced.stacks]
    blanks = {port.name for port in plan.inputs if port.name.startswith(BASELINE)}
    between = _interpolate(graph, b, states, blanks)
    scale = gradient_scale(base, states[0])
    explained = score_of(b, plan, answer, traced.classes)
    seeded = explained.scaled(b, scale)
    inside = _any_inside(b)
    forward = len(graph.graph.node)
    gradients = differentiate(graph, seeded.output, seeded.seed, [state for state, _ in between.values()])
    backward = [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.graph.node[forward:]]
    del graph.graph.node[forward:]
    asked = [between[states[traced.stack_of(kind)]] for kind in traced.explained("integrated")]
    tokens = [(difference, gradients[state]) for state, difference in asked]
    found = b.branch(
        inside, functools.partial(_products, b, backward, tokens, scale), functools.partial(_zeros, b, tokens)
    )
    for port, name in zip(ports, found, strict=True):
        b.output(port.name, name, FLOAT, port.axes)
    b.output(score.name, explained.value, FLOAT, score.axes)
    return prune(graph, plan)


def _any_inside(b: Builder) -> str:
    """Return whether the point of any row lies between the ends of the path."""
    ends = [b.op("Equal", "point", b.constant(end, np.float32)) for end in (0, 1)]
    inside = b.op("Cast", b.op("Not", b.op("Or", *ends)), to=INT64)
    return b.op("Cast", b.reduce("ReduceMax", inside, 0, keep=False), to=BOOL)


def _products(
    b: Builder, backward: Sequence[onnx.NodeProto], tokens: Sequence[tuple[str, str]], scale: float
) -> list[str]:
    """Compute gradients, and return Σ_channels difference ⊙ gradient for each pair of their names, (batch, token)."""
    b.adopt(backward)
    products = [b.op("Mul", *unscaled(b, difference, gradient, scale)) for difference, gradient in tokens]
    return [b.reduce("ReduceSum", product, -1, keep=False) for product in products]


def _zeros(b: Builder, tokens: Sequence[tuple[str, str]]) -> list[str]:
    """Return zeros (batch, token) for each pair of names."""
    return [b.zeros(b.op("Shape", difference, end=2)) for difference, _ in tokens]


def _interpolate(graph: onnx.ModelProto, b: Builder, states: list[str], blanks: set[str]) -> dict[str, tuple[str, str]]:
    """Let all that reads a state read a point between it and that of the baseline instead.

    Returns for each state the names of that point, and of the difference of state and baseline.
    """
    nodes = list(graph.graph.node)
    embedding = _ancestors(nodes, states)
    rest = [node for node in nodes if not any(node is one for one in embedding)]
    del graph.graph.node[:]
    graph.graph.node.extend(embedding)
    names = {name.removeprefix(BASELINE): name for name in blanks}
    for node in embedding:
        copied = onnx.NodeProto()
        copied.CopyFrom(node)
        copied.name = ""
        for index, name in enumerate(node.input):
            copied.input[index] = names.get(name, name)
        for index, name in enumerate(node.output):
            copied.output[index] = names[name] = f"{BASELINE}{name}"
        graph.graph.node.append(copied)
    found = {}
    for state in states:
        blank, point = (
            b.op("CastLike", b.op("Unsqueeze", name, b.constant([1, 2])), state) for name in ("blank", "point")
        )
        start = b.op("Mul", names[state], blank)
        difference = b.op("Sub", state, start)
        found[state] = (b.op("Add", start, b.op("Mul", point, difference)), difference)
    for node in rest:
        for index, name in enumerate(node.input):
            if name in found:
                node.input[index] = found[name][0]
    graph.graph.node.extend(rest)
    return found


def _ancestors(nodes: list[onnx.NodeProto], states: list[str]) -> list[onnx.NodeProto]:
    """Return the nodes that compute states, in order."""
    wanted, found = set(states), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            found.append(node)
    return found[::-1]
