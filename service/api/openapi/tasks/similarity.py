"""What a comparison of texts takes and answers."""

from pydantic import Field

from service.api.openapi.answers import Answer, Result
from service.api.openapi.components import in_json
from service.api.openapi.predictions import prediction
from service.api.openapi.requests import Texts
from service.options.predictions import PromptOptions


class SimilarText(Result):
    """How alike a text is to the source."""

    similarity: float | list[float] = Field(description="a list where source is one")


class SimilarTexts(Answer):
    """Answer of similarity."""

    results: list[SimilarText] = Field(description="one per input, in order")


class CompareTexts(PromptOptions, Texts):
    """Texts to compare with a source, or with several."""

    source: str | list[str]


NAME = "similarity"
OPERATION = prediction(SimilarTexts, in_json(CompareTexts), [])
