"""What tagging takes and answers."""

from pydantic import Field

from service.api.openapi.answers import Answer, Result
from service.api.openapi.components import Part, in_json
from service.api.openapi.predictions import prediction
from service.api.openapi.requests import Texts
from service.api.pipelines.tags import TokenClassificationParameters
from service.options.tags import TagOptions


class TaggedEntity(Part):
    """A labelled part of a text."""

    label: str
    probability: float
    start: int = Field(description="in characters")
    end: int
    text: str
    tokens: list[int] = Field(description="their positions")


class TaggedText(Result):
    """The entities of a text."""

    entities: list[TaggedEntity] = Field(description="in order")


class TaggedTexts(Answer):
    """Answer of tag."""

    results: list[TaggedText] = Field(description="one per input, in order")


class TagTexts(TagOptions, Texts):
    """Texts to tag."""


class ScoredEntity(Part):
    """An entity and its score."""

    entity_group: str | None = None
    entity: str | None = None
    index: int | None = Field(None, description="of its token")
    score: float
    word: str
    start: int
    end: int


NAME = "tag"
OPERATION = prediction(TaggedTexts, in_json(TagTexts), [])
PARAMETERS = (TokenClassificationParameters,)
ANSWERS = (ScoredEntity,)
