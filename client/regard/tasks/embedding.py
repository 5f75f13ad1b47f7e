"""A text, a picture or a graph as a vector."""

from dataclasses import dataclass

import numpy as np

from regard.attention import Array, Json
from regard.results import Result
from regard.tasks.task import CommonOptions, Task, TextOptions


class CutOptions(CommonOptions, total=False):
    """What is asked of vectors, wherever they are made."""

    dimensions: int
    """The first numbers of a vector alone, which is of length one then unless `normalize` is false."""


class CompareOptions(CutOptions, TextOptions, total=False):
    """What `similarity` takes."""

    prompt_name: str
    """Which of the model's prompts is put before every text."""
    prompt: str
    """What is put before every text, in place of the model's prompt."""


class EmbedOptions(CompareOptions, total=False):
    """What `embed` takes. Prompts and `truncate` are of texts."""

    normalize: bool
    """Divide each vector by its length."""


@dataclass(frozen=True, eq=False)
class Embedding(Result):
    """An input as a vector."""

    vector: Array
    """(width,)"""

    @classmethod
    def _read(cls, json: Json) -> Json:
        return {"vector": np.array(json["embedding"], np.float32)}

    def _words(self) -> str:
        return f"a vector of {len(self.vector)} numbers"


EMBED = Task("embed", Embedding, of_answer=("normalize",))
