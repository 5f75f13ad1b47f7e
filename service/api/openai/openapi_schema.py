"""The OpenAPI description of OpenAI's endpoints."""

from typing import Literal

from pydantic import ConfigDict, Field

from service.api.openai.fields import ChatOptions, CompletionsOptions, EmbeddingsOptions
from service.api.openai.speech_documents import PLAIN, VTT
from service.api.openai.speech_fields import TranscriptionsOptions, TranslationsOptions
from service.api.openapi.attention import Attention, Map
from service.api.openapi.components import COMPONENTS, Json, Part, any_of, in_json, refusals
from service.api.openapi.requests import BINARY, ChatMessage, flat
from service.api.reading.request_parsing import FORM
from service.options.attention import AttentionOptions


class OpenAIFault(Part):
    """What is wrong, and in which field of the request."""

    message: str = Field(description="subject, limit, given")
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None
    code: Literal["model_not_found", "context_length_exceeded", "invalid_api_key", "rate_limit_exceeded"] | None


class OpenAIError(Part):
    """An error, also as the last event of a stream that fails."""

    error: OpenAIFault


class OpenAIUsage(Part):
    """Tokens of a request and its answer; special ones that the tokenizer adds to a text are counted."""

    prompt_tokens: int
    total_tokens: int


class OpenAIEmbedding(Part):
    """The vector of one input."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str
    attention: Attention | None = Field(None, description="if the request asks for it")


class OpenAIEmbeddings(Part):
    """Answer of `/v1/embeddings`."""

    object: Literal["list"]
    id: str = Field(description="of GET /v1/attention/{id}")
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

    id: str = Field(description="cmpl- and the id of GET /v1/attention/{id}")
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[OpenAIChoice]
    usage: OpenAICompletionUsage | None = None


class ChatText(Part):
    """A text of the assistant."""

    role: Literal["assistant"]
    content: str
    refusal: None


class ChatDelta(Part):
    """What a chunk adds to the text; the first says whose it is."""

    model_config = ConfigDict(json_schema_extra=None)

    role: Literal["assistant"] | None = None
    content: str | None = None


class LikelyToken(Part):
    """A token, and its log-probability."""

    token: str
    logprob: float
    bytes: list[int]


class ChosenToken(LikelyToken):
    """A token of an answer, with those that were likely at its place, and itself; with `top_logprobs` above 0."""

    top_logprobs: list[LikelyToken]


class ChatLogprobs(Part):
    """The tokens of an answer; together, their texts are that of the answer."""

    content: list[ChosenToken]
    refusal: None


class ChatChoice(Part):
    """An answer to a chat, or in `delta` a part of it."""

    model_config = ConfigDict(json_schema_extra=None)

    index: int
    message: ChatText | None = None
    delta: ChatDelta | None = Field(None, description="of a stream, in place of message")
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    attention: Attention | list[Map] | None = Field(
        None, description="if the request asks for it; of a stream in the last choice"
    )


class OpenAIChat(Part):
    """Answer of `/v1/chat/completions`, or a chunk of it. Where usage comes in a last chunk, the others have null."""

    model_config = ConfigDict(json_schema_extra=None)

    id: str = Field(description="chatcmpl- and the id of GET /v1/attention/{id}")
    object: Literal["chat.completion", "chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChoice]
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
    attention: AttentionOptions = AttentionOptions()


class OpenAICompletionsRequest(CompletionsOptions):
    """What `/v1/completions` takes."""

    model: str
    prompt: str | list[str]
    attention: AttentionOptions = AttentionOptions()


class OpenAIChatRequest(ChatOptions):
    """What `/v1/chat/completions` takes."""

    model: str
    messages: list[ChatMessage]
    attention: AttentionOptions = AttentionOptions()


class SpeechUsage(Part):
    """Seconds of a sound, rounded up."""

    type: Literal["duration"]
    seconds: int


class OpenAISegment(Part):
    """What was said without a break, in seconds."""

    id: int
    seek: int = Field(description="where its window begins, in hundredths of a second")
    start: float
    end: float
    text: str
    tokens: list[int] = Field(description="without those of times")
    temperature: float
    avg_logprob: float | None = Field(description="of its window, as the next two")
    compression_ratio: float | None
    no_speech_prob: float | None


class OpenAIWord(Part):
    """A word, and the seconds in which it was heard."""

    word: str
    start: float
    end: float


class OpenAISpeech(Part):
    """What was said: in json `text` and `usage`, in verbose_json more."""

    text: str
    usage: SpeechUsage
    task: Literal["transcribe", "translate"] | None = None
    language: str | None = Field(None, description="its English name")
    duration: float | None = None
    words: list[OpenAIWord] | None = None
    segments: list[OpenAISegment] | None = None


class OpenAISpeechDelta(Part):
    """An event of a stream: what a segment adds to the text."""

    type: Literal["transcript.text.delta"]
    delta: str


class OpenAISpeechDone(Part):
    """The event of the whole text."""

    type: Literal["transcript.text.done"]
    text: str
    usage: SpeechUsage


def _speech(form: Json, events: Json) -> Json:
    """Return the description of an endpoint of sounds."""
    texts = {media: {"schema": {"type": "string"}} for media in (PLAIN, VTT)}
    return {
        "responses": {
            200: {"description": "what was said", "content": {**in_json(OpenAISpeech), **texts, **events}},
            **REFUSALS,
        },
        "requestBody": {"required": True, "content": {FORM: {"schema": form}}},
    }


_SENT: Json = {"file": BINARY, "model": {"type": "string"}, **flat(TranslationsOptions)}
_TRANSLATED = COMPONENTS.named(
    "schemas", "TranslationsForm", {"type": "object", "properties": _SENT, "required": ["file", "model"]}
)
_OWN: Json = {name: one for name, one in flat(TranscriptionsOptions).items() if name not in _SENT}
_TRANSCRIBED = COMPONENTS.named(
    "schemas", "TranscriptionsForm", {"allOf": [_TRANSLATED, {"type": "object", "properties": _OWN}]}
)
_EVENTS: Json = {"text/event-stream": {"schema": any_of(OpenAISpeechDelta, OpenAISpeechDone, OpenAIError)}}
_COMPLETIONS, _CHAT = in_json(OpenAICompletions), in_json(OpenAIChat)
OPERATIONS: dict[str, Json] = {
    "openai_embeddings": {
        "responses": {
            200: {"description": "a vector for each input", "content": in_json(OpenAIEmbeddings)},
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
    "openai_chat_completions": {
        "responses": {
            200: {
                "description": "an answer to the chat; of a stream, the data of its events",
                "content": {**_CHAT, "text/event-stream": _CHAT["application/json"]},
            },
            **REFUSALS,
        },
        "requestBody": {"required": True, "content": in_json(OpenAIChatRequest)},
    },
    "openai_transcriptions": _speech(_TRANSCRIBED, _EVENTS),
    "openai_translations": _speech(_TRANSLATED, {}),
}
"""By the name of the operation."""
