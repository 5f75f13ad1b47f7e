"""Subtitles of what was said: SubRip and WebVTT."""

import re
from collections.abc import Sequence

from service.repository.models.transcript import Segment

BLANK = re.compile(r"\s*\n\s*")


def srt(segments: Sequence[Segment]) -> str:
    """Return segments as SubRip: numbered from 1, with times such as 00:01:02,345."""
    cues = (
        f"{number}\n{_time(one.start, ',')} --> {_time(max(one.start, one.end), ',')}\n{_line(one.text)}\n\n"
        for number, one in enumerate(segments, 1)
    )
    return "".join(cues)


def vtt(segments: Sequence[Segment]) -> str:
    """Return segments as WebVTT, whose texts hold neither & nor < (W3C WebVTT, section 4.1)."""
    cues = (
        f"{_time(one.start, '.')} --> {_time(max(one.start, one.end), '.')}\n"
        f"{_line(one.text).replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')}\n\n"
        for one in segments
    )
    return "WEBVTT\n\n" + "".join(cues)


def _time(seconds: float, mark: str) -> str:
    """Return hours, minutes, seconds and milliseconds."""
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{mark}{thousandths:03}"


def _line(text: str) -> str:
    """Return a text without what would end a cue, an empty line, or be taken for its times."""
    return BLANK.sub(" ", text.replace("\r", "\n").strip()).replace("-->", "->")
