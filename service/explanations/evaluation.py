"""Curves of an evaluation: how a score changes as the parts of an input are taken away, or put back, in some order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Curve: TypeAlias = npt.NDArray[np.float64]
CurveName: TypeAlias = Literal["deletion", "insertion"]
MeasureName: TypeAlias = Literal["probability", "score", "cosine"]

CURVE_NAMES: tuple[CurveName, ...] = ("deletion", "insertion")
COMPARE = "compare"
"""What a request asks for in place of curves, to get those of all methods."""
STEPS = 10
"""Steps of a curve after its beginning. Each takes away or puts back an equal share of the parts."""
FRACTIONS: Curve = (np.arange(STEPS + 1) / STEPS).round(3)
RANDOM = "random"
"""The name of the random order, beside the methods'."""
SEED = 0
"""That of the random order; further ones have those that follow."""


@dataclass(frozen=True)
class Score:
    """What is measured: the probability of a class or token, the logit of one, or a cosine of two embeddings."""

    measure: MeasureName
    label: str
    """What people call the class, the token or the other input."""
    entry: Mapping[str, object]
    """What JSON says of it: the class or token as `target`, and which mask or position it is of."""


@dataclass(frozen=True)
class Evaluation:
    """The curves of one input for each order of its parts: those of one map or of several methods, and a random one."""

    score: Score
    parts: Literal["patches", "tokens"]
    curves: Mapping[str, Mapping[CurveName, Curve]]
    """By method, or `RANDOM`; each curve has a value for each of the `FRACTIONS`."""
    compared: bool
    """True if it was asked for as a comparison of methods."""
    digits: int
    others: Sequence[Mapping[CurveName, Curve]] = ()
    """Those of further random orders."""

    def json(self) -> dict[str, object]:
        """Return it as an answer holds it."""
        frame = {**self.score.entry, "measure": self.score.measure, "fractions": FRACTIONS}
        if self.compared:
            rows = [
                {
                    "method": order,
                    **({"seed": SEED} if order == RANDOM else {}),
                    **{name: self._curve(curve) for name, curve in curves.items()},
                }
                for order, curves in self.curves.items()
            ]
            return {**frame, "compare": rows}
        random, (own, *_) = self.curves[RANDOM], self.curves.values()
        beside = [{"name": name, **self._curve(own[name]), "random": self._random(name, random)} for name in own]
        return {**frame, "curves": beside}

    def _random(self, name: CurveName, random: Mapping[CurveName, Curve]) -> dict[str, object]:
        """Return the curve of the first random order, with those of the `others`."""
        first, *others = (
            {"seed": seed, **self._curve(one[name])} for seed, one in enumerate((random, *self.others), SEED)
        )
        return {**first, "others": others} if others else first

    def _curve(self, curve: Curve) -> dict[str, object]:
        return {"probabilities": curve.round(self.digits), "area": round(area(curve), self.digits)}


def area(curve: Curve) -> float:
    """Return the area under a curve, by the trapezoidal rule: its mean height."""
    return float(((curve[1:] + curve[:-1]) / 2).mean())
