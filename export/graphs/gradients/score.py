"""The score that a graph explains, and its gradient at the answer: a logit, a difference of two, or a cosine."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import onnx

from contract.manifest import ANSWERED
from export.graphs.editing.builder import FLOAT, Builder
from export.plan import Plan

GRADIENT_SCALE = 1024.0
"""Loss scaling for half floats: this multiple of the score is differentiated, so that small gradients do not vanish.

The gradients are divided by it in float32.
"""

SMALLEST_LENGTH = 1e-12
"""A vector that is shorter is divided by this instead."""


class Score(NamedTuple):
    """Names of tensors: a score is Σ seed ⊙ output."""

    output: str
    seed: str
    value: str
    """The score of each row, (batch)."""

    def scaled(self, b: Builder, scale: float) -> "Score":
        """Return the same with a multiple of the seed."""
        return self if scale == 1 else self._replace(seed=b.op("Mul", self.seed, b.constant(scale, np.float32)))


def score_of(b: Builder, plan: Plan, answer: str, classes: int | None) -> Score:
    """Return the score of an answer that the inputs of a plan ask for: of one of the first `classes`, or of any."""
    given = {port.name for port in plan.inputs}
    if "other" in given:
        return _cosine(b, answer)
    row, place = answer, _place(b, given)
    if place:  # (batch, place, class)
        row = b.op("GatherND", answer, b.op("Unsqueeze", place, b.constant([1])), batch_dims=1)
    length = b.length(row, 1)
    zero = b.constant(0)
    among = row if classes is None else b.op("Slice", row, b.constant([0]), b.constant([classes]), b.constant([1]))
    likeliest = b.op("ArgMax", among, axis=1, keepdims=0)
    target = b.op("Where", b.op("Less", "explained", zero), likeliest, "explained")
    nothing = b.op("Where", b.op("Less", "against", zero), length, "against")  # an index that no class has
    seed = b.op("Sub", b.one_hot(target, length), b.one_hot(nothing, length))
    value = b.reduce("ReduceSum", b.op("Mul", row, seed), 1, keep=False)
    if place:
        at = b.op("Unsqueeze", b.one_hot(place, b.length(answer, 1)), b.constant([2]))
        seed = b.op("Mul", at, b.op("Unsqueeze", seed, b.constant([1])))
    return Score(answer, seed, value)


def _place(b: Builder, given: Collection[str]) -> str | None:
    """Return which of several answers of an input is explained, (batch); None of a model that gives one.

    A decoder answers at the tokens that it is asked for: here at the position that is explained alone.
    """
    if "position" not in given:
        return None
    if not b.reads(ANSWERED):
        return "position"
    b.begin("Unsqueeze", ["position", b.constant([1])], ANSWERED)
    return b.op("Sub", "position", "position")


def gradient_scale(base: onnx.ModelProto, name: str) -> float:
    """Return the multiple of a score to differentiate, for gradients of the type of an output of the base graph."""
    kind = next(value for value in base.graph.output if value.name == name).type.tensor_type.elem_type
    return 1.0 if kind == FLOAT else GRADIENT_SCALE


def unscaled(b: Builder, x: str, gradient: str, scale: float) -> tuple[str, str]:
    """Return a tensor and its gradient in float32, the gradient divided by the scale."""
    if scale == 1:
        return x, gradient
    return b.as_float32(x), b.op("Div", b.as_float32(gradient), b.constant(scale, np.float32))


def _cosine(b: Builder, answer: str) -> Score:
    """Return the cosine of a vector and `other`, of the numbers that are `kept` (1, of others 0)."""
    unit, other = (_unit(b, vector) for vector in (answer, "other"))
    return Score(unit, other, b.reduce("ReduceSum", b.op("Mul", unit, other), 1, keep=False))


def _unit(b: Builder, vector: str) -> str:
    x = b.op("Mul", b.op("Cast", vector, to=FLOAT), "kept")
    length = b.op("Clip", b.reduce("ReduceL2", x, 1), b.constant(SMALLEST_LENGTH, np.float32))
    return b.op("Div", x, length)
