"""What a sparse embedding takes and answers."""

from pydantic import Field

from service.api.openapi.answers import Answer, Result
from service.api.openapi.components import Part, in_json
from service.api.openapi.predictions import prediction
from service.api.openapi.requests import Texts
from service.options.predictions import SparseOptions


class Word(Part):
    """A word of the vocabulary, and its weight."""

    token: int
    text: str
    weight: float


class WeighedResult(Result):
    """The words that one text is about."""

    words: list[Word] = Field(description="heaviest first")


class Weighed(Answer):
    """Answer of embed-sparse."""

    results: list[WeighedResult] = Field(description="one per input, in order")


class WeighTexts(SparseOptions, Texts):
    """Texts to embed by their words."""


NAME = "embed_sparse"
OPERATION = prediction(Weighed, in_json(WeighTexts), [])
PARAMETERS = ()
ANSWERS = ()
