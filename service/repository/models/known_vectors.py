"""Vectors of texts that were asked for before, kept by text: those of labels, which many requests name alike."""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from service.arrays import Array
from service.repository.models.served_model import Prediction

MOST_BYTES = 16 << 20
SMALLEST_LENGTH = 1e-12
"""A vector that is shorter is divided by this instead."""


class KnownVectors:
    """The vectors of length one that a loaded model has made of texts, as many as fit, those asked for last."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._held = most_bytes, 0
        self._vectors: OrderedDict[str, Array] = OrderedDict()

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return the texts that are not known, each once."""
        return [text for text in dict.fromkeys(texts) if text not in self._vectors]

    def of(self, texts: Sequence[str], fresh: dict[str, Prediction]) -> Array:
        """Return the vector of each text (text, width): a known one, or one that is `fresh` and is kept."""
        found = {text: unit(vector) for text, vector in fresh.items()}
        for text in dict.fromkeys(texts):
            if text not in found:
                self._vectors.move_to_end(text)
                found[text] = self._vectors[text]
        for text in fresh:
            self._keep(text, found[text])
        return np.stack([found[text] for text in texts])

    def _keep(self, text: str, vector: Array) -> None:
        before = self._vectors.pop(text, None)
        self._held -= 0 if before is None else _size(text, before)
        self._vectors[text] = vector
        self._held += _size(text, vector)
        while self._held > self._most:
            oldest, gone = self._vectors.popitem(last=False)
            self._held -= _size(oldest, gone)


def unit(vector: Prediction) -> Array:
    """Return a vector in float64, divided by its length."""
    exact = vector.astype(np.float64)
    found: Array = exact / max(float(np.linalg.norm(exact)), SMALLEST_LENGTH)
    return found


def _size(text: str, vector: Array) -> int:
    return vector.nbytes + 4 * len(text)
