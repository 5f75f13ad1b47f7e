"""One input of a model: the arrays decoded from what a client sent, with its tokens or its picture for people."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from contract.chat import ASSISTANT, SYSTEM, USER, Message
from contract.input_rules import FRAMES, NODES
from service.arrays import Array
from service.inputs.layout import layout

Pixels: TypeAlias = npt.NDArray[np.uint8]
Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels of the upright image; may reach beyond its edges."""

TOKENS_PER_MASK = 64
"""The cost of a mask, in tokens. A mask costs more than a token: it has a row of logits over the vocabulary."""


@dataclass(frozen=True)
class Picture:
    """The pixels that a graph takes of an image, and the rectangle of the image that they come from."""

    pixels: Pixels  # (height, width, channels)
    box: Box
    width: int
    height: int
    orientation: int = 1
    """The EXIF orientation, 1 to 8: how the stored pixels must be turned to be upright. 1 means not at all."""

    @property
    def shown(self) -> tuple[int, int]:
        """The rows and columns of pixels that the image fills, as the rule `fit` puts it."""
        (height, width, _), (left, top, right, bottom) = self.pixels.shape, self.box
        return round(height * self.height / (bottom - top)), round(width * self.width / (right - left))

    def visible_cells(self, grid: tuple[int, int]) -> Array:
        """Return which cells of a grid (rows, columns) over the pixels begin in the image: (cell) of bool.

        The image begins at the upper left, as the rule `fit` puts it. (A mask of pixels, sampled by the nearest.)
        """
        first = (np.arange(count) * side // count for count, side in zip(grid, self.pixels.shape, strict=False))
        cells: Array = np.outer(*(pixel < most for pixel, most in zip(first, self.shown, strict=True)))
        return cells.ravel()


@dataclass(frozen=True)
class Sound:
    """The samples of a sound, from -1 to 1: (sample,) of float32, the mean of its channels."""

    samples: npt.NDArray[np.float32]
    rate: int
    """Samples a second."""
    step: float = 0.0
    """Seconds from one frame of the model that hears it to the next, or of the columns of its patches."""
    frames: int = 0
    """How many of these hold the sound."""

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate


@dataclass(frozen=True)
class Graph:
    """The types of a graph's nodes, and its edges: from which node, to which, and the type."""

    types: list[int]
    edges: list[tuple[int, int, int]]
    directed: bool

    @functools.cached_property
    def places(self) -> npt.NDArray[np.float64]:
        """Where nodes are drawn, (node, 2): across and down, from 0 to 1."""
        return layout(len(self.types), [edge[:2] for edge in self.edges])


@dataclass(frozen=True)
class Pair:
    """Two texts that are classified together, such as a premise and a hypothesis, or a query and a passage."""

    text: str
    text_pair: str
    most: int | None = None
    """The tokens that `truncate` leaves at most of the text that it cuts; None cuts the longer one."""
    cut: int = 1
    """Which text that is: the passage of a query (1), or the premise of a hypothesis (0)."""


@dataclass(frozen=True)
class Prompted:
    """A text behind another prompt than the model's default one."""

    text: str
    prompt: str


@dataclass(frozen=True)
class Conversation:
    """The messages of a chat, the last of which is the user's: a model's form makes one text of them."""

    messages: tuple[Message, ...]

    def __post_init__(self) -> None:
        """Raise ValueError for messages that are no chat; whoever can write to a store can put any there."""
        first, *roles = [message.role for message in self.messages] or [""]
        if not (set(roles) <= {USER, ASSISTANT} and first in (SYSTEM, USER, ASSISTANT) and [first, *roles][-1] == USER):
            raise ValueError("messages: must be of known roles, the system's first and the user's last")


Text: TypeAlias = str | Pair | Prompted | Conversation


def strings_of(text: Text) -> list[str]:
    """Return what a client sent of a text: one string, the two of a pair, those of messages. Spans lie in them."""
    if isinstance(text, Conversation):
        return [message.content for message in text.messages]
    if isinstance(text, Pair):
        return [text.text, text.text_pair]
    return [text.text if isinstance(text, Prompted) else text]


@dataclass(frozen=True)
class Windows:
    """How a text that is too long for a model is read: in windows of its tokens, in their order."""

    stride: int | None = None
    """The tokens that a window has in common with the one before; by default USUAL_STRIDE, or half of a smaller one."""
    most: int | None = None
    """The tokens of a window at most, with all that stands around them; by default as many as the model takes."""


@dataclass(frozen=True)
class Token:
    """One token: its index in the vocabulary, its text, and its span of characters in the input.

    A special token has no span (None). A node of a graph is a token too: its type, and its place as the span.
    """

    index: int
    text: str
    span: tuple[int, int] | None
    type: int = 0
    """The token type id: which text of a pair it belongs to, as the model is told."""
    sequence: int | None = None
    """In a pair, the text that the span is in, 0 or 1; in a chat, the message; otherwise None."""
    word: int | None = None
    """Which word of its text it is of, as the tokenizer counts them."""
    role: str | None = None
    """Whose message it is of, in a chat."""

    def json(self) -> dict[str, object]:
        """Return the token as an answer holds it."""
        shown: dict[str, object] = {"text": self.text, "span": self.span, "special": self.span is None}
        if self.role is not None:
            return {**shown, "message": self.sequence, "role": self.role}
        return shown if self.sequence is None else {**shown, "sequence": self.sequence}


@dataclass(frozen=True)
class LanguageTokens:
    """The tokens of the languages that a request asks for."""

    source: tuple[int, int] | None = None
    """The token that the tokenizer puts around a text, and the one that takes its place."""
    start: int | None = None
    """The start token of targets."""


@dataclass(frozen=True)
class ModelInput:
    """One decoded input: arrays by port, the lengths of axes, and the tokens, the picture, the sound or the graph."""

    arrays: dict[str, Array]
    lengths: dict[str, int]
    special: dict[str, Array]
    """For each axis, an array (length) of bool: True for special tokens and for tokens before the first patch."""
    tokens: Sequence[Token] = ()
    picture: Picture | None = None
    sound: Sound | None = None
    graph: Graph | None = None
    start: int | None = None
    """The first token of its target, where the language that was asked for has a start token of its own."""
    fed: Sequence[Token] = ()
    """The tokens that a decoder is fed, which is given the same text."""
    entities: Sequence[tuple[int, int, int]] = ()
    """The entities that are explained, where they are known: the index of the label, the token, and the number."""
    ends: tuple[int, int] | None = None
    """The first and the last token of the answer that is explained, of a question and its context."""


def cost_of(lengths: Mapping[str, int]) -> int:
    """Return the cost of an image, a text, a sound or a graph, in tokens, from the lengths of its axes."""
    least = max(lengths.get(axis, 0) for axis in ("image", "source", FRAMES, "patch", NODES))
    return max(least, TOKENS_PER_MASK * lengths.get("masked", 0))
