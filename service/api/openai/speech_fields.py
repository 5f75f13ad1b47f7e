"""What OpenAI's endpoints of sounds may be asked for, and how their forms are read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import Field
from starlette.requests import Request

from service.api.reading.request_parsing import FORM, ParsedRequest, content_type, read_form
from service.errors import Unacceptable, Unsupported
from service.inputs.encoded_files import SOUND
from service.options.base import Number, RequestOptions, parse
from service.options.readers import read_words
from service.options.spoken_languages import SpokenLanguage
from service.options.transcription import MOST_PROMPT_CHARACTERS, TranscribeOptions
from service.settings import Settings

O = TypeVar("O", bound="TranslationsOptions")  # noqa: E741 # the letter of Options

FILE = replace(SOUND, name="file", plural="file")
"""A sound as these endpoints call it."""
WITHOUT_TIMES = ("json", "text")
"""Of the forms of an answer."""


class TranslationsOptions(RequestOptions):
    """Options of `/v1/audio/translations`."""

    unserved: ClassVar[Mapping[str, str]] = {
        "include": "verbose_json has the mean log-probability of each segment's tokens, and no others are answered",
        **dict.fromkeys(("known_speaker_names", "known_speaker_references"), TranscribeOptions.unserved["diarize"]),
    }

    prompt: str | None = Field(None, max_length=MOST_PROMPT_CHARACTERS, description="text as if heard before")
    response_format: Literal["json", "text", "srt", "verbose_json", "vtt"] = "json"
    temperature: Number = Field(
        0, ge=0, le=1, description="0: the likeliest tokens, and more where a text repeats itself or is unlikely"
    )

    @property
    def asked(self) -> TranscribeOptions:
        """The same of our own endpoint."""
        return TranscribeOptions(
            task="translate",
            prompt=self.prompt,
            temperature=self.temperature or None,
            timestamps="none" if self.response_format in WITHOUT_TIMES else "segment",
            priority=self.priority,
        )


class TranscriptionsOptions(TranslationsOptions):
    """Options of `/v1/audio/transcriptions`."""

    language: SpokenLanguage | None = Field(None, description="code or English name; found by default")
    timestamp_granularities: Annotated[tuple[Literal["segment", "word"], ...], read_words("segment", "word")] = Field(
        ("segment",), description="of verbose_json, which has the segments, the words, or both"
    )
    stream: bool = Field(False, description="answer with server-sent events, a segment each; of json")
    chunking_strategy: Literal["auto"] = Field("auto", description="without effect")

    @property
    def asked(self) -> TranscribeOptions:
        """The same of our own endpoint. Raises Unacceptable for options that exclude each other."""
        if self.stream and self.response_format != "json":
            raise Unacceptable("stream: is of response_format json")
        if "timestamp_granularities" in self.model_fields_set and self.response_format != "verbose_json":
            raise Unacceptable("timestamp_granularities: are of response_format verbose_json")
        own = {"task": "transcribe", "language": self.language, "stream": self.stream}
        if "word" in self.timestamp_granularities:
            own["timestamps"] = "word"
        return super().asked.model_copy(update=own)


async def read(request: Request, settings: Settings, kind: type[O]) -> tuple[str, bytes, O]:
    """Return the model's name, the sound and the options of a form. An empty field is as if it were not there.

    Raises what `read_form` does, Unsupported for a body that is none, and Unacceptable.
    """
    media, parameters = content_type(request)
    if media != FORM:
        raise Unsupported(f"Content-Type: must be {FORM}; with curl: -F file=@talk.wav -F model=NAME")
    parsed: ParsedRequest = await read_form(FILE, request, parameters, settings)
    if len(parsed.inputs) > 1:
        raise Unacceptable(f"file: must be one, given {len(parsed.inputs)}")
    given = {name: value for name, value in parsed.given.items() if value != ""}
    model = given.pop("model", None)
    if not isinstance(model, str):
        raise Unacceptable("model: must be the name of a model; GET /v1/models lists them")
    (sound,) = parsed.inputs
    assert isinstance(sound, bytes)  # noqa: S101 # as files are
    return model, sound, parse(kind, given, strings=True, beside=("file", "model"))
