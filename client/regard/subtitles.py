"""Subtitles of what was said: cues as SubRip (SRT) and as WebVTT (W3C 2019)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

PAUSE = 1.0
"""Seconds between two words at which a line ends."""
TICK = 0.001
"""The seconds that a cue has at least: one that ends where it begins is not shown."""
ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Cue(NamedTuple):
    """A line that is shown for some time, in seconds."""

    start: float
    end: float
    text: str


def lines_of(words: Sequence[Cue], text: str, width: int) -> list[Cue]:
    """Return words as lines of at most `width` characters; one that is longer stands alone.

    A line has its words as they stand in the `text`, which some languages write without spaces, and ends at a pause.
    """
    lines, at, first = list[Cue](), 0, 0
    for word in words:
        place = max(text.find(word.text, at), at)
        at = place + len(word.text)
        if lines and word.start - lines[-1].end < PAUSE and at - first <= width:
            lines[-1] = Cue(lines[-1].start, word.end, text[first:at])
        else:
            first = place
            lines.append(Cue(word.start, word.end, text[first:at]))
    return lines


def srt(cues: Iterable[Cue]) -> str:
    """Return cues as SubRip."""
    return "".join(f"{number}\n{_times(cue, ',')}\n{_line(cue)}\n\n" for number, cue in enumerate(cues, 1))


def vtt(cues: Iterable[Cue]) -> str:
    """Return cues as WebVTT."""
    return "WEBVTT\n\n" + "".join(f"{_times(cue, '.')}\n{_line(cue).translate(ESCAPED)}\n\n" for cue in cues)


def _line(cue: Cue) -> str:
    return " ".join(cue.text.split())


def _times(cue: Cue, point: str) -> str:
    return f"{_clock(cue.start, point)} --> {_clock(max(cue.end, cue.start + TICK), point)}"


def _clock(seconds: float, point: str) -> str:
    whole, part = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{part:03}"
