"""WAV files of every kind that is read, written here byte by byte, and files that are broken or lie."""

import struct

import numpy as np
import pytest

from service.errors import Refusal, Unacceptable, Unsupported
from service.inputs.wav import decode_wav

TONE = 0.5 * np.sin(np.arange(800) / 20)


def chunk(name, content, length=None):
    return struct.pack("<4sI", name, len(content) if length is None else length) + content + b"\0" * (len(content) % 2)


def file(samples, *, tag=1, bits=16, channels=1, rate=8000, frame=None, before=b"", extensible=False, length=None):
    frame = channels * bits // 8 if frame is None else frame
    form = struct.pack("<HHIIHH", 0xFFFE if extensible else tag, channels, rate, rate * frame, frame, bits)
    if extensible:
        form += struct.pack("<HHI", 22, bits, 0) + struct.pack("<H", tag) + b"\0" * 14
    chunks = chunk(b"fmt ", form) + before + chunk(b"data", samples, length)
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def written(values, bits, tag=1):
    if tag == 3:
        return values.astype(f"<f{bits // 8}").tobytes()
    if bits == 8:
        return (np.round(values * 127) + 128).astype(np.uint8).tobytes()
    whole = np.round(values * (2 ** (bits - 1) - 1)).astype("<i4")
    if bits == 24:
        return whole.reshape(-1).view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
    return whole.astype(f"<i{bits // 8}").tobytes()


@pytest.mark.parametrize("extensible", [False, True])
@pytest.mark.parametrize(("tag", "bits", "error"), [
    (1, 8, 0.01), (1, 16, 1e-4), (1, 24, 1e-6), (1, 32, 1e-6), (3, 32, 1e-7), (3, 64, 1e-7),
])  # fmt: skip
def test_samples_of_every_width_are_read(tag, bits, error, extensible):
    found, rate = decode_wav(file(written(TONE, bits, tag), tag=tag, bits=bits, extensible=extensible))
    assert rate == 8000
    np.testing.assert_allclose(found, TONE, atol=error)


def test_channels_are_averaged():
    both = np.stack([TONE, -TONE / 2], 1)
    found, _ = decode_wav(file(written(both, 16), channels=2))
    np.testing.assert_allclose(found, TONE / 4, atol=1e-4)
    many = np.tile(TONE[:, None], (1, 8))
    np.testing.assert_allclose(decode_wav(file(written(many, 24), bits=24, channels=8))[0], TONE, atol=1e-6)


def test_other_chunks_are_passed_over_and_a_stream_ends_with_its_file():
    before = chunk(b"LIST", b"odd") + chunk(b"fact", b"1234")
    for length in (None, 0, 0xFFFFFFFF, 10**9):
        found, _ = decode_wav(file(written(TONE, 16), before=before, length=length))
        np.testing.assert_allclose(found, TONE, atol=1e-4)


NAN = np.where(np.arange(800) == 7, np.nan, TONE)


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        (b"RIFX", Unsupported, "audio: must be a WAV file"),
        (b"", Unsupported, "audio: must be a WAV file"),
        (file(b""), Unacceptable, "audio: must hold samples, given none"),
        (file(written(TONE, 16))[:14], Unacceptable, "audio: must hold samples, given none"),
        (b"RIFF\0\0\0\0WAVE" + chunk(b"data", b"1234"), Unacceptable, "audio: must say how its samples are written"),
        (b"RIFF\0\0\0\0WAVE" + chunk(b"fmt ", b"1234"), Unacceptable, "audio: must say how its samples are written in"),
        (file(written(TONE, 16), tag=6), Unsupported, "audio: must have samples of 8, 16, 24 or 32 bits"),
        (file(written(TONE, 16), bits=12), Unsupported, "audio: must have samples of 8, 16, 24 or 32 bits"),
        (file(written(TONE, 16), channels=9), Unacceptable, "audio: must have 1 to 8 channels, given 9"),
        (file(written(TONE, 16), channels=0), Unacceptable, "audio: must have 1 to 8 channels, given 0"),
        (
            file(written(TONE, 16), rate=100),
            Unacceptable,
            "audio: must have 4000 to 192000 samples a second, given 100",
        ),
        (file(written(TONE, 16), frame=7), Unacceptable, "audio: must have frames of 2 bytes, given 7"),
        (file(written(NAN, 32, 3), tag=3, bits=32), Unacceptable, "audio: must have samples that are numbers"),
    ],
)
def test_what_cannot_be_read_is_refused(data, error, said):
    with pytest.raises(error) as refused:
        decode_wav(data)
    assert refused.value.detail.startswith(said)


def test_a_file_that_is_cut_or_changed_anywhere_is_read_or_refused():
    whole, draw = file(written(TONE[:50], 16), before=chunk(b"LIST", b"ab")), np.random.default_rng(0)
    for end in range(len(whole)):
        spoilt = bytearray(whole)
        spoilt[draw.integers(len(whole))] = draw.integers(256)
        for data in (whole[:end], bytes(spoilt)):
            try:
                found, _ = decode_wav(data)
            except Refusal:
                continue
            assert np.isfinite(found).all()
