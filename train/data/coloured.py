"""Coloured scenes: one to three handwritten digits of different colours in a picture, and labels that name them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from model.vocabularies import COLOURS, WORDS
from train.data.scenes import put

PAINTS = torch.tensor([
    [1.0, 0.15, 0.15], [0.15, 0.85, 0.2], [0.2, 0.4, 1.0], [1.0, 0.9, 0.1], [0.7, 0.2, 0.9], [1.0, 1.0, 1.0],
])  # fmt: skip
"""Of COLOURS, as red, green and blue."""
PAINT_DEVIATION = 0.06  # of each of these
SIDE = 48  # of a scene, in pixels
QUARTER, EDGE = SIDE // 2, 1  # side of a quarter, and what no digit reaches of its edges, in pixels
SIZES = (14, 22)  # of a digit, in pixels: from the first to below the second
MOST = 3  # digits of a scene
ALIKE_SHARE = 0.3  # of digits after the first that repeat its figure, and as many that repeat its colour
UNSAID = -1


class Thing(NamedTuple):
    """A digit and its colour, as indices of WORDS and COLOURS; UNSAID in a label that does not tell."""

    colour: int
    digit: int

    def __str__(self) -> str:
        """Return it in words, such as "red seven", "seven" or "red digit"."""
        colour = "" if self.colour == UNSAID else f"{COLOURS[self.colour]} "
        return colour + ("digit" if self.digit == UNSAID else WORDS[self.digit])


@dataclass(frozen=True)
class ColouredScene:
    """A picture (3, SIDE, SIDE) in [0, 1] on black; its things, no two of which are the same, and the box of each.

    Boxes are (thing, 4): left, top, right, bottom, in pixels.
    """

    picture: Tensor
    things: tuple[Thing, ...]
    boxes: Tensor

    def swapped(self) -> tuple[Thing, ...]:
        """Return its things, each with the colour of the next one."""
        colours = [thing.colour for thing in self.things]
        moved = (*colours[1:], colours[0])
        return tuple(Thing(colour, thing.digit) for colour, thing in zip(moved, self.things, strict=True))


def coloured_scene(
    fields: Tensor, labels: Tensor, generator: torch.Generator, count: int | None = None, alike: float = ALIKE_SHARE
) -> ColouredScene:
    """Place some of the fields (field, 1, height, width), `count` or one to MOST, in quarters of a picture.

    `alike` is the share of later digits that repeat the first one's figure, and of those that repeat its colour.
    """

    def drawn(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    picture = torch.zeros(3, SIDE, SIDE)
    things: list[Thing] = []
    boxes = []
    for quarter in torch.randperm(4, generator=generator)[: count or drawn(1, MOST + 1)].tolist():
        chosen, colour = drawn(0, len(fields)), drawn(0, len(COLOURS))
        kind = float(torch.rand((), generator=generator))
        if things and kind < alike:
            same = (labels == things[0].digit).nonzero()[:, 0]
            chosen = int(same[drawn(0, len(same))])
        elif things and kind < 2 * alike:
            colour = things[0].colour
        if (thing := Thing(colour, int(labels[chosen]))) in things:
            continue
        size = drawn(*SIZES)
        left, top = (
            QUARTER * part + EDGE + drawn(0, QUARTER - 2 * EDGE - size + 1) for part in (quarter % 2, quarter // 2)
        )
        paint = (PAINTS[colour] + torch.randn(3, generator=generator) * PAINT_DEVIATION).clamp(0, 1)
        boxes.append(put(picture, paint[:, None, None] * fields[chosen], left, top, size))
        things.append(thing)
    return ColouredScene(picture, tuple(things), torch.tensor(boxes))


def label_of(things: Sequence[Thing]) -> str:
    """Return a label that names things, such as "a red seven and a blue two"."""
    return " and ".join(f"a {thing}" for thing in things)


def holds(label: Sequence[Thing], things: Sequence[Thing]) -> bool:
    """Return whether each thing of a label is among those of a scene; what is UNSAID may be anything."""
    return all(
        any(named.colour in (UNSAID, own.colour) and named.digit in (UNSAID, own.digit) for own in things)
        for named in label
    )
