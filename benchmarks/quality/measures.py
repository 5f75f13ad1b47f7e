"""What maps are measured by. Maps and evidence are arrays (input, token), evidence is true where the truth lies."""

from collections.abc import Callable, Mapping

import numpy as np

FRACTIONS = 10
"""Steps of a curve after its beginning, as the service's `evaluate` has them."""
NORMAL = 1.96
"""Standard errors to either side of a mean that make an interval of 95 %."""


def hits(maps: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    """Return whether the hottest token of each map is evidence: pointing (Zhang et al. 2016)."""
    return evidence[np.arange(len(maps)), maps.argmax(1)].astype(float)


def mass(maps: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    """Return the share of each map's positive part that lies on the evidence (Arras et al. 2022); 0 of nothing."""
    positive = maps.clip(min=0)
    total = positive.sum(1)
    return np.divide((positive * evidence).sum(1), total, out=np.zeros(len(maps)), where=total > 0)


def precision(maps: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    """Return which share of the k hottest tokens is evidence, where k tokens are evidence (Arras et al. 2022)."""
    order = (-maps).argsort(1, kind="stable")
    ranks = order.argsort(1)
    count = evidence.sum(1)
    return ((ranks < count[:, None]) & evidence).sum(1) / count


def located(maps: np.ndarray, evidence: np.ndarray) -> dict[str, np.ndarray]:
    """Return the three measures of each map."""
    return {
        "pointing": hits(maps, evidence),
        "mass": mass(maps, evidence),
        "precision": precision(maps, evidence),
    }


def ranks(maps: np.ndarray) -> np.ndarray:
    """Return the ranks of each map's values, of mean 0 and length 1."""
    order = maps.argsort(1, kind="stable").argsort(1) - (maps.shape[1] - 1) / 2
    return order / np.linalg.norm(order, axis=1, keepdims=True)


def rank_correlation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return Spearman's correlation of each map with its fellow."""
    return (ranks(one) * ranks(other)).sum(1)


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return the mean, and half of its interval of 95 %."""
    values = np.asarray(values, float)
    return float(values.mean()), float(NORMAL * values.std(ddof=1) / len(values) ** 0.5)


def share_interval(count: int, of: int) -> tuple[float, float]:
    """Return the interval of 95 % of a share (Wilson 1927), which is not empty where the share is 0 or 1."""
    share, more = count / of, NORMAL**2 / of
    middle = (share + more / 2) / (1 + more)
    half = NORMAL * (share * (1 - share) / of + more / (4 * of)) ** 0.5 / (1 + more)
    return max(0.0, middle - half), min(1.0, middle + half)


Predict = Callable[[np.ndarray], np.ndarray]
"""Pixels (image, height, width, channel) -> the probability of each image's class, given the images in their order."""


def curve_areas(
    predict: Predict, pixels: np.ndarray, grid: tuple[int, int], scores: Mapping[str, np.ndarray]
) -> dict[str, dict[str, np.ndarray]]:
    """Return the areas of deletion and insertion of each map and image, as the service's `evaluate` computes them.

    The probability of the class, as the patches are made black, hottest first, or added to a black image, in tenths
    (Samek et al. 2017; Petsiuk et al. 2018, section 4.2).
    """
    patches = grid[0] * grid[1]
    areas: dict[str, dict[str, np.ndarray]] = {}
    for method, own in scores.items():
        order = (-own).argsort(1, kind="stable").argsort(1)  # the rank of each patch
        areas[method] = {}
        for name in ("deletion", "insertion"):
            curve = []
            for step in range(FRACTIONS + 1):
                chosen = (order < round(step / FRACTIONS * patches)).reshape(-1, *grid)
                for axis in (1, 2):
                    chosen = chosen.repeat(pixels.shape[axis] // grid[axis - 1], axis)
                curve.append(predict(np.where(chosen[..., None] == (name == "insertion"), pixels, 0).astype(np.uint8)))
            found = np.stack(curve, axis=1)
            areas[method][name] = ((found[:, 1:] + found[:, :-1]) / 2).mean(1)
    return areas
