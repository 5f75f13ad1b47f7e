"""What is said, when, and by whom."""

import random
import shutil

import numpy as np
import pytest

from train.data.spoken_digits import (
    BREATHS,
    HEARD,
    HELD,
    LENGTH,
    LONGEST_PAUSE,
    LONGEST_START,
    MOST,
    RATE,
    Voice,
    in_a_room,
    speak,
    utterance,
    voices,
)  # fmt: skip

needs_voices = pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")


def tone(seconds, hertz=400.0):
    return np.sin(2 * np.pi * hertz * np.arange(round(seconds * RATE)) / RATE + 0.3).astype(np.float32)


def humming(seconds=0.3):
    """Return a voice whose digits are tones of their own lengths."""
    words = [tone(seconds + digit / 100) for digit in range(10)]
    return Voice(words, [((1, 2), tone(1.0)), ((3, 4, 5), tone(2.5))])


def test_words_stand_where_an_utterance_says():
    rng = random.Random(3)
    said = [utterance(rng, [humming()]) for _ in range(200)]
    quiet = [one for one in said if not one.samples[-1]]
    assert {len(one.digits) for one in said} == set(range(1, MOST + 1))
    for spoken in said:
        assert spoken.samples.shape == (LENGTH,)
        assert 0.05 < np.abs(spoken.samples).max() <= 1
        ends = [0.0] + [end for _, end in spoken.times]
        pauses = [start - end for (start, _), end in zip(spoken.times, ends, strict=False)]
        assert 0 <= pauses[0] <= LONGEST_START
        assert all(0 <= pause <= LONGEST_PAUSE for pause in pauses[1:])
        for digit, (start, end) in zip(spoken.digits, spoken.times, strict=True):
            assert abs(end - start - 0.3 - digit / 100) < 1e-6
    assert quiet
    loudness = 0
    for spoken in said:
        (start, end), *_ = spoken.times
        if spoken.times[0][0] > 0.05 and not spoken.samples[: round(start * RATE)].any():  # without noise
            first, last = round(start * RATE), round(end * RATE)
            assert np.abs(spoken.samples[first : first + 20]).max() > 0.3 * np.abs(spoken.samples[first:last]).max()
            loudness += 1
    assert loudness > 20


def test_too_long_words_are_left_out():
    rng = random.Random(1)
    said = [utterance(rng, [humming(1.1)]) for _ in range(50)]
    assert max(len(one.digits) for one in said) == 2
    assert max(end for one in said for _, end in one.times) <= LENGTH / RATE


def test_noise_ends_before_the_silence_behind_it():
    rng = random.Random(2)
    noisy = [one for one in (utterance(rng, [humming()]) for _ in range(100)) if one.samples[0]]
    assert 40 < len(noisy) < 95
    ends = [np.flatnonzero(one.samples)[-1] / RATE for one in noisy]
    assert all(end >= one.times[-1][1] - 0.01 for end, one in zip(ends, noisy, strict=True))
    assert np.ptp(ends) > 1


def test_what_is_said_in_one_breath_has_no_times():
    one = utterance(random.Random(1), [humming()], joined=False)
    assert one.digits in {(1, 2), (3, 4, 5)}
    assert one.times == []


def test_no_voice_is_both_heard_and_held_out():
    assert not {name.lower() for name in HEARD} & {name.lower() for name in HELD}
    assert len(HELD) > 10


@needs_voices
def test_voices_say_digits_without_silence_around_them():
    (voice,) = voices(random.Random(0), 1)
    assert len(voice.words) == 10
    assert len(voice.breaths) == BREATHS
    for word in voice.words:
        assert 0.1 < len(word) / RATE < 1.2
        assert min(abs(word[0]), abs(word[-1])) > 0
    assert np.corrcoef(*(np.abs(np.fft.rfft(one, 8192)) for one in voice.words[:2]))[0, 1] < 0.95


@needs_voices
def test_a_held_out_voice_is_another():
    heard, held = (voices(random.Random(0), 1, held=held)[0] for held in (False, True))
    assert len(heard.words[0]) != len(held.words[0])


def test_without_the_program_an_error_names_it(monkeypatch):
    monkeypatch.setattr("train.data.spoken_digits.PROGRAM", "no-such-program")
    with pytest.raises(ValueError, match="no-such-program: cannot say 'zero' as en-us"):
        speak("en-us", 50, 160, "zero")


def peak(samples):
    return np.abs(np.fft.rfft(samples, 8 * LENGTH)).argmax() / 8 / LENGTH * RATE


def test_a_voice_in_a_room_is_as_much_higher_as_it_is_faster():
    long = np.zeros(round(LENGTH * 1.2), np.float32)
    long[4000:12000] = tone(1.0)
    for seed in range(5):
        found = in_a_room(random.Random(seed), long)
        assert found.shape == (LENGTH,)
        assert abs(peak(found) - 1.2 * 400) < 2
        loud = np.flatnonzero(np.abs(found) > 0.5 * np.abs(found).max())
        assert abs(loud[0] - 4000 / 1.2) < 100


def test_a_room_makes_some_frequencies_louder_and_returns_an_echo():
    click = np.zeros(LENGTH, np.float32)
    click[1000] = 1
    rooms = [in_a_room(random.Random(seed), click) for seed in range(40)]
    colours = [np.abs(np.fft.rfft(room)) for room in rooms]
    assert np.mean([colour.max() / colour.min() > 3 for colour in colours]) > 0.5
    delays = [np.abs(room[1060:]).max() / np.abs(room).max() for room in rooms]
    assert 0.15 < np.mean(np.array(delays) > 0.1) < 0.7


def test_times_of_a_warped_voice_are_those_of_what_is_heard():
    rng = random.Random(4)
    said = [utterance(rng, [humming()], warped=True) for _ in range(100)]
    shares = []
    for spoken in said:
        inside = np.zeros(LENGTH, bool)
        for begin, end in spoken.times:
            assert 0 <= begin < end <= LENGTH / RATE + 1e-9
            inside[round(begin * RATE) : round(end * RATE)] = True
        power = np.square(spoken.samples)
        shares.append(power[inside].sum() / power.sum())
    assert np.median(shares) > 0.93
    assert {round((one.times[0][1] - one.times[0][0]) / (0.3 + one.digits[0] / 100), 1) for one in said} >= {0.8, 1.2}


def test_a_warped_voice_says_digits_apart_where_no_breath_fits():
    voice = Voice(humming().words, [((1, 2), tone(2.99))])
    rng = random.Random(0)
    assert {utterance(rng, [voice], joined=False, warped=True).digits == (1, 2) for _ in range(30)} == {True, False}
