"""The OpenAPI description of OpenAI's endpoints."""

from typing import Literal

from pydantic import ConfigDict, Field

from service.api.openai.fields import CompletionsOptions, EmbeddingsOptions
from service.api.openapi.attention import Attention, Map
from service.api.openapi.components import Json, Part, in_json, refusals
from service.options.attention import AttentionOptions


class OpenAIFault(Part):
    """What is wrong, and in which field of the request."""

    message: str = Field(description="subject, limit, given")
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None
    code: Literal["model_not_found", "invalid_api_key", "rate_limit_exceeded"] | None


class OpenAIError(Part):
    """An error, also as the last event of a stream that fails."""

    error: OpenAIFault


class OpenAIUsage(Part):
    """Tokens of a request and its answer; special ones that the tokenizer adds to a text are counted."""

    prompt_tokens: int
    total_tokens: int


class OpenAIEmbedding(Part):
    """The vector of one text."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str
    attention: Attention | None = Field(None, description="if the request asks for it")


class OpenAIEmbeddings(Part):
    """Answer of `/v1/embeddings`."""

    object: Literal["list"]
    id: str = Field(description="by which GET /v1/attention/{id} answers what the model looked at")
    model: str
    data: list[OpenAIEmbedding]
    usage: OpenAIUsage


class OpenAILogprobs(Part):
    """The tokens of a completion; together, their texts are that of the completion."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None = Field(
        description="the likeliest tokens at each place, best first, and the chosen one; with `logprobs` above 0"
    )
    text_offset: list[int] = Field(description="of the completion's text")


class OpenAIChoice(Part):
    """The completion of one prompt, or a part of it."""

    index: int
    text: str
    logprobs: OpenAILogprobs | None
    finish_reason: Literal["stop", "length"] | None
    attention: Attention | list[Map] | None = Field(
        None,
        description="if the request asks for it; of a stream in the last choice, or with `steps` a row of each token",
    )


class OpenAICompletionUsage(OpenAIUsage):
    """The same of completions; an end token is not counted."""

    completion_tokens: int


class OpenAICompletions(Part):
    """Answer of `/v1/completions`, or a chunk of it. Where usage comes in a last chunk, the others have null."""

    model_config = ConfigDict(json_schema_extra=None)

    id: str = Field(description="cmpl- and the id by which GET /v1/attention/{id} answers what the model looked at")
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[OpenAIChoice]
    usage: OpenAICompletionUsage | None = None


REFUSALS = refusals(
    OpenAIError,
    {
        400: "the body cannot be read, or asks for what is not served; param names the field",
        404: "no such model, or it does not serve this endpoint",
        413: "larger than a limit",
        415: "a content type that is not read",
        429: "the queue is full; see Retry-After",
        503: "warming up, failing or stopping; see Retry-After",
        504: "the deadline passed",
    },
)


class OpenAIEmbeddingsRequest(EmbeddingsOptions):
    """What `/v1/embeddings` takes."""

    model: str
    input: str | list[str]
    attention: AttentionOptions = Field(AttentionOptions(), description="also answer what the model looked at")


class OpenAICompletionsRequest(CompletionsOptions):
    """What `/v1/completions` takes."""

    model: str
    prompt: str | list[str]
    attention: AttentionOptions = Field(AttentionOptions(), description="also answer what the model looked at")


_COMPLETIONS = in_json(OpenAICompletions)
OPERATIONS: dict[str, Json] = {
    "openai_embeddings": {
        "responses": {
            200: {"description": "a vector for each text", "content": in_json(OpenAIEmbeddings)},
            **REFUSALS,
        },
        "requestBody": {"required": True, "content": in_json(OpenAIEmbeddingsRequest)},
    },
    "openai_completions": {
        "responses": {
            200: {
                "description": "a completion of each prompt; of a stream, the data of its events",
                "content": {**_COMPLETIONS, "text/event-stream": _COMPLETIONS["application/json"]},
            },
            **REFUSALS,
        },
        "requestBody": {"required": True, "content": in_json(OpenAICompletionsRequest)},
    },
}
"""By the name of the operation."""
