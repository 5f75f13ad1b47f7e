"""What OpenAI's endpoints of sounds answer: documents, texts, subtitles, and the events of a stream."""

import math
from collections.abc import Callable

from starlette.responses import Response

from service.answering.call import Answered
from service.api import responses
from service.api.openai.errors import Errors
from service.api.openai.speech_fields import TranscriptionsOptions, TranslationsOptions
from service.api.openai.subtitles import srt, vtt
from service.http.server_sent_events import event
from service.options.spoken_languages import NAMES
from service.repository.models.transcript import Segment, Transcript

Json = dict[str, object]
ENGLISH = "en"
"""The language of models that know one."""
PLAIN, VTT = "text/plain", "text/vtt"
TEXTS: dict[str, tuple[str, Callable[[Transcript], str]]] = {
    "text": (PLAIN, lambda one: one.text + "\n"),
    "srt": (PLAIN, lambda one: srt(one.segments)),
    "vtt": (VTT, lambda one: vtt(one.segments)),
}
"""The media type and the writer of each form of an answer that is not JSON."""


def write(transcript: Transcript, options: TranslationsOptions) -> Response:
    """Return what was said, in the form that is asked for."""
    if options.response_format in TEXTS:
        media, text_of = TEXTS[options.response_format]
        return Response(text_of(transcript), media_type=media)
    document = {"text": transcript.text, "usage": _usage(transcript)}
    return responses.respond(document | (_verbose(transcript, options) if options.response_format != "json" else {}))


def _usage(transcript: Transcript) -> Json:
    return {"type": "duration", "seconds": math.ceil(transcript.duration)}


def _verbose(transcript: Transcript, options: TranslationsOptions) -> Json:
    asked = options.asked
    parts = options.timestamp_granularities if isinstance(options, TranscriptionsOptions) else ("segment",)
    code = transcript.language or asked.language or ENGLISH
    found: Json = {
        "task": asked.task,
        "language": NAMES.get(code, code),
        "duration": round(transcript.duration, 3),
    }
    if "word" in parts:
        shown = [one.json() for one in transcript.words]
        found["words"] = [{name: one[name] for name in ("word", "start", "end")} for one in shown]
    if "segment" in parts:
        found["segments"] = [_segment(number, one) for number, one in enumerate(transcript.segments)]
    return found


def _segment(number: int, one: Segment) -> Json:
    return {
        "id": number,
        "seek": round(one.window * 100),  # in the hundredths of a second of openai-whisper's frames
        "start": round(one.start, 2),
        "end": round(one.end, 2),
        "text": one.text,
        "tokens": one.tokens,
        "temperature": one.temperature,
        "avg_logprob": one.log_probability,
        "compression_ratio": one.compression,
        "no_speech_prob": one.silent,
    }


class SpeechEvents:
    """Writes the events of a stream of one sound: a delta for each segment, which make up the text, and its end."""

    def __init__(self, errors: Errors) -> None:
        self._errors = errors
        self._text = self._said = ""

    def segment(self, heard: Segment) -> bytes:
        """Return the delta of a segment. Spaces at its end come with the next one, since the text has none there."""
        self._text += heard.text
        said = self._text.strip()
        delta, self._said = said[len(self._said) :], said
        return event("", {"type": "transcript.text.delta", "delta": delta})

    def done(self, answered: Answered[Transcript]) -> bytes:
        """Return the event of the whole text, and the mark of the end."""
        (transcript,) = answered.shown
        body = {"type": "transcript.text.done", "text": transcript.text, "usage": _usage(transcript)}
        return event("", body) + b"data: [DONE]\n\n"

    def failed(self, status: int, detail: str) -> bytes:
        """Return the event of a failure."""
        return event("", self._errors.document(status, detail))
