import io

import numpy as np
import pytest

from contract.input_rules import SoundRule
from service.errors import TooLarge, Unacceptable, Unsupported
from service.inputs import sound_decoding
from service.inputs.sound_decoding import announced_samples, decode_sound, sounds_to_try

soundfile = pytest.importorskip("soundfile")
RULE = SoundRule(rate=16_000, samples=16_000, hop=160, frames=50)
MOST = 32_000
TONE = 0.4 * np.sin(2 * np.pi * 440 * np.arange(22_050) / 22_050)


SLOW = np.interp(np.arange(48_000) / 48_000, np.arange(22_050) / 22_050, TONE)


def encoded(kind="WAV", samples=TONE, rate=22_050, **options):
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=kind, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        ("WAV", {}, 1e-3),
        ("FLAC", {}, 1e-3),
        ("OGG", {"subtype": "VORBIS"}, 0.05),
        ("OGG", {"subtype": "OPUS", "rate": 48_000, "samples": SLOW}, 0.1),
        ("MP3", {}, 0.1),
    ],
)  # fmt: skip
def test_sounds_of_every_kind_become_samples_at_the_rate_of_the_model(kind, options, error):
    data = encoded(kind, **options)
    announced = announced_samples(data, RULE.rate, MOST)
    assert announced == (16_000 if kind == "WAV" else MOST)
    found = decode_sound(data, RULE, MOST, announced)
    assert found.rate == 16_000
    assert found.seconds == pytest.approx(1, abs=0.1)
    time = np.arange(len(found.samples)) / 16_000
    both = np.exp(-2j * np.pi * 440 * time) @ found.samples * 2 / len(found.samples)
    assert abs(both) == pytest.approx(0.4, abs=0.02 + error)


def test_channels_are_averaged():
    found = decode_sound(encoded("FLAC", np.stack([TONE, -TONE], 1)), RULE, MOST, MOST)
    assert np.abs(found.samples).max() < 1e-3


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "MP3"])
def test_a_sound_that_is_too_long_is_refused(kind):
    data = encoded(kind, np.tile(TONE, 3))
    with pytest.raises(TooLarge, match=r"^audio: at most 2 seconds, given "):
        decode_sound(data, RULE, MOST, announced_samples(data, RULE.rate, MOST))


def test_a_header_that_lies_is_found_out():
    data = encoded("FLAC")
    with pytest.raises(TooLarge, match="at most 2 seconds, given more"):
        decode_sound(data, RULE, MOST, 100)


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        (b"", Unsupported, "audio: must be a WAV, FLAC, OGG or MP3 file; send it as WAV"),
        (b"\x1aE\xdf\xa3webm", Unsupported, "audio: must be a WAV, FLAC, OGG or MP3 file; send it as WAV"),
        (encoded("FLAC")[:60], Unacceptable, "audio: must"),
        (b"OggS" + bytes(100), Unacceptable, "audio: must be a file that can be decoded"),
        (b"ID3" + bytes(2000), Unacceptable, "audio: must"),
    ],
)
def test_what_is_no_sound_is_refused(data, error, said):
    with pytest.raises(error) as refused:
        decode_sound(data, RULE, MOST, MOST)
    assert refused.value.detail.startswith(said)


def test_without_its_library_only_wav_is_read(monkeypatch):
    monkeypatch.delattr(sound_decoding, "soundfile")
    assert decode_sound(encoded(), RULE, MOST, MOST).seconds == 1
    with pytest.raises(Unsupported, match="needs the extra audio"):
        decode_sound(encoded("FLAC"), RULE, MOST, MOST)
    assert len(sounds_to_try()) == 1


def test_what_is_tried_before_a_decoder_is_confined_is_of_every_kind():
    for data in sounds_to_try():
        decode_sound(data, RULE, MOST, MOST)
