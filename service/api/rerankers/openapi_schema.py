"""The OpenAPI description of what clients of rerankers post and get."""

from typing import Literal

from pydantic import Field

from service.api.openai.openapi_schema import REFUSALS as REFUSALS_OF_SCORES
from service.api.openai.openapi_schema import OpenAIUsage
from service.api.openapi.components import COMPONENTS, JSON, Json, Part, any_of, in_json
from service.api.rerankers.fields import DocumentsOptions, ScoreOptions
from service.options.base import Options


class RerankerError(Part):
    """Why a request is refused, or has failed: the same twice, as each client reads one of them."""

    message: str = Field(description="subject, limit, given")
    detail: str


class RerankDocument(Options):
    """A document that is an object."""

    text: str


class RerankRequest(DocumentsOptions):
    """A query and documents to rank."""

    model: str
    query: str
    documents: list[str | RerankDocument]


class ScoreTexts(ScoreOptions):
    """Two texts, one and several, or two lists of one length."""

    model: str
    text_1: str | list[str]
    text_2: str | list[str]


class ScoreDocuments(ScoreOptions):
    """The same by other names."""

    model: str
    queries: str | list[str]
    documents: str | list[str]


class RankedDocument(Part):
    """A document in its place."""

    index: int
    relevance_score: float = Field(description="from 0 to 1")
    document: RerankDocument | None = Field(None, description="where asked for")


class RerankMeta(Part):
    """What Cohere's clients read beside the results."""

    api_version: dict[Literal["version"], Literal["1", "2"]]
    tokens: dict[Literal["input_tokens"], int]


class RankedDocuments(Part):
    """Answer of `/v1/rerank` and `/v2/rerank`."""

    id: str = Field(description="of GET /v1/attention/{id}")
    model: str
    results: list[RankedDocument] = Field(description="best first")
    meta: RerankMeta
    usage: OpenAIUsage


class PairScore(Part):
    """The score of a pair."""

    index: int
    object: Literal["score"]
    score: float


class PairScores(Part):
    """Answer of `/score`."""

    id: str = Field(description="of GET /v1/attention/{id}")
    object: Literal["list"]
    model: str
    data: list[PairScore] = Field(description="in order")
    usage: OpenAIUsage


_REFUSED = COMPONENTS.named(
    "responses", "RerankerError", {"description": "as Problem of its status", "content": in_json(RerankerError)}
)
_STATUSES = (400, 401, 403, 404, 408, 413, 415, 422, 429, 500, 503, 504)
_RERANK: Json = {
    "responses": {
        200: {"description": "documents, best first", "content": in_json(RankedDocuments)},
        **dict.fromkeys(_STATUSES, _REFUSED),
    },
    "requestBody": {"required": True, "content": in_json(RerankRequest)},
}
_PAIRS: Json = {JSON: {"schema": any_of(ScoreTexts, ScoreDocuments)}}

OPERATIONS: dict[str, Json] = {
    "jina_rerank": _RERANK,
    "cohere_rerank": _RERANK,
    "vllm_score": {
        "responses": {
            200: {"description": "a score for each pair", "content": in_json(PairScores)},
            **REFUSALS_OF_SCORES,
        },
        "requestBody": {"required": True, "content": _PAIRS},
    },
}
"""By the name of the operation."""
