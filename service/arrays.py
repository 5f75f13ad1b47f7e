"""Arrays: padding inputs to one length and cropping outputs to their own, and functions of logits."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from contract.manifest import Port, Scores

Array: TypeAlias = npt.NDArray[Any]


def crop(array: Array, port: Port, lengths: Mapping[str, int]) -> Array:
    """Return one input's part of an output, without the padding that its neighbours brought."""
    return array[tuple(slice(lengths.get(str(axis))) for axis in port.axes[1:])]


def only_first(vector: Array, count: int | None) -> Array:
    """Return a vector with zeros behind its first numbers; None keeps all."""
    return vector if count is None else np.where(np.arange(len(vector)) < count, vector, np.float32(0))


def probabilities(logits: npt.NDArray[np.float32], scores: Scores) -> npt.NDArray[np.float64]:
    """Return the probability of each class: of one among all (softmax), or of each by itself (sigmoid).

    With `identity` the logits are no probabilities and are returned as they are.
    """
    if scores == "identity":
        return logits.astype(np.float64)
    return softmax(logits) if scores == "softmax" else sigmoid(logits)


def softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the probabilities of one row of logits, in float64. The sum is exact to the last bit (`fsum`)."""
    exact = np.exp(logits.astype(np.float64) - float(logits.max()))
    return exact / math.fsum(exact.tolist())  # Python numbers, over which `fsum` is three times as fast


def sigmoid(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return each logit's own probability, in float64."""
    return np.asarray(0.5 * (1 + np.tanh(logits.astype(np.float64) / 2)))


def padded(rows: Sequence[Array]) -> Array:
    """Stack arrays of as many axes, which may differ in length; zeros (or False) fill the shorter ones."""
    if all(row.shape == rows[0].shape for row in rows):
        # one copy of all: numpy lets go of the GIL for each row, and waits for it again as long as the loop computes
        joined = b"".join([np.ascontiguousarray(row).data for row in rows])
        return np.ndarray((len(rows), *rows[0].shape), rows[0].dtype, joined)
    stack = np.zeros((len(rows), *map(max, zip(*(row.shape for row in rows), strict=True))), rows[0].dtype)
    for index, row in enumerate(rows):
        stack[index][tuple(map(slice, row.shape))] = row
    return stack


def log_softmax(logits: Array) -> npt.NDArray[np.float64]:
    """Return log-probabilities along the last axis, in float64."""
    exact = logits.astype(np.float64)
    exact -= exact.max(axis=-1, keepdims=True)
    log_probabilities: npt.NDArray[np.float64] = exact - np.log(np.exp(exact).sum(axis=-1, keepdims=True))
    return log_probabilities
