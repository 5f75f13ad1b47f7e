"""One input of a model: what a client sent, decoded to arrays, with the tokens or the picture that a person sees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from service.arrays import Array

Pixels: TypeAlias = npt.NDArray[np.uint8]
Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels of the upright image; may reach beyond its edges."""

MASK_COST = 64
"""Cost of a mask, in tokens: each has a row of logits over the vocabulary."""


@dataclass(frozen=True)
class Picture:
    """What a graph takes of an image, and the rectangle of the image it was taken from."""

    pixels: Pixels  # (height, width, channels)
    box: Box
    width: int
    height: int
    orientation: int = 1
    """How EXIF says that the stored pixels must be turned to stand upright: 1 to 8, 1 for not at all."""


@dataclass(frozen=True)
class Pair:
    """Two texts that are classified together, such as a premise and a hypothesis."""

    text: str
    text_pair: str


Text: TypeAlias = str | Pair


@dataclass(frozen=True)
class Token:
    """One token: its text, and its span in the input; a special token has no span (None)."""

    index: int
    text: str
    span: tuple[int, int] | None
    type: int = 0
    """Which text it belongs to, as the model is told (token type id)."""
    sequence: int | None = None
    """In a pair: the text that the span is in, 0 or 1."""

    def json(self) -> dict[str, object]:
        """Return the token as an answer shows it."""
        shown: dict[str, object] = {"text": self.text, "span": self.span, "special": self.span is None}
        return shown if self.sequence is None else {**shown, "sequence": self.sequence}


@dataclass(frozen=True)
class ModelInput:
    """One decoded input: its arrays by port, the lengths of its axes, and its tokens or its picture."""

    arrays: dict[str, Array]
    lengths: dict[str, int]
    special: dict[str, Array]
    """For each axis, which tokens are special or come before the first patch (length)."""
    tokens: Sequence[Token] = ()
    picture: Picture | None = None


def cost_of(lengths: Mapping[str, int]) -> int:
    """Return the cost of an image or a text in tokens."""
    return max(lengths.get("image", 0), lengths.get("source", 0), MASK_COST * lengths.get("masked", 0))
