"""Arrays as sounds: what the file says is what the array was."""

import io
import wave

import numpy as np
import pytest
from regard.errors import BadInput
from regard.sounds import wav_of


def read(content):
    with wave.open(io.BytesIO(content)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return samples.reshape(-1, file.getnchannels()), file.getframerate()


@pytest.mark.parametrize("shape", [(7,), (7, 1), (7, 2)])
def test_floats_and_whole_numbers_are_written_with_their_rate(shape):
    whole = np.random.default_rng(0).integers(-32768, 32768, shape, np.int16)
    for array in (whole, (whole / 32768).astype(np.float32), whole / 32768, whole.astype(">i2")):
        samples, rate = read(wav_of(array, 22_050))
        assert rate == 22_050
        assert np.array_equal(samples, whole.reshape(7, -1))


def test_the_largest_floats_do_not_turn_round():
    assert read(wav_of(np.array([1.0, -1.0]), np.int64(8000)))[0].tolist() == [[32767], [-32768]]


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((2, 9)), r"\(samples,\) or \(samples, 1 to 8\), given \(2, 9\)"),
        (np.zeros((0, 2)), r"given \(0, 2\)"),
        (np.zeros((1, 2, 2)), r"given \(1, 2, 2\)"),
        (np.full(3, 2.0), "floats must be from -1 to 1"),
        (np.full(3, np.nan), "floats must be from -1 to 1"),
        (np.zeros(3, np.int32), "int16 or floats, given int32"),
    ],
)
def test_what_is_no_sound_is_refused(array, said):
    with pytest.raises(BadInput, match=f"^sound: .*{said}"):
        wav_of(array, 16_000)


@pytest.mark.parametrize("rate", [0, -1, 192_001, 16_000.5, True, "16000", None])
def test_a_rate_is_samples_a_second(rate):
    with pytest.raises(BadInput, match=r"^rate: of an array must be its samples a second"):
        wav_of(np.zeros(3), rate)
