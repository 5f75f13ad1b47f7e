"""The parts of a text that have a label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from regard.maps import Json
from regard.results import Result
from regard.tasks.task import Task, WindowOptions


class TagOptions(WindowOptions, total=False):
    """What `tag` takes."""

    aggregate: Literal["none", "simple", "first", "average", "max"]
    """How tokens become entities ("simple")."""
    ignore: Sequence[str]
    """Labels that are no entity (["O"])."""


@dataclass(frozen=True)
class Entity:
    """A part of a text that has a label."""

    label: str
    probability: float
    start: int
    """In characters of the text."""
    end: int
    text: str
    tokens: Sequence[int]
    """The positions of its tokens."""


@dataclass(frozen=True, eq=False)
class Tagged(Result):
    """The entities of a text, in order; their numbers are the `target` of attention."""

    entities: Sequence[Entity]

    @classmethod
    def _read(cls, json: Json) -> Json:
        names = ("label", "probability", "start", "end", "text", "tokens")
        return {"entities": [Entity(*(one[name] for name in names)) for one in json["entities"]]}

    @property
    def said(self) -> str:
        """Its entities, as they stand in the text."""
        return ", ".join(f"{one.text} {one.label}" for one in self.entities)

    def _words(self) -> str:
        found = (f"{one.text} {one.label} {one.probability:.1%}" for one in self.entities)
        return ", ".join(found) or "nothing found"


TAG = Task("tag", Tagged, of_answer=(), of_rows=("aggregate", "ignore"))
