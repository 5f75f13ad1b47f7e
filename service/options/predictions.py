"""The options of predictions."""

from typing import Annotated

from pydantic import Field

from service.errors import TooLarge
from service.options.base import Number, RequestOptions

CANDIDATE_BYTES = 80  # of an answer, for each candidate or alternative with its text


class ClassifyOptions(RequestOptions):
    """Options of `classify`."""

    top_k: int = Field(5, ge=1, le=1000, description="labels a result, best first")


Threshold = Annotated[
    Number | None,
    Field(ge=0, le=1, description="probability from which an object counts as found; the model's by default"),
]


class DetectOptions(RequestOptions):
    """Options of `detect`, and of attention to what is detected."""

    threshold: Threshold = None
    top_k: int = Field(100, ge=1, le=1000, description="objects an image, surest first")


class TextOptions(RequestOptions):
    """Options of any prediction of a text."""

    truncate: bool = Field(False, description="cut off the end of a text that is too long, rather than refuse it")


class ClassifyTextOptions(ClassifyOptions, TextOptions):
    """Options of `classify` for a text."""


class FillMaskOptions(TextOptions):
    """Options of `fill-mask`."""

    top_k: int = Field(5, ge=1, le=1000, description="candidates a mask, best first")

    def check_size(self, masks: int, limit: int) -> None:
        """Raise TooLarge if the answer for this number of masks would exceed a limit in bytes."""
        size = masks * self.top_k * CANDIDATE_BYTES
        if size > limit:
            raise TooLarge(
                f"candidates: at most {limit} bytes an answer, this one would have {size}; ask for fewer top_k"
            )
