"""The words that a text is about."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.maps import Json
from regard.results import Result
from regard.tasks.task import Task, TextOptions

SHOWN = 5
"""How many words are named in a notebook."""


class SparseOptions(TextOptions, total=False):
    """What `embed_sparse` takes."""

    top_k: int
    """How many words, heaviest first (all)."""
    prompt_name: str
    """Which of the model's prompts is put before every text (the model's default)."""
    prompt: str
    """What is put before every text, in place of the model's prompt (the model's)."""


@dataclass(frozen=True)
class Word:
    """A word of the model's vocabulary, and its weight."""

    token: int
    text: str
    weight: float


@dataclass(frozen=True, eq=False)
class SparseEmbedding(Result):
    """A text as words with weights, heaviest first; all others weigh nothing."""

    words: Sequence[Word]

    @classmethod
    def _read(cls, json: Json) -> Json:
        return {"words": [Word(one["token"], one["text"], one["weight"]) for one in json["words"]]}

    def _words(self) -> str:
        heaviest = ", ".join(f"{one.text} {one.weight:.2f}" for one in self.words[:SHOWN])
        return f"{len(self.words)} words: {heaviest}" if self.words else "no word"


EMBED_SPARSE = Task("embed-sparse", SparseEmbedding)
