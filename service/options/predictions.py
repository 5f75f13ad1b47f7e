"""The options of predictions."""

from typing import Annotated

from pydantic import Field

from service.options.base import SHARED, Number, RequestOptions

CANDIDATE_BYTES = 80  # of an answer, for each candidate or alternative with its text


class ClassifyOptions(RequestOptions):
    """Options of `classify`."""

    top_k: int = Field(5, ge=1, le=1000, description="labels a result, best first")
    logits: bool = Field(False, description="also the logit of each label")


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

    truncate: bool = Field(
        False, description="cut off the end of a text that is too long, rather than refuse it", json_schema_extra=SHARED
    )


class RerankOptions(TextOptions):
    """Options of `rerank`. Where a text is cut off, the query is not."""

    top_k: int | None = Field(None, ge=1, le=1000, description="texts that are answered, best first; all by default")
    return_texts: bool = Field(False, description="also the text of each")
    raw_scores: bool = Field(False, description="the logits, rather than scores as the model was trained for")


class ClassifyTextOptions(ClassifyOptions, TextOptions):
    """Options of `classify` for a text."""
