"""Subtitles of what was said, and the events of a stream, without a model."""

import json

import pytest

from service.api.openai.errors import Errors
from service.api.openai.speech_documents import SpeechEvents
from service.api.openai.subtitles import srt, vtt
from service.repository.models.transcript import Segment


def segment(text, start=0.0, end=1.0):
    return Segment(start, end, text, (), -0.5, None, 1.0, 0.0)


SAID = [
    segment(" Yes & <b>no</b>", 0.0, 1.5),
    segment(" a\n\n\r\nb --> c", 59.9996, 3723.004),
    segment(" end", 7.0, 6.0),
]


def test_subrip_is_numbered_and_has_commas_and_no_empty_line_in_a_text():
    assert srt(SAID) == (
        "1\n00:00:00,000 --> 00:00:01,500\nYes & <b>no</b>\n\n"
        "2\n00:01:00,000 --> 01:02:03,004\na b -> c\n\n"
        "3\n00:00:07,000 --> 00:00:07,000\nend\n\n"
    )
    assert srt([]) == ""


def test_webvtt_has_points_and_escapes_what_would_be_markup():
    assert vtt(SAID) == (
        "WEBVTT\n\n"
        "00:00:00.000 --> 00:00:01.500\nYes &amp; &lt;b&gt;no&lt;/b&gt;\n\n"
        "00:01:00.000 --> 01:02:03.004\na b -&gt; c\n\n"
        "00:00:07.000 --> 00:00:07.000\nend\n\n"
    )
    assert vtt([]) == "WEBVTT\n\n"


@pytest.mark.parametrize("texts", [[" Hello", " world. "], ["a ", "  ", "b"], ["", " x"], [" "], ["x", "\n"]])
def test_deltas_make_up_the_text_whatever_spaces_are_around_them(texts):
    events = SpeechEvents(Errors())
    sent = [events.segment(segment(text)) for text in texts]
    deltas = [json.loads(one.removeprefix(b"data: "))["delta"] for one in sent]
    assert "".join(deltas) == "".join(texts).strip()


def test_a_stream_that_fails_ends_with_an_error_of_openais():
    said = json.loads(SpeechEvents(Errors()).failed(429, "queue: full").removeprefix(b"data: "))
    assert said == {
        "error": {"message": "queue: full", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"}
    }
