"""Speech: what was said in a sound, with the seconds in which it was."""

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from starlette.responses import Response

from service.answering.call import Answered, Call
from service.answering.predictions import predict
from service.answering.transcriptions import SegmentEvents as Events
from service.answering.transcriptions import transcribe
from service.api import responses
from service.api.pipelines.asked import Asked
from service.api.pipelines.parameters import parse_parameters
from service.api.pipelines.sounds import SPEECH, SpeechRecognitionParameters, recognized
from service.api.reading.request_parsing import ParsedRequest
from service.api.tasks.answers import Answer, document
from service.api.tasks.task import Json, Task
from service.api.tasks.tensors import Output, Row
from service.http.server_sent_events import event
from service.options.base import RequestOptions, parse
from service.options.transcription import RecognizeOptions, TranscribeOptions
from service.repository.models.recognizer import Recognizer
from service.repository.models.served_model import ServedModel
from service.repository.models.transcriber import Transcriber
from service.repository.models.transcript import Segment, Transcript
from service.store.stored_request import StoredRequest

T = TypeVar("T")
Either: TypeAlias = Transcriber | Recognizer
"""What writes: with a decoder, or with frames."""


class Transcription(Task[Either]):
    """What was said in a sound."""

    endpoint = "transcribe"
    model = ServedModel  # type: ignore[assignment] # one of the two
    about = "Write what was said in every sound, with times if asked for; with `stream`, send segments as they come."

    def options(self, served: Either) -> type[RequestOptions]:
        """Return the options of transcription."""
        return RecognizeOptions if isinstance(served, Recognizer) else TranscribeOptions

    def attention_options(self, served: Either) -> type[RequestOptions]:
        """Return the same: attention is of what is written."""
        return self.options(served)

    def stored_options(self, served: Either, stored: StoredRequest, parsed: ParsedRequest) -> RequestOptions:
        """Return the options of a request, since what was written is known."""
        return self.options(served)(priority=parsed.options(RequestOptions).priority)

    async def answer(self, call: Call[Either], options: RequestOptions) -> Response:
        """Transcribe."""
        assert isinstance(options, RecognizeOptions)  # noqa: S101 # its own
        return await write(call, options, shown(options), Answer(call, options), SegmentEvents(call.served))

    async def attend(
        self, call: Call[Either], options: RequestOptions, stored: StoredRequest | None = None
    ) -> Response:
        """Transcribe, or take the stored targets, and explain them."""
        targets = stored.targets if stored else None
        return await write(call, options, None, Answer(call, options), targets=targets)

    async def answer_pipeline(self, asked: Asked, served: Either) -> Response:
        """Return what was said, with chunks if times are asked for."""
        parameters = parse_parameters(SpeechRecognitionParameters, asked.given, SPEECH, served.manifest)
        own = parameters.asked

        async def respond(answered: Answered[Json]) -> Response:
            return responses.respond(answered.shown if asked.several else answered.shown[0])

        call = asked.call(served)
        return await write(call, fitted(served, own), functools.partial(recognized, options=own), respond)

    def outputs(self, served: Either) -> list[Output]:
        """Return the text and the language."""
        return [
            Output("text", "BYTES", (-1, 1)),
            Output("language", "BYTES", (-1, 1)),
            Output("duration", "FP32", (-1, 1)),
        ]

    async def infer(
        self,
        call: Call[Either],
        options: RequestOptions,
        respond: Callable[[Answered[Row]], Awaitable[Response]],
    ) -> Response:
        """Transcribe, as rows of tensors."""

        def row(transcript: Transcript) -> Row:
            return {
                "text": transcript.text.encode(),
                "language": (transcript.language or "").encode(),
                "duration": np.array([transcript.duration], np.float32),
            }

        return await write(call, options, row, respond)


async def write(
    call: Call[Any],
    options: RequestOptions,
    show: Callable[[Transcript], T] | None,
    respond: Callable[[Answered[T]], Awaitable[Response]],
    events: Events[T] | None = None,
    targets: Sequence[Sequence[int]] | None = None,
) -> Response:
    """Return what `respond` makes of what was said, whichever way the model writes it."""
    served = call.served
    if isinstance(served, Recognizer):
        return await predict(call, options, show and (lambda found: show(served.transcript(found))), respond)
    assert isinstance(options, TranscribeOptions)  # noqa: S101 # its own
    return await transcribe(call, options, show, respond, events, targets)


def fitted(served: ServedModel, options: TranscribeOptions) -> RecognizeOptions:
    """Return options of transcription as a model has them. Raises Unacceptable for one that it does not have."""
    if not isinstance(served, Recognizer):
        return options
    return parse(RecognizeOptions, options.model_dump(exclude_defaults=True), strings=False)


def shown(options: RecognizeOptions) -> Callable[[Transcript], Json]:
    """Return what shows what was said, with words or segments as the options ask."""

    def show(transcript: Transcript) -> Json:
        found: Json = {
            "text": transcript.text,
            "language": transcript.language,
            "duration": round(transcript.duration, 3),
        }
        if options.timestamps == "word":
            found["words"] = [word.json() for word in transcript.words]
        if options.timestamps != "none":
            found["segments"] = [of_segment(one) for one in transcript.segments]
        return found

    return show


def of_segment(segment: Segment) -> Json:
    """Return a segment as an answer holds it."""
    return {
        "start": round(segment.start, 2),
        "end": round(segment.end, 2),
        "text": segment.text,
        "log_probability": segment.log_probability,
        "no_speech_probability": segment.silent,
        "compression_ratio": segment.compression,
        "temperature": segment.temperature,
    }


@dataclass(frozen=True)
class SegmentEvents:
    """Writes the events `segment`, `done` and `error` of a stream."""

    served: ServedModel

    def segment(self, heard: Segment) -> bytes:
        """Return the event of a segment."""
        words = {"words": [word.json() for word in heard.words]} if heard.words else {}
        return event("segment", of_segment(heard) | words)

    def done(self, answered: Answered[dict[str, object]]) -> bytes:
        """Return the last event, with the whole answer."""
        return event("done", document(self.served, answered))

    def failed(self, status: int, detail: str) -> bytes:
        """Return the event of a failure."""
        return event("error", {"status": status, "detail": detail})
