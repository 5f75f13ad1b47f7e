"""What generation takes and answers, and the events of its streams."""

from typing import Any, Literal

from pydantic import Field

from service.api.openapi.answers import Answer, Result
from service.api.openapi.attention import Map
from service.api.openapi.components import Part, any_of
from service.api.openapi.predictions import prediction
from service.api.openapi.requests import Images, Messages, Texts, form, query, raw_or
from service.api.pipelines.parameters import (
    GenerationParameters,
)
from service.options.attention import AttentionOptions
from service.options.base import RequestOptions
from service.options.generation import GenerateOptions


class Alternative(Part):
    """A token that could stand in a generated one's place."""

    token: int
    text: str
    log_probability: float


class GeneratedToken(Part):
    """A generated token."""

    index: int = Field(description="its place in the text")
    token: int
    text: str
    log_probability: float
    alternatives: list[Alternative] | None = Field(None, description="the likeliest in its place, where asked for")


class GeneratedText(Part):
    """A generated text."""

    text: str
    tokens: list[GeneratedToken]
    score: float = Field(description="sum of the log-probabilities over length to the power of length_penalty")
    finish_reason: Literal["stop", "length"]


class GeneratedResult(GeneratedText, Result):
    """The text generated from one text or image."""

    others: list[GeneratedText] | None = Field(None, description="with num_return_sequences above 1, best first")


class Generated(Answer):
    """Answer of generate, and the event `done` of its stream."""

    results: list[GeneratedResult] = Field(description="one per input, in order")


class StreamedToken(Part):
    """The event `token` of a stream."""

    index: int = Field(description="its place in the text")
    token: int
    text: str = Field(description="what it adds to the text, and what was held back; what may become a stop is not yet")
    alternatives: list[Alternative] | None = Field(None, description="the likeliest in its place, where asked for")
    attention: list[Map] | None = Field(None, description="its row of cross, with `steps` of attention")


class StreamFailed(Part):
    """The event `error` of a stream, which ends it."""

    status: int
    detail: str = Field(description="subject, limit, given")


class GenerateFromImages(GenerateOptions, Images):
    """Images to generate texts from."""


class GenerateFromTexts(GenerateOptions, Texts):
    """Texts to generate others from, or to continue."""


class GenerateFromMessages(GenerateOptions, Messages):
    """Messages to answer, of models that take chats."""


class WrittenToken(Part):
    """A generated token."""

    id: int
    text: str
    logprob: float
    special: bool


class WrittenDetails(Part):
    """Why a text ended, and its tokens."""

    finish_reason: Literal["eos_token", "length"]
    generated_tokens: int
    seed: int | None
    prefill: list[Any] | None = None
    tokens: list[WrittenToken] | None = None
    input_length: int | None = Field(None, description="of a stream")


class WrittenText(Part):
    """A generated text, under the names that clients of each task read."""

    generated_text: str
    translation_text: str | None = None
    summary_text: str | None = None
    details: WrittenDetails | None = None


class WrittenEvent(Part):
    """The data of one event of a stream; the last one has the text."""

    index: int
    token: WrittenToken
    generated_text: str | None
    details: WrittenDetails | None


_ONE_PIXEL_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABAQAAAAA3bvkkAAAACklEQVR42mNgAAAAAgAB5Sfe/AAAAABJRU5ErkJggg=="
OPERATION = prediction(
    Generated,
    raw_or(any_of(GenerateFromImages, GenerateFromTexts, GenerateFromMessages), form("GenerateForm", GenerateOptions)),
    query(RequestOptions, GenerateOptions, AttentionOptions),
)
OPERATION["requestBody"]["content"]["application/json"]["examples"] = {
    "a text": {"value": {"inputs": "the 23rd of March 2021", "num_beams": 4}},
    "a chat": {"value": {"messages": [{"role": "user", "content": "Why is the sky blue?"}]}},
    "an image": {"value": {"images": [_ONE_PIXEL_PNG], "attention": {"kind": "cross"}}},
}
OPERATION["responses"][200]["content"]["text/event-stream"] = {
    "schema": {**any_of(StreamedToken, Generated, StreamFailed), "description": "the data of events token, done, error"}
}
NAME = "generate"
PARAMETERS = (GenerationParameters,)
ANSWERS = (WrittenText,)
