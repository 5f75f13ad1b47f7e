"""What frames of sound write, and when: connectionist temporal classification, read greedily (Graves et al. 2006)."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from contract.manifest import BLANK
from service.arrays import Array

SPACE = " "
"""The label that ends a word."""


class Spoken(NamedTuple):
    """A character or a word, and when it was heard."""

    text: str
    start: float
    """In seconds, as the end."""
    end: float
    probability: float
    """Of a character the mean of that of its class at its frames; of a word that of its characters."""
    frame: int
    """The frame at which it was most probable, of a word its first character: the position at which it is explained."""


class Transcript(NamedTuple):
    """A text, its characters with the spaces among them, and its words."""

    text: str
    characters: list[Spoken]
    words: list[Spoken]


def read(logits: Array, labels: Sequence[str], step: float) -> Transcript:
    """Return what logits (frame, class) write by the likeliest class of each frame; frames begin `step` seconds apart.

    Frames of one class that follow one another are one character, and those of the blank are none.
    """
    exact = logits.astype(np.float64)
    classes = exact.argmax(axis=1)
    chances = 1 / np.exp(exact - exact.max(axis=1, keepdims=True)).sum(axis=1)
    begins = np.flatnonzero(np.diff(classes, prepend=-1))
    ends = np.append(begins[1:], len(classes))
    characters = [
        Spoken(
            labels[classes[first]],
            float(first * step),
            float(end * step),
            float(chances[first:end].mean()),
            int(first + chances[first:end].argmax()),
        )
        for first, end in zip(begins, ends, strict=True)
        if labels[classes[first]] != BLANK
    ]
    return Transcript("".join(one.text for one in characters).strip(), characters, list(_words(characters)))


def _words(characters: Sequence[Spoken]) -> Iterator[Spoken]:
    """Yield the words of characters, each from its first character to its last."""
    for space, run in groupby(characters, lambda one: one.text == SPACE):
        if not space:
            own = list(run)
            mean = sum(one.probability for one in own) / len(own)
            yield Spoken("".join(one.text for one in own), own[0].start, own[-1].end, mean, own[0].frame)
