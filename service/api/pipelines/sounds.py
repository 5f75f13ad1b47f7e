"""What was said in sounds, as Hugging Face's clients ask for it and as they take it."""

from typing import Annotated, Literal

from pydantic import Field, PlainValidator, field_validator
from pydantic_core import PydanticCustomError

from service.api.pipelines.parameters import GENERATION, Refused
from service.errors import Unacceptable
from service.options.transcription import TEMPERATURES, TranscribeOptions
from service.repository.models.transcript import Transcript

WHOLE = "windows are as long as the model hears at once"
SPEECH: Refused = {
    **GENERATION,
    "batch_size": ((), "the service makes its batches"),
    "chunk_length_s": ((0, 30), WHOLE),
    "stride_length_s": ((), WHOLE),
    "max_new_tokens": ((), "the text of a window ends where the model ends it"),
    "return_language": ((False,), "our own endpoint says the language"),
    "top_k": ((), "texts are drawn by temperature alone"),
    "top_p": ((), "texts are drawn by temperature alone"),
}


def _timestamps(given: object) -> object:
    if not isinstance(given, bool) and given != "word":
        raise PydanticCustomError("timestamps", 'must be true, false or "word"')
    return given


class SpeechRecognitionParameters(TranscribeOptions):
    """Parameters of automatic-speech-recognition."""

    return_timestamps: Annotated[
        bool | Literal["word"], PlainValidator(_timestamps, json_schema_input_type=bool | Literal["word"])
    ] = Field(False, description="chunks: segments (true), or words")
    condition_on_prev_tokens: bool | None = Field(None, description="as condition_on_previous_text")
    do_sample: bool | None = Field(None, description="draw tokens (true), or take the likeliest (false)")

    @field_validator("temperature", mode="before")
    @classmethod
    def read_temperatures(cls, given: object) -> object:
        """Return None for the temperatures that are tried where a request says none."""
        return None if given == list(TEMPERATURES) else given

    @property
    def asked(self) -> TranscribeOptions:
        """The same of our own endpoint. Raises Unacceptable for parameters that exclude each other."""
        own: dict[str, object] = {}
        if self.return_timestamps:
            own["timestamps"] = "word" if self.return_timestamps == "word" else "segment"
        if self.condition_on_prev_tokens is not None:
            own["condition_on_previous_text"] = self.condition_on_prev_tokens
        if self.do_sample is not None:
            own["temperature"] = float(self.do_sample) if self.temperature is None else self.temperature
            if self.do_sample != (own["temperature"] != 0):
                raise Unacceptable("do_sample: must be true where temperature is above 0, and only there")
        return TranscribeOptions(**self.model_dump(include=set(TranscribeOptions.model_fields)) | own)


def recognized(transcript: Transcript, options: TranscribeOptions) -> dict[str, object]:
    """Return what was said, with chunks if times are asked for. Their texts keep the spaces before them."""
    if options.timestamps == "none":
        return {"text": transcript.text}
    parts = transcript.words if options.timestamps == "word" else transcript.segments
    chunks = [{"text": one.text, "timestamp": [round(one.start, 2), round(one.end, 2)]} for one in parts]
    return {"text": transcript.text, "chunks": chunks}
