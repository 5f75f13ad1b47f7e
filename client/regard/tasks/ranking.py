"""Texts that answer a query."""

from dataclasses import dataclass

from regard.attention import Attention
from regard.maps import Json
from regard.results import Result
from regard.tasks.task import Task, WindowOptions


class RerankOptions(WindowOptions, total=False):
    """What `rerank` takes. A query is never cut off."""

    top_k: int
    """How many texts are answered, best first (all)."""
    raw_scores: bool
    """Answer logits, rather than scores as the model was trained for (False)."""


@dataclass(frozen=True, eq=False)
class RankedAgainst:
    """The text that others are explained against: `attention={"method": "libra", "against": {"text": "..."}}`."""

    text: str
    score: float
    attention: Attention | None
    """What speaks for its own score."""


@dataclass(frozen=True, eq=False)
class Ranked(Result):
    """A text in its place."""

    index: int
    """Its number among the texts that were ranked."""
    score: float
    text: str
    against: RankedAgainst | None = None
    """What its attention is explained against, where that was asked for."""

    @classmethod
    def _read(cls, json: Json) -> Json:
        return {"index": json["index"], "score": json["score"], "text": json["text"]}

    def _words(self) -> str:
        other = self.against
        return f"{self.score:.3f} {self.text}" + (f", against {other.score:.3f} {other.text}" if other else "")


RERANK = Task("rerank", Ranked)
