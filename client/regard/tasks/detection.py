"""Objects of a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from regard.attention import Array, AttentionOptions, Json, Method
from regard.errors import BadInput
from regard.objects import Detected, read_detected
from regard.results import Result
from regard.tasks.task import CommonOptions, Task

ONE_SCORE = {"target", "against", "baseline", "steps"}
"""Options of methods that explain a score, and so one object."""


class DetectOptions(CommonOptions, total=False):
    """What `detect` takes."""

    threshold: float
    """The probability from which an object counts as found, 0 to 1; the model's own by default."""
    top_k: int
    """How many objects at most, surest first (100)."""


@dataclass(frozen=True, eq=False)
class Detection(Result):
    """The objects of a picture, surest first."""

    objects: Sequence[Detected]

    def heat(
        self,
        method: Method | None = None,
        *,
        object: int | None = None,  # noqa: A002 # the word of the interface
        map: int | None = None,  # noqa: A002 # as above
        head: int | None = None,
        row: int | None = None,
        smooth: bool = True,
        upright: bool = True,
        outside: float = np.nan,
        scale: bool = False,
        **options: Unpack[AttentionOptions],
    ) -> Array:
        """Return what an object was found by as heat over the picture: (height, width), as large as it was sent.

        `object` is its number, `found.objects[0].object` of the surest, which it is by default. With `kind`, `queries`,
        `row` or `target` these choose. Raises BadInput if no object was found, or there is none of this number.
        """
        if object is not None or (row is None and not options.keys() & {"kind", "queries", "target"}):
            number = self._surest() if object is None else object
            options = {**self.asked.model.asking_for(number, method), **options}
        return super().heat(
            method, map=map, head=head, row=row, smooth=smooth, upright=upright, outside=outside, scale=scale, **options
        )

    def _surest(self) -> int:
        if not self.objects:
            raise BadInput("object: must be given, since none was found; a lower threshold finds more")
        return self.objects[0].object

    @classmethod
    def _read(cls, json: Json) -> Json:
        return {"objects": [read_detected(one) for one in json["objects"]]}

    def _words(self) -> str:
        return "; ".join(map(_placed, self.objects)) or "nothing found"


def _placed(found: Detected) -> str:
    left, top, right, bottom = (f"{edge:.0f}" for edge in found.box)
    return f"{found.label} {found.probability:.1%} at {left},{top} to {right},{bottom}"


def _drawn_by(options: Json) -> Method | None:
    """Return the method that shows every object that is found, where not one is explained."""
    return None if options.keys() & ONE_SCORE else "raw"


DETECT = Task("detect", Detection, of_answer=(), of_rows=("threshold", "top_k"), drawn_by=_drawn_by)
