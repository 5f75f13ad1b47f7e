"""A text, a picture or a graph as a vector."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.errors import BadInput
from regard.maps import Array, Json
from regard.results import Result
from regard.tasks.task import CommonOptions, Task, TextOptions


class CutOptions(CommonOptions, total=False):
    """What is asked of vectors, wherever they are made."""

    dimensions: int
    """The first numbers of a vector alone, which is of length one then unless `normalize` is false (all)."""


class CompareOptions(CutOptions, TextOptions, total=False):
    """What `similarity` takes."""

    prompt_name: str
    """Which of the model's prompts is put before every text (the model's default)."""
    prompt: str
    """What is put before every text, in place of the model's prompt (the model's)."""


class EmbedOptions(CompareOptions, total=False):
    """What `embed` takes. Prompts and `truncate` are of texts."""

    normalize: bool
    """Divide each vector by its length (as the model was made; True with `dimensions`)."""


@dataclass(frozen=True, eq=False)
class Embedding(Result):
    """An input as a vector."""

    vector: Array
    """(width,)"""

    @classmethod
    def _read(cls, json: Json) -> Json:
        return {"vector": np.array(json["embedding"], np.float32)}

    def similarity(self, other: "Embedding | Array") -> float:
        """Return the cosine with another answer of the same model, or with a vector. Raises BadInput for another."""
        given: Array = np.asarray(other, np.float32)
        if given.shape != self.vector.shape:
            raise BadInput(f"other: must be a vector of {len(self.vector)} numbers, given {given.shape}")
        return float(self.vector @ given / (np.linalg.norm(self.vector) * np.linalg.norm(given)))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.vector, dtype) if copy else np.asarray(self.vector, dtype)

    def __repr__(self) -> str:
        return f"<embedding {self.vector.shape} by {self.asked.model.name}>"

    def _words(self) -> str:
        return f"a vector of {len(self.vector)} numbers"


EMBED = Task("embed", Embedding, of_answer=("normalize",))
