"""The OpenAPI description of OpenAI's endpoints."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from service.api.openai.fields import CompletionsOptions, EmbeddingsOptions
from service.api.openapi_schema import Attention
from service.options import AttentionOptions, Options

Json = dict[str, Any]


class OpenAIFault(BaseModel):
    """What is wrong, and in which field of the request."""

    message: str = Field(description="subject, limit, given")
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None
    code: Literal["model_not_found", "invalid_api_key", "rate_limit_exceeded"] | None


class OpenAIError(BaseModel):
    """An error, also as the last event of a stream that fails."""

    error: OpenAIFault


class OpenAIUsage(BaseModel):
    """Tokens of a request and its answer; special ones that the tokenizer adds to a text are counted."""

    prompt_tokens: int
    total_tokens: int


class OpenAIEmbedding(BaseModel):
    """The vector of one text."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str
    attention: Attention | None = Field(None, description="if the request asks for it")


class OpenAIEmbeddings(BaseModel):
    """Answer of `/v1/embeddings`."""

    object: Literal["list"]
    id: str = Field(description="by which GET /v1/attention/{id} answers what the model looked at")
    model: str
    data: list[OpenAIEmbedding]
    usage: OpenAIUsage


class OpenAILogprobs(BaseModel):
    """The tokens of a completion; together, their texts are that of the completion."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: None
    text_offset: list[int] = Field(description="of the completion's text")


class OpenAIChoice(BaseModel):
    """The completion of one prompt, or a part of it."""

    index: int
    text: str
    logprobs: OpenAILogprobs | None
    finish_reason: Literal["stop", "length"] | None
    attention: Attention | None = Field(None, description="if the request asks for it; of a stream in the last choice")


class OpenAICompletionUsage(OpenAIUsage):
    """The same of completions; an end token is not counted."""

    completion_tokens: int


class OpenAICompletions(BaseModel):
    """Answer of `/v1/completions`, or a chunk of it."""

    id: str = Field(description="cmpl- and the id by which GET /v1/attention/{id} answers what the model looked at")
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[OpenAIChoice]
    usage: OpenAICompletionUsage | None = None


_REFUSALS: dict[int | str, Json] = {
    status: {"model": OpenAIError, "description": what}
    for status, what in {
        400: "the body cannot be read, or asks for what is not served; param names the field",
        404: "no such model, or it does not serve this endpoint",
        413: "larger than a limit",
        415: "a content type that is not read",
        429: "the queue is full; see Retry-After",
        503: "warming up or stopping; see Retry-After",
        504: "the deadline passed",
    }.items()
}


def _document(options: type[Options], subject: str) -> Json:
    text = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    properties = {
        "model": {"type": "string"},
        subject: text,
        **options.model_json_schema()["properties"],
        "attention": AttentionOptions.model_json_schema() | {"description": "also answer what the model looked at"},
    }
    schema = {"type": "object", "properties": properties, "required": ["model", subject], "additionalProperties": False}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


EMBEDDINGS: Json = {
    "responses": {200: {"model": OpenAIEmbeddings}, **_REFUSALS},
    "openapi_extra": _document(EmbeddingsOptions, "input"),
}
COMPLETIONS: Json = {
    "responses": {
        200: {"model": OpenAICompletions, "content": {"application/json": {}, "text/event-stream": {}}},
        **_REFUSALS,
    },
    "openapi_extra": _document(CompletionsOptions, "prompt"),
}
