"""The fields of OpenAI's documents: how a request is read, and what it may ask for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import Field, PlainValidator, ValidationInfo
from pydantic_core import PydanticCustomError
from starlette.requests import Request

from contract.generation import Generation
from service.api.reading.messages import parse_messages
from service.api.reading.request_parsing import ParsedRequest, check_characters, check_count, read_document
from service.errors import Unacceptable
from service.inputs.encoded_files import IMAGE, decode_files
from service.inputs.model_input import Text
from service.options.base import SHARED, Number, Options, RequestOptions, among, parse
from service.options.generation import MOST_TEXTS, GenerateOptions, LanguageOptions
from service.options.predictions import EmbedOptions, EmbedTextOptions
from service.options.readers import read_stops
from service.settings import Settings

O = TypeVar("O", bound=Options)  # noqa: E741 # the letter of Options

TOKEN_IDS_HINTS = {"input": " (LangChain: check_embedding_ctx_length=False)"}
"""How clients that send ids of tokens are told to send text, by the name of the field."""


@dataclass(frozen=True)
class Asked:
    """A document that was read: the model and its inputs, and the other fields as they were sent."""

    model: str
    inputs: Sequence[bytes | Text]
    given: dict[str, object]
    subject: str
    """The name of the field that holds the inputs."""
    modality: str = "text"
    """Of the inputs."""

    def options(self, kind: type[O]) -> O:
        """Return the options, without those of attention. A known one that is null is as if it were not there."""
        given = {
            name: value
            for name, value in self.given.items()
            if name != "attention" and not (value is None and name in kind.model_fields)
        }
        return parse(kind, given, strings=False, beside=("attention", "model", self.subject)) if given else kind()

    @property
    def parsed(self) -> ParsedRequest:
        """The inputs and the options of attention, as the native endpoints have them."""
        attention = self.given.get("attention")
        return ParsedRequest(self.inputs, {} if attention is None else {"attention": attention})


async def read(request: Request, settings: Settings, subject: str) -> Asked:
    """Read a document whose texts are in the field `subject`. Raises what `read_document` does, and Unacceptable."""
    model, given, document = await _read(request, settings.max_text_bytes, settings, subject)
    return Asked(model, _texts(subject, given, settings.max_inputs), document, subject)


async def read_chat(request: Request, settings: Settings) -> Asked:
    """Read a document with the `messages` of a chat. Raises what `read` does."""
    model, given, document = await _read(request, settings.max_text_bytes, settings, "messages")
    return Asked(model, [parse_messages(given)], document, "messages")


async def read_embedded(request: Request, settings: Settings) -> Asked:
    """Read a document whose `input` are texts, or pictures where `modality` says so, as infinity-emb's server takes.

    Raises what `read` does, and TooLarge for texts that a body of texts alone could not hold.
    """
    model, given, document = await _read(request, settings.max_body_bytes, settings, "input")
    modality = document.get("modality")
    modality = "text" if modality is None else modality
    if not isinstance(modality, str) or modality not in EMBEDDED:
        raise Unacceptable(f"modality: {AUDIO if modality == 'audio' else 'must be text or image, given another'}")
    if modality == "image":
        pictures = _strings("input", given, settings.max_images, "must be a data: URL or base64, or a list of them")
        files = await decode_files(IMAGE, "input: each", pictures, settings)
        return Asked(model, files, document, "input", modality)
    texts = _texts("input", given, settings.max_inputs)
    check_characters("input", texts, settings)
    return Asked(model, texts, document, "input")


async def _read(
    request: Request, limit: int, settings: Settings, subject: str
) -> tuple[str, object, dict[str, object]]:
    """Return the model that a document names, what its field `subject` holds, and its other fields."""
    document = await read_document(request, limit, settings)
    model = document.pop("model", None)
    if not isinstance(model, str):
        raise Unacceptable("model: must be the name of a model; GET /v1/models lists them")
    return model, document.pop(subject, None), document


def _texts(subject: str, given: object, most: int) -> list[str]:
    if any(isinstance(one, (int, list)) for one in (given if isinstance(given, list) else [given])):
        hint = TOKEN_IDS_HINTS.get(subject, "")
        raise Unacceptable(f"{subject}: must be text; ids of another tokenizer mean nothing here{hint}")
    return _strings(subject, given, most, "must be a string or a list of strings")


def _strings(subject: str, given: object, most: int, rule: str) -> list[str]:
    listed = given if isinstance(given, list) else [given]
    check_count(subject, len(listed), most)
    strings = [one for one in listed if isinstance(one, str)]
    if len(strings) < len(listed):
        raise Unacceptable(f"{subject}: {rule}")
    return strings


class VectorsOptions(RequestOptions):
    """What all requests of `/v1/embeddings` may ask for, beside the options of `embed`."""

    modality: Literal["text", "image"] = Field(
        "text", description="of the inputs: texts, or pictures as data: URLs or base64"
    )
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="of a vector: a list of numbers, or base64 of little-endian float32"
    )
    user: str | None = Field(None, description="not used", json_schema_extra=SHARED)


class EmbeddingsOptions(EmbedTextOptions, VectorsOptions):
    """Options of `/v1/embeddings`."""


class PictureEmbeddingsOptions(EmbedOptions, VectorsOptions):
    """Options of `/v1/embeddings` for pictures."""


EMBEDDED: dict[str, type[EmbeddingsOptions | PictureEmbeddingsOptions]] = {
    "text": EmbeddingsOptions,
    "image": PictureEmbeddingsOptions,
}
"""The options of `/v1/embeddings`, by the modality of its inputs."""
AUDIO = "audio is not served here; sounds are embedded at POST /v1/models/{model}/embed"


UNSERVED: dict[str, tuple[tuple[object, ...], str]] = {
    "best_of": ((1,), "all n completions are answered"),
    "echo": ((False,), "a completion does not repeat its prompt"),
    "suffix": (("",), "no text is inserted between two others"),
    "logit_bias": (({},), "the likelihood of tokens is not changed"),
    "presence_penalty": ((0,), "the likelihood of tokens is not changed"),
    "frequency_penalty": ((0,), "the likelihood of tokens is not changed"),
    "tools": (([],), "tools are not served"),
    "tool_choice": (("none", "auto"), "tools are not served"),
    "parallel_tool_calls": ((True, False), "tools are not served"),
    "functions": (([],), "tools are not served"),
    "function_call": (("none", "auto"), "tools are not served"),
    "response_format": (({"type": "text"},), "answers are plain text"),
    "modalities": ((["text"],), "answers are plain text"),
    "service_tier": (("auto", "default"), "there is one"),
    "store": ((False,), "an answer is kept for its attention alone, and not for long"),
}
"""Fields that are known but not served: the values that clients may send, which ask for nothing, and why no others."""


def _rule(name: str) -> str:
    (neutral, *_), reason = UNSERVED[name]
    shown = neutral if isinstance(neutral, str) else orjson.dumps(neutral).decode()
    return f"must be {shown if neutral or isinstance(neutral, (bool, int)) else 'empty'}, since {reason}"


def _check_unserved(value: object, info: ValidationInfo) -> None:
    """Refuse a field that is not served, unless its value asks for nothing."""
    name = str(info.field_name)
    if name == "best_of" and type(value) is int and value == info.data.get("n"):
        return
    if not among(value, UNSERVED[name][0]):
        raise PydanticCustomError("unserved", "{rule}", {"rule": _rule(name)})


Unserved = Annotated[Any, PlainValidator(_check_unserved)]


def _include_usage() -> PlainValidator:
    """Accept `{"include_usage": <boolean>}` or `{}`, and return the boolean."""

    def parse_options(value: object) -> bool:
        if isinstance(value, dict) and value.keys() <= {"include_usage", "include_obfuscation"}:
            asked = value.get("include_usage", False)  # obfuscation hides lengths, which are not secret here
            if isinstance(asked, bool):
                return asked
        raise PydanticCustomError("stream_options", 'must be {"include_usage": true or false}')

    return PlainValidator(parse_options, json_schema_input_type=dict[Literal["include_usage"], bool])


class WritingOptions(LanguageOptions):
    """What `/v1/completions` and `/v1/chat/completions` both take."""

    max_tokens: int | None = Field(
        None, ge=1, description="tokens to generate at most; the model's own limit by default, rather than 16"
    )
    temperature: Number | None = Field(
        None, ge=0, le=100, description="0 takes the likeliest token, more samples; by default the model's own search"
    )
    top_p: Number | None = Field(
        None, gt=0, le=1, description="sample among the likeliest tokens of so much mass; 1 asks for nothing"
    )
    seed: int | None = Field(None, ge=-(2**63), lt=2**63, description="the same seed samples the same tokens")
    stream: bool = Field(False, description="answer with server-sent events, a token each; of one prompt")
    stream_options: Annotated[bool, _include_usage()] = Field(
        False, description="include_usage: also send the usage, before the end of a stream"
    )
    user: str | None = Field(None, description="not used", json_schema_extra=SHARED)
    n: int | None = Field(None, ge=1, le=MOST_TEXTS, description="completions of a prompt")
    stop: Annotated[tuple[str, ...], read_stops()] | None = Field(
        None, description="up to four strings: a text ends before the first of them", json_schema_extra=SHARED
    )
    logit_bias: Unserved = Field(None, description=_rule("logit_bias"))
    presence_penalty: Unserved = Field(None, description=_rule("presence_penalty"))
    frequency_penalty: Unserved = Field(None, description=_rule("frequency_penalty"))

    @property
    def limit(self) -> str:
        """The name of the option that says the most tokens of a completion."""
        return "max_tokens"

    @property
    def with_logs(self) -> bool:
        """True if log-probabilities of tokens are asked for."""
        raise NotImplementedError

    @property
    def likely(self) -> int:
        """How many likely tokens are asked for at each place."""
        raise NotImplementedError

    def generating(self, generation: Generation) -> GenerateOptions:
        """Return what is asked for as the options of `generate`, of a model whose manifest says how it generates.

        A temperature of 0 takes the likeliest token, without beams. Raises Unacceptable for options of a stream without
        one, and for a stream of beams.
        """
        if "stream_options" in self.model_fields_set and not self.stream:
            raise Unacceptable("stream_options: is for stream")
        draws = generation.sampling and generation.sampling.by_default
        options = GenerateOptions(
            max_new_tokens=getattr(self, self.limit),
            num_beams=1 if self.temperature == 0 else None,
            temperature=self.temperature,
            # 1 is the default of OpenAI's clients, and asks a model that does not sample for nothing
            top_p=None if self.top_p == 1 and self.temperature is None and not draws else self.top_p,
            alternatives=self.likely,
            stop=self.stop,
            num_return_sequences=self.n or 1,
            seed=None if self.seed is None else self.seed % 2**63,
            stream=self.stream,
            priority=self.priority,
            source_language=self.source_language,
            target_language=self.target_language,
        )
        beams, texts = options.beams(generation), options.texts(generation)
        if texts > 1 and self.stream:
            raise Unacceptable(f"stream: needs n 1, given {texts}")
        if texts > beams and not options.sampling(generation.sampling):
            raise Unacceptable(f"n: at most {beams} without a temperature above 0, given {texts}")
        if self.stream and beams > 1:
            raise Unacceptable(
                "stream: needs a temperature (0 takes the likeliest token), since this model searches with "
                f"{beams} beams by default, which know their first token last"
            )
        return options


class CompletionsOptions(WritingOptions):
    """Options of `/v1/completions`."""

    logprobs: int | None = Field(
        None,
        ge=0,
        le=5,
        description="the log-probability of each token that was chosen, and of this many likely ones at its place",
    )
    best_of: Unserved = Field(None, description=_rule("best_of"))
    echo: Unserved = Field(None, description=_rule("echo"))
    suffix: Unserved = Field(None, description=_rule("suffix"))

    @property
    def with_logs(self) -> bool:
        """True if log-probabilities of tokens are asked for."""
        return self.logprobs is not None

    @property
    def likely(self) -> int:
        """How many likely tokens are asked for at each place."""
        return self.logprobs or 0


class ChatOptions(WritingOptions):
    """Options of `/v1/chat/completions`."""

    max_completion_tokens: int | None = Field(None, ge=1, description="the newer name of max_tokens")
    logprobs: bool = Field(False, description="the log-probability of each token that was chosen")
    top_logprobs: int | None = Field(
        None, ge=0, le=20, description="with logprobs: of this many likely tokens at its place too"
    )
    tools: Unserved = Field(None, description=_rule("tools"))
    tool_choice: Unserved = Field(None, description=_rule("tool_choice"))
    parallel_tool_calls: Unserved = Field(None, description=_rule("parallel_tool_calls"))
    functions: Unserved = Field(None, description=_rule("functions"))
    function_call: Unserved = Field(None, description=_rule("function_call"))
    response_format: Unserved = Field(None, description=_rule("response_format"))
    modalities: Unserved = Field(None, description=_rule("modalities"))
    service_tier: Unserved = Field(None, description=_rule("service_tier"))
    store: Unserved = Field(None, description=_rule("store"))

    @property
    def limit(self) -> str:
        """The name of the option that says the most tokens of an answer: the newer one where it is given."""
        return "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"

    @property
    def with_logs(self) -> bool:
        """True if log-probabilities of tokens are asked for."""
        return self.logprobs

    @property
    def likely(self) -> int:
        """How many likely tokens are asked for at each place. Raises Unacceptable for some without `logprobs`."""
        if self.top_logprobs is not None and not self.logprobs:
            raise Unacceptable("top_logprobs: is for logprobs")
        return self.top_logprobs or 0
