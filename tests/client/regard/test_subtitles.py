"""Subtitles, by the letter of their formats."""

import pytest
from regard.subtitles import Cue, lines_of, srt, vtt

TEXT = "We met, and then we left. Long afterwards"
WORDS = [
    Cue(0.0, 0.3, "We"), Cue(0.3, 0.5, "met,"), Cue(0.6, 0.7, "and"), Cue(0.7, 0.9, "then"), Cue(0.9, 1.0, "we"),
    Cue(1.0, 1.5, "left."), Cue(2.5, 2.9, "Long"), Cue(2.9, 3.7, "afterwards"),
]  # fmt: skip


def test_srt_and_vtt_are_as_their_players_read_them():
    cues = [Cue(0.0, 1.5, " Salt & <pepper>\n--> twice"), Cue(3661.0714, 3661.0714, "End")]
    assert srt(cues) == (
        "1\n00:00:00,000 --> 00:00:01,500\nSalt & <pepper> --> twice\n\n2\n01:01:01,071 --> 01:01:01,072\nEnd\n\n"
    )
    assert vtt(cues) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nSalt &amp; &lt;pepper&gt; --&gt; twice\n\n"
        "01:01:01.071 --> 01:01:01.072\nEnd\n\n"
    )
    assert (srt([]), vtt([])) == ("", "WEBVTT\n\n")


def test_a_time_that_is_rounded_up_fills_the_minute():
    assert srt([Cue(59.9996, 3599.9999, "x")]).startswith("1\n00:01:00,000 --> 01:00:00,000\n")


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (42, [(0.0, 1.5, "We met, and then we left."), (2.5, 3.7, "Long afterwards")]),
        (16, [(0.0, 0.9, "We met, and then"), (0.9, 1.5, "we left."), (2.5, 3.7, "Long afterwards")]),
        (1, [tuple(word) for word in WORDS]),
    ],
)
def test_words_are_lines_that_end_at_their_width_and_at_pauses(width, lines):
    assert lines_of(WORDS, TEXT, width) == lines


def test_words_that_no_space_parts_stay_together():
    words = [Cue(0.0, 0.2, "你"), Cue(0.2, 0.4, "好。"), Cue(0.4, 0.5, "你")]
    assert lines_of(words, "你好。你", 42) == [(0.0, 0.5, "你好。你")]
