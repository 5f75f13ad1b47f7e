"""The options of transcription."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from service.options.base import SHARED, Number, RequestOptions
from service.options.spoken_languages import SpokenLanguage

TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""What is tried one after the other where a request says no temperature (openai-whisper)."""
MOST_PROMPT_CHARACTERS = 4096


class RecognizeOptions(RequestOptions):
    """Options of `transcribe` of a model whose frames write characters."""

    timestamps: Literal["none", "word", "segment"] = Field(
        "none", description="what is answered with the seconds in which it was heard", json_schema_extra=SHARED
    )


class TranscribeOptions(RecognizeOptions):
    """Options of `transcribe`. What they do not say is as openai-whisper has it."""

    unserved: ClassVar[Mapping[str, str]] = {
        "diarize": "a model that writes what was said does not know who said it",
    }

    language: SpokenLanguage | None = Field(None, description="that is spoken, such as en or english; found by default")
    task: Literal["transcribe", "translate"] = Field("transcribe", description="translate: into English")
    prompt: str | None = Field(
        None, max_length=MOST_PROMPT_CHARACTERS, description="text as if heard before: names, and a style"
    )
    temperature: Number | None = Field(
        None, ge=0, le=1, description="by default 0, and more where a text repeats itself or is unlikely"
    )
    num_beams: int | None = Field(None, ge=1, description="hypotheses of a beam search; the model's by default")
    seed: int | None = Field(None, ge=0, lt=2**63, description="the same seed samples the same tokens")
    condition_on_previous_text: bool = Field(
        True, description="what was heard before is told to the model, of sounds longer than it hears at once"
    )
    compression_ratio_threshold: Number | None = Field(2.4, ge=0, description="a text repeats itself beyond")
    logprob_threshold: Number | None = Field(-1.0, description="a text is unlikely below, by the mean of its tokens")
    no_speech_threshold: Number | None = Field(
        0.6, ge=0, le=1, description="probability beyond which an unlikely text is none"
    )
    stream: bool = Field(False, description="answer with server-sent events, a segment each")

    @property
    def temperatures(self) -> tuple[float, ...]:
        """What is tried one after the other."""
        return TEMPERATURES if self.temperature is None else (self.temperature,)
