"""A text or a picture as a vector."""

from dataclasses import dataclass

import numpy as np

from regard.attention import Array, Json
from regard.results import Result
from regard.tasks.task import Task


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


EMBED = Task("embed", Embedding)
