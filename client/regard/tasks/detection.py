"""Objects of a picture."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import BadInput
from regard.maps import Json
from regard.objects import Detected, read_detected
from regard.options import Method
from regard.results import Result
from regard.tasks.task import CommonOptions, Task

ONE_SCORE = {"target", "against", "baseline", "steps"}
"""Options of methods that explain a score, and so one object."""


class DetectOptions(CommonOptions, total=False):
    """What `detect` takes."""

    threshold: float
    """The probability from which an object counts as found, 0 to 1 (the model's own)."""
    top_k: int
    """How many objects at most, surest first (100)."""


@dataclass(frozen=True, eq=False)
class Detection(Result):
    """The objects of a picture, surest first."""

    objects: Sequence[Detected]

    def _of_heat(
        self,
        method: Method | None,
        object: int | None,  # noqa: A002 # the word of the interface
        row: int | None,
        options: Json,
    ) -> Json:
        """Return options that ask for one object. Raises BadInput if none was found, or none has this number."""
        if object is None and (row is not None or options.keys() & {"kind", "queries", "target"}):
            return options
        number = self._surest() if object is None else object
        return {**self.asked.model.asking_for(number, method), **options}

    def _drawn_by(self, options: Json) -> Method | None:
        return _drawn_by(options)

    def _surest(self) -> int:
        if not self.objects:
            raise BadInput("object: must be given, since none was found; a lower threshold finds more")
        return self.objects[0].object

    @classmethod
    def _read(cls, json: Json) -> Json:
        return {"objects": [read_detected(one) for one in json["objects"]]}

    @property
    def said(self) -> str:
        """The classes of its objects."""
        return ", ".join(sorted(found.label for found in self.objects))

    def _words(self) -> str:
        return "; ".join(map(_placed, self.objects)) or "nothing found"


def _placed(found: Detected) -> str:
    left, top, right, bottom = (f"{edge:.0f}" for edge in found.box)
    return f"{found.label} {found.probability:.1%} at {left},{top} to {right},{bottom}"


def _drawn_by(options: Json) -> Method | None:
    """Return the method that shows every object that is found, where not one is explained."""
    return None if options.keys() & ONE_SCORE else "raw"


DETECT = Task("detect", Detection, of_answer=(), of_rows=("threshold", "top_k"), drawn_by=_drawn_by)
