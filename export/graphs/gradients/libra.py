"""The libra graph: the answer, and what each token and the biases give the score by balanced gradient x input.

What it computes is defined in `model/methods/attribution.py`, against which it is verified.
"""

import functools

import numpy as np
import onnx

from export.graphs.editing.base_graph import copy_base
from export.graphs.editing.builder import FLOAT, Builder
from export.graphs.editing.cleanup import prune
from export.graphs.gradients.balanced import balanced_gradients
from export.graphs.gradients.score import gradient_scale, score_of, unscaled
from export.plan import Plan
from export.traced.base import Traced


def libra_graph(base: onnx.ModelProto, plan: Plan, traced: Traced) -> onnx.ModelProto:
    """Extend the base graph to the libra graph: the answer, tokens and biases of every layer, and the score."""
    graph, b, answer = copy_base(base, plan, "libra.")
    _, *ports, biases, score = plan.outputs
    states = traced.states
    scale = gradient_scale(base, states[0])
    explained = score_of(b, plan, answer, traced.classes)
    seeded = explained.scaled(b, scale)
    gradients, added = balanced_gradients(graph, seeded.output, seeded.seed, states)
    shares = [_share(b, *unscaled(b, state, gradients[state], scale)) for state in states]  # (batch, 1, token) each
    layers = traced.layers
    for kind, port in zip(traced.explained("libra"), ports, strict=True):
        of_kind = shares if len(traced.stacks) == 1 else [shares[traced.stack_of(kind)]]
        b.output(port.name, b.op("Concat", *of_kind, axis=1), FLOAT, port.axes)
    b.output(biases.name, _behind(b, added, layers, scale, explained.value), FLOAT, biases.axes)
    b.output(score.name, explained.value, FLOAT, score.axes)
    return prune(graph, plan)


def _share(b: Builder, x: str, gradient: str) -> str:
    """Return Σ_channels x ⊙ gradient, (batch, 1, token)."""
    return b.op("Unsqueeze", b.reduce("ReduceSum", b.op("Mul", x, gradient), -1, keep=False), b.constant([1]))


def _behind(b: Builder, added: list[list[str]], layers: int, scale: float, score: str) -> str:
    """Return what the biases behind each layer's state add up to, (batch, layer); zeros where there are none.

    `added` has one list for each state. The states of two stacks are one layer. `score` is (batch).
    """
    if layers == 1:
        added = [[one for of_state in added for one in of_state]]
    total, behind = "", list[str]()
    for of_layer in reversed(added):
        if total:
            total = functools.reduce(functools.partial(b.op, "Add"), of_layer, total)
        else:
            total = b.op("Sum", *of_layer) if of_layer else b.op("Sub", score, score)
        behind.append(b.op("Unsqueeze", total, b.constant([1])))
    found = b.op("Concat", *reversed(behind), axis=1)
    return found if scale == 1 else b.op("Div", found, b.constant(scale, np.float32))
