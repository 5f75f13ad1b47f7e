"""Models that weigh words: sparse embeddings."""

import numpy as np

from service.repository.models.of_words import OfWords
from service.repository.models.served_model import Prediction


class SparseEmbedder(OfWords):
    """A sparse encoder: a weight for each word of the vocabulary, most of which are 0 (SPLADE, Formal et al. 2021)."""

    tasks = ("sparse-embedding",)
    endpoints = ("embed-sparse", "attention")
    answers_places = True

    def words(self, weights: Prediction) -> list[int]:
        """Return the words that have a weight, in the order of the vocabulary."""
        found: list[int] = np.flatnonzero(weights).tolist()
        return found

    def heaviest(self, weights: Prediction, count: int | None) -> list[int]:
        """Return the heaviest of the words that have a weight, equal ones in the order of the vocabulary."""
        words = np.flatnonzero(weights)
        found: list[int] = words[np.argsort(-weights[words], kind="stable")][:count].tolist()
        return found
