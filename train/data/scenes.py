"""Scenes: images of several handwritten digits, whose words in reading order are their captions."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

SIDE = 64  # of a scene, in pixels
LINE_MIDDLES = (17, 47)  # of the two lines of digits, in pixels from the top
MOST_PER_LINE = 3  # digits
FIELD_MARGIN = 6  # pixels at the edges of a field that hold hardly any ink, and are cut off
LARGEST_NUDGE = 5  # pixels by which a digit may stand above or below its line


@dataclass(frozen=True)
class Scene:
    """A picture (1, SIDE, SIDE) in [0, 1], bright on dark; its digits in reading order, and each one's box.

    Boxes are (digit, 4): left, top, right, bottom, in pixels.
    """

    picture: Tensor
    digits: tuple[int, ...]
    boxes: Tensor


def scene(fields: Tensor, labels: Tensor, generator: torch.Generator) -> Scene:
    """Place one to five of the fields (count, 1, height, width) at random on two lines, without overlap."""

    def drawn(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    picture = torch.zeros(1, SIDE, SIDE)
    counts = [drawn(0, MOST_PER_LINE + 1) for _ in LINE_MIDDLES]
    if sum(counts) in (0, len(LINE_MIDDLES) * MOST_PER_LINE):
        counts = [1, MOST_PER_LINE - 1]
    digits, boxes = [], []
    for middle, count in zip(LINE_MIDDLES, counts, strict=True):
        sizes = [drawn(15, 22) for _ in range(count)]
        free = SIDE - sum(sizes)
        gaps = sorted(drawn(0, free + 1) for _ in range(count))
        for index, (size, gap) in enumerate(zip(sizes, gaps, strict=True)):
            left, top = gap + sum(sizes[:index]), middle - size // 2 + drawn(-LARGEST_NUDGE, LARGEST_NUDGE + 1)
            chosen = drawn(0, len(fields))
            boxes.append(put(picture, fields[chosen], left, top, size))
            digits.append(int(labels[chosen]))
    return Scene(picture, tuple(digits), torch.tensor(boxes))


def put(picture: Tensor, field: Tensor, left: int, top: int, size: int) -> tuple[int, int, int, int]:
    """Draw a field (channels, height, width), without its margin, into a square of a picture of as many channels.

    Returns the box of its ink.
    """
    ink = F.interpolate(
        field[None, :, FIELD_MARGIN:-FIELD_MARGIN, FIELD_MARGIN:-FIELD_MARGIN], (size, size), mode="area"
    )
    place = picture[:, top : top + size, left : left + size]
    place.copy_(torch.maximum(place, ink[0]))
    return _box(ink[0].amax(0), left, top)


def _box(ink: Tensor, left: int, top: int) -> tuple[int, int, int, int]:
    shown = ink > 0.25 * ink.max()
    rows, columns = shown.any(1).nonzero()[:, 0], shown.any(0).nonzero()[:, 0]
    return left + int(columns[0]), top + int(rows[0]), left + int(columns[-1]) + 1, top + int(rows[-1]) + 1


def on_box(place: int, box: Tensor, cell: int = 8, side: int = SIDE) -> bool:
    """True if a cell of the grid over a scene of `side` pixels, counted in reading order, touches a box."""
    row, column = divmod(place, side // cell)
    left, top, right, bottom = box.tolist()
    return bool(column * cell < right and (column + 1) * cell > left and row * cell < bottom and (row + 1) * cell > top)
