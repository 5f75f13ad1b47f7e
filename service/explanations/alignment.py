"""When each token was heard: a path through what alignment heads looked at (Radford et al. 2023, openai-whisper).

A head's weights are compared with those of other tokens, smoothed along time, and averaged; dynamic time warping (Sakoe
and Chiba 1978) finds the path through tokens and frames, each in order, on which they are largest.
"""

import numpy as np
import numpy.typing as npt

from service.arrays import Array

SMOOTHED = 7
"""Frames of the median."""
FROM_BOTH, FROM_TOKEN, FROM_FRAME = 0, 1, 2
"""Where a step of the path comes from: the token and the frame before, the token before, or the frame before."""


def first_frames(weights: Array) -> list[int]:
    """Return the frame at which each token begins, of weights (head, token, frame) of the heads that align.

    Rows are those of the tokens that are timed; frames end where the sound does.
    """
    if not weights.size:
        return [0] * weights.shape[1]
    exact = weights.astype(np.float64)
    spread = exact.std(axis=1, keepdims=True)
    standard = np.divide(exact - exact.mean(axis=1, keepdims=True), spread, out=np.zeros_like(exact), where=spread > 0)
    tokens, frames = path(-smoothed(standard).mean(axis=0))
    begins = np.diff(tokens, prepend=-1) > 0
    found: list[int] = frames[begins].tolist()
    return found


def smoothed(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the median of SMOOTHED frames around each; beyond the ends frames are mirrored."""
    side = SMOOTHED // 2
    if values.shape[-1] <= side:
        return values
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(side, side)], mode="reflect")
    medians: npt.NDArray[np.float64] = np.median(
        np.lib.stride_tricks.sliding_window_view(padded, SMOOTHED, -1), axis=-1
    )
    return medians


def path(costs: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the tokens and the frames of the cheapest path through costs (token, frame), from the first to the last.

    A step goes on by a token, a frame, or both. It is computed by diagonals, whose cells do not need each other.
    """
    rows, columns = costs.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0
    came = np.full((rows + 1, columns + 1), FROM_FRAME, np.int8)
    came[:, 0] = FROM_TOKEN
    for diagonal in range(2, rows + columns + 1):
        row = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        column = diagonal - row
        both, token, frame = total[row - 1, column - 1], total[row - 1, column], total[row, column - 1]
        step = np.where(
            (both < token) & (both < frame),
            FROM_BOTH,
            np.where((token < both) & (token < frame), FROM_TOKEN, FROM_FRAME),
        )
        total[row, column] = costs[row - 1, column - 1] + np.choose(step, (both, token, frame))
        came[row, column] = step
    place, steps = (rows, columns), []
    while place != (0, 0):
        steps.append((place[0] - 1, place[1] - 1))
        step = came[place]
        place = place[0] - (step != FROM_FRAME), place[1] - (step != FROM_TOKEN)
    found = np.array(steps[::-1], np.int64).T
    return found[0], found[1]
