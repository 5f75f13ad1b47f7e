"""What a comparison of texts takes and answers."""

from pydantic import Field

from service.api.openapi.answers import Answer, Result
from service.api.openapi.components import JSON, Part, any_of
from service.api.openapi.predictions import prediction
from service.api.openapi.requests import Texts
from service.options.base import RequestOptions
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


class SourcePicture(Part):
    """A picture as a source."""

    image: str = Field(description="base64")


class CompareAcross(RequestOptions):
    """Texts, or images, to compare with a source, or with several, of models that compare pictures with texts."""

    source: str | SourcePicture | list[str] | list[SourcePicture]
    inputs: str | list[str] | None = None
    images: list[str] | None = Field(None, description="base64, in place of inputs")


NAME = "similarity"
OPERATION = prediction(SimilarTexts, {JSON: {"schema": any_of(CompareTexts, CompareAcross)}}, [])
