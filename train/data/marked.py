"""Marked scenes: a handwritten digit in each quarter of an image, and a mark that says which one is asked for."""

from dataclasses import dataclass

import torch
from torch import Tensor

from train.data.scenes import SIDE, Scene, put

QUARTER = SIDE // 2  # side of a quarter, in pixels
EDGE = 3  # pixels at the edges of a quarter that no digit reaches
SIZES = (18, 25)  # of a digit, in pixels: from the first to below the second
ARM, THICKNESS = 6, 2  # length and thickness of the two bars of the mark, in pixels


@dataclass(frozen=True)
class MarkedScene(Scene):
    """A scene of four digits, one in each quarter in reading order; which quarter is marked, and the mark's box (4)."""

    marked: int
    mark: Tensor


def marked_scene(fields: Tensor, labels: Tensor, generator: torch.Generator, alike: float = 0.0) -> MarkedScene:
    """Place one of the fields (count, 1, height, width) in each quarter, and an angle in a corner of one of them.

    With the chance `alike`, an unmarked quarter has the digit of the marked one.
    """

    def drawn(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    picture = torch.zeros(1, SIDE, SIDE)
    marked, corner = drawn(0, 4), drawn(0, 4)
    chosen = [drawn(0, len(fields)) for _ in range(4)]
    repeated = (torch.rand(4, generator=generator) < alike).tolist()
    boxes = []
    for quarter in range(4):
        if repeated[quarter]:
            chosen[quarter] = chosen[marked]
        size = drawn(*SIZES)
        left, top = (QUARTER * part + EDGE + drawn(0, QUARTER - 2 * EDGE - size + 1) for part in _place(quarter))
        boxes.append(put(picture, fields[chosen[quarter]], left, top, size))
    mark = _mark(picture, _place(marked), _place(corner))
    return MarkedScene(picture, tuple(labels[chosen].tolist()), torch.tensor(boxes), marked, torch.tensor(mark))


def _mark(picture: Tensor, quarter: tuple[int, int], corner: tuple[int, int]) -> tuple[int, int, int, int]:
    """Draw the mark into a corner of a quarter, both (column, row); return its box."""
    angle = torch.zeros(ARM, ARM)
    angle[:THICKNESS], angle[:, :THICKNESS] = 1, 1
    angle = angle.flip([axis for axis, far in ((0, corner[1]), (1, corner[0])) if far])
    left, top = (QUARTER * part + (QUARTER - ARM) * far for part, far in zip(quarter, corner, strict=True))
    place = picture[0, top : top + ARM, left : left + ARM]
    place.copy_(torch.maximum(place, angle))
    return left, top, left + ARM, top + ARM


def _place(quarter: int) -> tuple[int, int]:
    """Return (column, row) of a quarter."""
    return quarter % 2, quarter // 2
