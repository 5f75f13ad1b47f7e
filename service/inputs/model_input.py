"""TODO: what service/inputs/model_input.py is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from service.arrays import Array

Pixels: TypeAlias = npt.NDArray[np.uint8]


Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels of the upright image; may reach beyond its edges."""


@dataclass(frozen=True)
class Picture:
    """What a graph takes of an image, and the rectangle of the image it was taken from."""

    pixels: Pixels  # (height, width, channels)
    box: Box
    width: int
    height: int
    orientation: int = 1
    """By which EXIF says the stored pixels were turned to stand upright: 1 to 8, 1 for not at all."""


@dataclass(frozen=True)
class Pair:
    """Two texts that are classified together, such as a premise and a hypothesis."""

    text: str
    text_pair: str


Text: TypeAlias = str | Pair


@dataclass(frozen=True)
class Token:
    """One token: what it reads, and where it stands in the text; a special one stands nowhere (None)."""

    index: int
    text: str
    span: tuple[int, int] | None
    type: int = 0
    """What the model is told of which text it belongs to."""
    sequence: int | None = None
    """Of a pair: the text that the span is in, 0 or 1."""

    def json(self) -> dict[str, object]:
        """Return the token as an answer shows it."""
        shown: dict[str, object] = {"text": self.text, "span": self.span, "special": self.span is None}
        return shown if self.sequence is None else {**shown, "sequence": self.sequence}


MASK_TOKENS = 64
"""A gap costs as much as so many tokens."""


@dataclass(frozen=True)
class ModelInput:
    """One input, decoded: its arrays by port, the lengths of its axes, and what a person would call it."""

    inputs: dict[str, Array]
    lengths: dict[str, int]
    shown: Picture | Sequence[Token]
    special: dict[str, Array]
    """For each axis, which of its tokens are special, or stand before the first patch."""


def cost_of(lengths: Mapping[str, int]) -> int:
    """Return what an image or a text costs: its tokens, or more for masks, each a row of logits over the vocabulary."""
    return max(lengths.get("image", 0), lengths.get("source", 0), MASK_TOKENS * lengths.get("masked", 0))


def specials(tokens: Sequence[Token]) -> Array:
    """Return which tokens are special."""
    return np.array([token.span is None for token in tokens], np.bool_)
