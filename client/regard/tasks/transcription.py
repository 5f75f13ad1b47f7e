"""What was said in a sound, with the seconds in which it was."""

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regard import subtitles
from regard.errors import BadInput
from regard.maps import Json
from regard.models import Description
from regard.results import Result, described
from regard.subtitles import Cue
from regard.tasks.task import CommonOptions, Task

WIDTH = 42
"""Characters of a line of subtitles, as broadcasters have them."""
SOUND_BYTES = 3_000_000
"""A sound of more bytes is not played in a notebook, which keeps what it shows."""
LIT = "background:rgba(80,150,255,{:.2f});border-radius:3px;padding:0 2px"
DEEPEST = 0.5
"""How much a word of probability 1 is tinted."""


class TranscribeOptions(CommonOptions, total=False):
    """What `transcribe` takes."""

    language: str
    """That is spoken, such as "en" (found by the model)."""
    task: Literal["transcribe", "translate"]
    """"translate": into English ("transcribe")."""
    timestamps: Literal["none", "word", "segment"]
    """What is answered with the seconds in which it was heard ("none")."""
    prompt: str
    """Text as if heard before: names, and a style (none)."""
    temperature: float
    """Divides the logits before a token is drawn (0, and more where a text repeats itself or is unlikely)."""
    num_beams: int
    """Hypotheses of a beam search (the model's)."""
    seed: int
    """The same seed draws the same tokens (another each time)."""
    condition_on_previous_text: bool
    """Whether each window is heard as what follows the one before (the model's)."""
    compression_ratio_threshold: float | None
    """A text that packs better repeats itself, and is heard again; None: never (the model's)."""
    logprob_threshold: float | None
    """A text whose tokens are less likely on average is heard again; None: never (the model's)."""
    no_speech_threshold: float | None
    """A window that is silence with this probability, and unlikely, is left out; None: never (the model's)."""


@dataclass(frozen=True)
class SpokenWord:
    """A word, and the seconds in which it was heard."""

    word: str
    start: float
    end: float
    probability: float
    """The mean of its tokens."""
    heard: float | None = None
    """With attention by `libra`: how much of what the word rests on is the sound, and not what was written before."""


@dataclass(frozen=True)
class Segment:
    """What was said without a break, in seconds."""

    start: float
    end: float
    text: str
    words: Sequence[SpokenWord]
    """Of a stream with `timestamps="word"`; else `Transcription.words` has them."""
    log_probability: float
    """The mean of the tokens."""
    no_speech_probability: float | None
    compression_ratio: float
    temperature: float


@dataclass(frozen=True, eq=False)
class Transcription(Result):
    """What was said in a sound. In a notebook it shows its words, lit by how sure they are, and plays the sound."""

    text: str
    language: str | None
    """None of a model of one language."""
    duration: float
    """Seconds of the sound."""
    words: Sequence[SpokenWord] = ()
    """With `timestamps="word"`."""
    segments: Sequence[Segment] = ()
    """With `timestamps="word"` or `"segment"`."""

    def srt(self, width: int = WIDTH) -> str:
        """Return subtitles as SubRip: lines of at most `width` characters of words, or segments where words have none.

        With a `width` of 1 each word is a line. Raises BadInput of an answer without times.
        """
        return subtitles.srt(self._cues("srt", width))

    def vtt(self, width: int = WIDTH) -> str:
        """Return the same as WebVTT."""
        return subtitles.vtt(self._cues("vtt", width))

    def _cues(self, verb: str, width: int) -> Sequence[Cue]:
        if self.words:
            return subtitles.lines_of([Cue(one.start, one.end, one.word) for one in self.words], self.text, width)
        if "segments" not in self.json:
            raise BadInput(f'{verb}: needs times; ask with timestamps="word" or timestamps="segment"')
        return [Cue(one.start, one.end, one.text) for one in self.segments]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {"text/plain": described(self), "text/html": self._html()}

    def _page(self) -> str:
        title = html.escape(described(self))
        return f'<!doctype html>\n<html>\n<meta charset="utf-8">\n<title>{title}</title>\n{self._html()}\n</html>\n'

    def _html(self) -> str:
        """Return the sound, if it is small, and what was said."""
        said = html.escape(self.text)
        if self.words:
            said = " ".join(map(_lit, self.words))
        elif self.segments:
            said = "<br>".join(f"{_span(one)} {html.escape(one.text)}" for one in self.segments)
        return f'{_player(self.asked.given.sound, self.asked.given.media_type)}<p dir="auto">{said}</p>'

    @classmethod
    def _read(cls, json: Json) -> Json:
        return {
            "text": json["text"],
            "language": json["language"],
            "duration": json["duration"],
            "words": _words_of(json),
            "segments": [read_segment(one) for one in json.get("segments", ())],
        }

    def _words(self) -> str:
        return self.text


def _words_of(json: Json) -> list[SpokenWord]:
    return [
        SpokenWord(one["word"], one["start"], one["end"], one["probability"], one.get("heard"))
        for one in json.get("words", ())
    ]


def read_segment(json: Json) -> Segment:
    """Return a segment from the service's JSON. Raises KeyError or TypeError."""
    names = ("log_probability", "no_speech_probability", "compression_ratio", "temperature")
    given = (json[name] for name in names)
    return Segment(json["start"], json["end"], json["text"], _words_of(json), *given)


def _span(one: SpokenWord | Segment) -> str:
    return f"{one.start:.2f}–{one.end:.2f} s"  # noqa: RUF001 # as a span of time is written


def _lit(one: SpokenWord) -> str:
    style = LIT.format(DEEPEST * one.probability)
    return f'<span style="{style}" title="{_span(one)}, {one.probability:.0%}">{html.escape(one.word)}</span>'


def _player(sound: bytes | None, media_type: str) -> str:
    if not sound or len(sound) > SOUND_BYTES:
        return ""
    return f'<audio controls src="data:{media_type};base64,{base64.b64encode(sound).decode()}"></audio>'


def _is_repeatable(model: Description, options: Json) -> bool:
    """Return whether nothing is drawn at random, as where a text is unlikely and no temperature is given."""
    return options.get("seed") is not None or options.get("temperature") == 0


TRANSCRIBE = Task(
    "transcribe",
    Transcription,
    of_answer=("timestamps",),
    is_repeatable=_is_repeatable,
    event="segment",
    read_event=read_segment,
)
