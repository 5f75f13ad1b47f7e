"""What a transcription takes and answers, and the events of its streams."""

from pydantic import Field

from service.api.openapi.answers import Answer, Result
from service.api.openapi.components import COMPONENTS, Part, any_of
from service.api.openapi.predictions import prediction
from service.api.openapi.requests import SOUNDS, Sounds, audio_form, query, raw_or
from service.api.openapi.tasks.written import StreamFailed
from service.api.pipelines.sounds import SpeechRecognitionParameters
from service.options.attention import AttentionOptions
from service.options.base import RequestOptions
from service.options.transcription import TranscribeOptions


class SpokenWord(Part):
    """A word, and the seconds in which it was heard."""

    word: str
    start: float
    end: float
    probability: float = Field(description="the mean of its tokens")
    heard: float | None = Field(None, description="with libra: share of the sound in what it rests on")


class SpokenSegment(Part):
    """What was said without a break, in seconds; the event `segment` of a stream."""

    start: float
    end: float
    text: str
    log_probability: float | None = Field(description="the mean of the tokens of its window")
    no_speech_probability: float | None = Field(description="of its window; each is null of a model that does not say")
    compression_ratio: float | None = Field(description="of the tokens of its window; large where they repeat")
    temperature: float
    words: list[SpokenWord] | None = Field(None, description="of a stream")


class TranscribedResult(Result):
    """What was said in one sound."""

    text: str
    language: str | None = Field(description="null of a model that knows one")
    duration: float = Field(description="seconds")
    words: list[SpokenWord] | None = Field(None, description="where asked for")
    segments: list[SpokenSegment] | None = Field(None, description="where times are asked for")


class Transcribed(Answer):
    """Answer of transcribe, and the event `done` of its stream."""

    results: list[TranscribedResult] = Field(description="one per input, in order")


class TranscribeSounds(TranscribeOptions, Sounds):
    """Sounds of speech."""


class SpeechChunk(Part):
    """A segment or a word of a speech."""

    text: str
    timestamp: tuple[float, float] = Field(description="seconds")


class RecognizedSpeech(Part):
    """What was said in a sound."""

    text: str
    chunks: list[SpeechChunk] | None = Field(None, description="with return_timestamps")


SENT = audio_form()
OPERATION = prediction(
    Transcribed,
    raw_or(COMPONENTS.schema(TranscribeSounds), SENT, SOUNDS),
    query(RequestOptions, TranscribeOptions, AttentionOptions),
)
OPERATION["responses"][200]["content"]["text/event-stream"] = {
    "schema": {
        **any_of(SpokenSegment, Transcribed, StreamFailed),
        "description": "the data of events segment, done, error",
    }
}
NAME = "transcribe"
PARAMETERS = (SpeechRecognitionParameters,)
ANSWERS = (RecognizedSpeech,)
