"""The scale of colours: the values that a map is coloured from and to.

Attention has few large values: in a scale that ends at the largest, one hot patch leaves all others cold. So the
colours over an image end earlier, as a rule, and what is larger has the hottest colour (`end_of_colours`).
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.float64]
Scale: TypeAlias = Literal["clipped", "full"]

RANK = 0.98
"""Colours end at the value of this rank (nearest rank) among the sizes that are not 0."""
MOST_ABOVE = 0.5
"""The largest share of the sum of all sizes that may be of larger values than the end."""


@dataclass(frozen=True)
class Range:
    """The values that a map is coloured from and to."""

    low: float
    high: float
    signed: bool

    def shares(self, values: Values) -> npt.NDArray[np.float32]:
        """Return values scaled from 0 at `low` to 1 at `high`. If these are equal, all are cold, or in the middle."""
        if self.high == self.low:
            return np.full(values.shape, 0.5 if self.signed else 0, np.float32)
        return ((values - self.low) / (self.high - self.low)).clip(0, 1).astype(np.float32)

    @property
    def numbers(self) -> tuple[str, str]:
        """Return the ends as texts."""
        low, high = (f"{end:.3g}" for end in (self.low or 0.0, self.high or 0.0))  # no minus before a zero
        return low, high


def overlay_range(values: Values, *, signed: bool, scale: Scale = "clipped") -> Range:
    """Return the range over an image: from the least value to the end or, signed, as far below zero as above."""
    if signed:
        end = end_of_colours(values) if scale == "clipped" else _largest(values)
        return Range(-end, end, signed=True)
    low, high = float(values.min()), float(values.max())
    if scale == "clipped" and high > 0:  # values of both signs are so coloured where a colormap is asked for
        high = max(end_of_colours(values.clip(min=0)), low)
    return Range(low, high, signed=False)


def matrix_range(values: Values, *, signed: bool) -> Range:
    """Return the range in a matrix: from zero to the largest value or, signed, as far below zero as above."""
    most = _largest(values)
    return Range(-most, most, signed=True) if signed else Range(0, float(values.max(initial=0)), signed=False)


def end_of_colours(values: Values) -> float:
    """Return the size of a value from which on colours are the hottest; 0 if all values are 0.

    Of the sizes that are not 0 it is the one of nearest rank RANK, or the next larger ones while what is larger has
    more than MOST_ABOVE of the sum. So a single hot cell stays hot alone, and of fewer than 50 sizes it is the largest.
    """
    sizes = np.sort(np.abs(values), axis=None)
    sizes = sizes[sizes > 0]
    if not len(sizes):
        return 0.0
    sums = np.cumsum(sizes)
    above = sums[-1] - sums
    enough = int(np.argmax(above <= MOST_ABOVE * sums[-1]))
    return float(sizes[max(math.ceil(RANK * len(sizes)) - 1, enough)])


def count_above(values: Values, within: Range) -> int:
    """Return how many values are beyond the end of the colours; of signed ones, at either side."""
    return int(((np.abs(values) if within.signed else values) > within.high).sum())


def _largest(values: Values) -> float:
    return float(np.abs(values).max(initial=0))
