"""How alike texts are."""

from dataclasses import dataclass

import numpy as np

from regard.maps import Array, Json
from regard.results import Result
from regard.tasks.task import Task


@dataclass(frozen=True, eq=False)
class Similarity(Result):
    """How alike a text is to a source, or to each of several."""

    similarity: float | Array
    """A cosine, or (source,)."""

    @classmethod
    def _read(cls, json: Json) -> Json:
        found = json["similarity"]
        return {"similarity": np.array(found) if isinstance(found, list) else float(found)}

    def _words(self) -> str:
        return np.array2string(np.asarray(self.similarity), precision=3)


SIMILARITY = Task("similarity", Similarity)
