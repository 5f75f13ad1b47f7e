"""What may stand behind the masks of a text."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.maps import Json
from regard.results import Result
from regard.tasks.task import Task, TextOptions


class FillMaskOptions(TextOptions, total=False):
    """What `fill_mask` takes."""

    top_k: int
    """How many candidates for every mask, best first (5)."""


@dataclass(frozen=True)
class Candidate:
    """A token that may stand in a mask's place."""

    token: int
    text: str
    probability: float


@dataclass(frozen=True, eq=False)
class Filled(Result):
    """Candidates for every mask of a text, best first."""

    candidates: Sequence[Sequence[Candidate]]

    @classmethod
    def _read(cls, json: Json) -> Json:
        masks = json["candidates"]
        return {"candidates": [[Candidate(one["token"], one["text"], one["probability"]) for one in m] for m in masks]}

    def _words(self) -> str:
        return "; ".join(", ".join(one.text for one in mask) for mask in self.candidates)


FILL_MASK = Task("fill-mask", Filled)
