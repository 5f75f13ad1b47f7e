"""What the states of tokens say: which parts of two inputs are alike, and which parts an input has.

DINOv2's patches of one kind of thing have states alike, in one photograph and between two (Oquab et al. 2023, arXiv
2304.07193, section 7.5; Amir et al. 2021, arXiv 2112.05814). States are (token, width), computed with in float64.
"""

import numpy as np
import numpy.typing as npt

from service.arrays import Array

States = npt.NDArray[np.floating]
Exact = npt.NDArray[np.float64]

COLOURS = 3
"""The components that colours are made of: red, green and blue."""
LOW, HIGH = 2, 98
"""The percentiles of a component at which its colour is 0 and 1."""
SMALLEST_LENGTH = 1e-12
"""A vector that is shorter is divided by this instead, so that its cosine with all is 0."""


def likeness(asked: States, states: States, middle: Exact) -> Exact:
    """Return the cosine of each asked state with each of the `states`, (asked, token), both less the `middle`."""
    ours, theirs = (_unit(one.astype(np.float64) - middle) for one in (asked, states))
    found: Exact = ours @ theirs.T
    return found.clip(-1, 1)


def middle_of(sides: list[tuple[States, Array]]) -> Exact:
    """Return the mean of the means of the parts of each side: its states, and which of them are parts of the input.

    A special token is none of them, and neither is a cell beside an image that was fitted in.
    """
    means = [states[parts].astype(np.float64).mean(0) for states, parts in sides if parts.any()]
    return np.mean(means, axis=0) if means else np.zeros(sides[0][0].shape[1])


def colours(sides: list[tuple[States, Array]]) -> list[Exact]:
    """Return for each side three numbers from 0 to 1 of each token, (colour, token).

    They are the first principal components of the parts of all sides together, by falling variance; the sign of each is
    that by which its third moment is positive. From the 2nd to the 98th percentile they go from 0 to 1.
    """
    parts = np.concatenate([states[own] for states, own in sides]).astype(np.float64)
    middle = parts.mean(0)
    centred = parts - middle
    _, axes = np.linalg.eigh(centred.T @ centred)  # by rising variance
    axes = axes[:, : -COLOURS - 1 : -1]
    axes = np.pad(axes, ((0, 0), (0, COLOURS - axes.shape[1])))
    scores = centred @ axes
    signs = np.where((scores**3).sum(0) < 0, -1, 1)
    low, high = np.percentile(scores * signs, (LOW, HIGH), axis=0)
    wide = np.where(high - low > SMALLEST_LENGTH, high - low, np.inf)
    return [(((states.astype(np.float64) - middle) @ axes * signs - low) / wide).clip(0, 1).T for states, _ in sides]


def _unit(vectors: Exact) -> Exact:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Exact = vectors / lengths.clip(min=SMALLEST_LENGTH)
    return found
