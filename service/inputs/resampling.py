"""Sound at another rate, by a windowed sinc (polyphase; Crochiere and Rabiner 1983)."""

import functools
import math

import numpy as np
import numpy.typing as npt

ZEROS = 16
"""Zeros of the sinc on each side."""
BETA = 8.6
"""Of the Kaiser window: what lies beyond half of the lower rate is about 90 dB lower."""
CUT = 0.95
"""The share of half of the lower rate that is kept."""


@functools.lru_cache(maxsize=8)
def _filter(up: int, down: int) -> npt.NDArray[np.float64]:
    """Return the taps of each phase, (phase, tap)."""
    slower = max(up, down)
    reach = ZEROS * slower
    time = np.arange(-reach, reach + 1) / slower
    taps = CUT * np.sinc(CUT * time) * np.kaiser(2 * reach + 1, BETA) * (up / slower)
    width = -(-len(taps) // up)
    padded = np.zeros(width * up)
    padded[: len(taps)] = taps
    return padded.reshape(width, up).T


def resample(samples: npt.NDArray[np.float32], given: int, wanted: int) -> npt.NDArray[np.float32]:
    """Return samples at `wanted` a second of samples at `given`: as many as last as long, rounded up."""
    if given == wanted:
        return samples
    shared = math.gcd(given, wanted)
    up, down = wanted // shared, given // shared
    phases = _filter(up, down)
    width = phases.shape[1]
    reach = ZEROS * max(up, down)
    places = np.arange(-(-len(samples) * up // down), dtype=np.int64) * down + reach  # in steps of the finer grid
    newest, phase = places // up, places % up
    padded = np.concatenate([np.zeros(width), samples, np.zeros(width + reach // up + 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)[:, ::-1]
    found = np.empty(len(places), np.float32)
    for start in range(0, len(places), 65_536):  # so that little is copied at a time
        some = slice(start, start + 65_536)
        found[some] = np.einsum("ij,ij->i", windows[newest[some] + 1], phases[phase[some]])
    return found
