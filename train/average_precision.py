"""Average precision of detections, as COCO measures it (Lin et al. 2014; cocodataset.org, detection evaluation)."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

Corners: TypeAlias = tuple[float, ...]
"""Left, top, right, bottom."""
RECALLS = np.linspace(0, 1, 101)
"""The recalls at which precision is read."""


class Found(NamedTuple):
    """A detection: its class, how sure it is, and its box."""

    label: int
    chance: float
    box: Corners


def overlap(one: Corners, other: Corners) -> float:
    """Return the common area of two boxes, as a share of the area that they cover together."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    common = max(width, 0.0) * max(height, 0.0)
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return common / (areas - common) if areas > common else 0.0


def average_precision(
    found: Sequence[Sequence[Found]], truth: Sequence[Sequence[tuple[int, Corners]]], least_overlap: float
) -> float:
    """Return the mean over classes of the precision at 101 recalls, of the detections and the truth of each image.

    The surest detection goes first. It is right if it overlaps a true box of its class by `least_overlap` that none
    before it took: the one that it overlaps most. Precision at a recall is the best at that recall or a higher one.
    """
    boxes: dict[int, dict[int, list[Corners]]] = defaultdict(lambda: defaultdict(list))
    for image, own in enumerate(truth):
        for label, box in own:
            boxes[label][image].append(box)
    ranked = sorted(((one, image) for image, own in enumerate(found) for one in own), key=lambda pair: -pair[0].chance)
    each = []
    for label, of_images in boxes.items():
        taken: set[tuple[int, int]] = set()
        hits = []
        for one, image in ranked:
            if one.label == label:
                free = [
                    (overlap(one.box, box), index)
                    for index, box in enumerate(of_images.get(image, ()))
                    if (image, index) not in taken
                ]
                most, index = max(free, default=(-1.0, 0))
                hits.append(most >= least_overlap)
                if hits[-1]:
                    taken.add((image, index))
        each.append(_area(np.array(hits, bool), sum(map(len, of_images.values()))))
    return float(np.mean(each)) if each else 0.0


def _area(hits: "np.ndarray[tuple[int], np.dtype[np.bool_]]", count: int) -> float:
    """Return the mean precision at `RECALLS` of ranked detections, of which some hit one of `count` boxes."""
    right = hits.cumsum()
    precision = right / np.arange(1, len(hits) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(right / count, RECALLS)
    return float(np.where(places < len(hits), np.append(best, 0.0)[np.minimum(places, len(hits))], 0.0).mean())
