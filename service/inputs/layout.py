"""Where the nodes of a graph are drawn: as far from one another as there are edges between them, if that can be."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

ROUNDS = 60
APART = 1.0
"""How much farther than all others two nodes are that no path links."""
SPREAD = 0.1
"""The radius of the circle that is added at first, so that nodes with the same neighbours come apart."""

GAP = 0.09
"""The least distance of two nodes, where there are few."""
PUSHES = 30

Places = npt.NDArray[np.float64]


def layout(count: int, links: Sequence[tuple[int, int]]) -> Places:
    """Return the places of nodes (node, 2), across and down, from 0 to 1; the same for the same graph.

    By stress majorization (Gansner et al. 2004, "Graph Drawing by Stress Majorization", section 2.1) from classical
    scaling: the stress is the sum of (‖x - y‖ - distance)² / distance² over all pairs of nodes.
    """
    if count == 1:
        return np.full((1, 2), 0.5)
    apart = _distances(count, links)
    with np.errstate(divide="ignore"):
        weights = np.where(apart > 0, apart**-2.0, 0)
    inverse = np.linalg.pinv(np.diag(weights.sum(1)) - weights)
    angles = 2 * np.pi * np.arange(count) / count
    places = _scaled(apart) + SPREAD * np.stack((np.cos(angles), np.sin(angles)), 1)
    for _ in range(ROUNDS):
        far = np.linalg.norm(places[:, None] - places, axis=-1)
        pull = np.divide(weights * apart, far, out=np.zeros_like(far), where=far > 0)
        places = inverse @ (pull.sum(1, keepdims=True) * places - pull @ places)
    return _within(_without_overlaps(_within(places)))


def _within(places: Places) -> Places:
    """Return places in the middle of a square from 0 to 1, whose sides the farthest reach."""
    low, high = places.min(0), places.max(0)
    whole: Places = (places - (low + high) / 2) / max(float((high - low).max()), 1e-9) + 0.5
    return whole


def _without_overlaps(places: Places) -> Places:
    """Push nodes apart that are nearer than `GAP`, or than a grid of all would have them."""
    gap = min(GAP, 1 / (1 + len(places) ** 0.5))
    for _ in range(PUSHES):
        between = places[:, None] - places
        far = np.linalg.norm(between, axis=-1)
        push = np.divide((gap - far).clip(min=0) / 2, far, out=np.zeros_like(far), where=far > 0)
        places = places + (push[..., None] * between).sum(1)
    return places


def _distances(count: int, links: Sequence[tuple[int, int]]) -> npt.NDArray[np.float64]:
    """Return the edges between each two nodes, whatever their direction (Floyd 1962); more than all where none lead."""
    apart = np.full((count, count), np.inf)
    np.fill_diagonal(apart, 0)
    for source, target in links:
        if source != target:
            apart[source, target] = apart[target, source] = 1
    for middle in range(count):
        apart = np.minimum(apart, apart[:, middle, None] + apart[middle])
    linked = np.isfinite(apart)
    return np.where(linked, apart, apart[linked].max() + APART)


def _scaled(apart: npt.NDArray[np.float64]) -> Places:
    """Return the first two axes of classical scaling (Torgerson 1952)."""
    squares = apart**2
    centred = squares - squares.mean(0) - squares.mean(1, keepdims=True) + squares.mean()
    sizes, axes = np.linalg.eigh(-centred / 2)
    found: Places = axes[:, -2:] * np.sqrt(sizes[-2:].clip(min=0))
    return found
