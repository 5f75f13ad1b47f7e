import numpy as np
import pytest

from service.inputs.resampling import resample

RATES = [4000, 8000, 11_025, 22_050, 44_100, 48_000, 96_000, 192_000]


def tone(rate, hertz, seconds=0.5):
    time = np.arange(int(rate * seconds)) / rate
    return (np.sin(2 * np.pi * hertz * time) * np.sin(np.pi * time / seconds) ** 2).astype(np.float32)


@pytest.mark.parametrize("rate", RATES)
def test_a_tone_is_the_same_tone_at_another_rate(rate):
    for hertz in (50, 440, 1300):
        found = resample(tone(rate, hertz), rate, 16_000)
        assert len(found) == -(-int(rate * 0.5) * 16_000 // rate)
        np.testing.assert_allclose(found[:8000], tone(16_000, hertz)[: len(found[:8000])], atol=1e-4)


def test_what_the_lower_rate_cannot_hold_is_left_out():
    assert np.abs(resample(tone(48_000, 12_000), 48_000, 16_000)).max() < 1e-3


def test_it_is_no_further_from_the_truth_than_scipy():
    from scipy.signal import resample_poly

    wanted = tone(16_000, 3000)
    theirs = np.abs(resample_poly(tone(22_050, 3000).astype(float), 320, 441)[:8000] - wanted).max()
    assert np.abs(resample(tone(22_050, 3000), 22_050, 16_000)[:8000] - wanted).max() < min(theirs, 1e-4)


def test_the_same_rate_changes_nothing_and_little_sound_is_enough():
    samples = tone(16_000, 300)
    assert resample(samples, 16_000, 16_000) is samples
    assert len(resample(samples[:1], 44_100, 16_000)) == 1
