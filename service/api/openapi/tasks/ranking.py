"""What a ranking takes and answers."""

from pydantic import Field

from service.api.openapi.answers import Answer, Result
from service.api.openapi.components import in_json
from service.api.openapi.predictions import prediction
from service.options.attention import AttentionOptions
from service.options.predictions import RerankOptions


class RankedText(Result):
    """A text in its place."""

    index: int
    score: float
    text: str | None = Field(None, description="where asked for")


class OtherText(Result):
    """The text that others are explained against."""

    score: float


class RankedTexts(Answer):
    """Answer of rerank."""

    results: list[RankedText] = Field(description="best first")
    against: OtherText | None = Field(None, description="the text of `against`")


class RankTexts(RerankOptions):
    """A query and texts to rank."""

    query: str
    texts: list[str]
    attention: AttentionOptions = AttentionOptions()


NAME = "rerank"
OPERATION = prediction(RankedTexts, in_json(RankTexts), [])
