import numpy as np
import pytest
import torch

from model.parts.sound import LogMel, MelSizes, hertz_of, mel_filters, mel_of


def sound(seconds=1.0, rate=16_000):
    time = np.arange(int(seconds * rate)) / rate
    rng = np.random.default_rng(0)
    chirp = 0.4 * np.sin(2 * np.pi * (200 + 1500 * time) * time)
    return (chirp + 0.02 * rng.normal(size=len(time))) * (time > 0.2)


def mirrored(samples, side=200):
    """A batch of one, with the sides of its ends mirrored."""
    return torch.tensor(np.pad(samples, side, mode="reflect")[None])


def frames(samples, sizes):
    """Each frame by itself, from its definition, in float64."""
    half, count = sizes.window // 2, sizes.window // 2 + 1
    padded = np.pad(samples, half, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(sizes.window) / sizes.window)
    found = []
    for start in range(0, len(samples), sizes.hop):
        spectrum = np.fft.rfft(padded[start : start + sizes.window] * window)[:count]
        found.append(np.log10(np.maximum(mel_filters(sizes) @ np.abs(spectrum) ** 2, 1e-10)))
    every = np.array(found).T
    return (np.maximum(every, every.max() - 8) + 4) / 4


def test_frames_are_those_of_a_fourier_transform_of_each_window():
    layer, samples = LogMel(MelSizes()).double(), sound()
    found = layer(mirrored(samples))[0].numpy()
    assert found.shape == (80, 100)
    np.testing.assert_allclose(found, frames(samples, MelSizes()), atol=1e-5)  # its tables are single floats


def test_each_sound_has_its_own_top():
    layer, loud = LogMel(MelSizes()), mirrored(sound()).float()
    together, alone = layer(torch.cat([loud, loud / 100])), layer(loud / 100)
    torch.testing.assert_close(together[1:], alone)


def test_frames_that_are_not_kept_are_zero():
    layer, samples = LogMel(MelSizes()), mirrored(sound()).float()
    every, some = layer(samples), layer(samples, torch.tensor([37]))
    torch.testing.assert_close(some[..., :37], every[..., :37])
    assert every[..., 37:].any()
    assert not some[..., 37:].any()


def test_the_mel_scale_is_slaneys():
    assert [mel_of(hertz) for hertz in (0, 1000, 6400)] == pytest.approx([0, 15, 42])
    assert hertz_of(np.array([0.0, 7.5, 15, 42])) == pytest.approx([0, 500, 1000, 6400])


@pytest.mark.parametrize("bands", [80, 128])
def test_filters_are_triangles_of_one_area(bands):
    weights = mel_filters(MelSizes(bands=bands))
    assert weights.shape == (bands, 201)
    assert (weights >= 0).all()
    wide = weights[bands // 2 :]  # of more than a few frequencies
    np.testing.assert_allclose(wide.sum(1) * 40, 1, atol=0.1)


@pytest.mark.families
@pytest.mark.parametrize("bands", [80, 128])
def test_frames_are_those_of_the_reference_library(bands):
    from transformers import WhisperFeatureExtractor

    theirs = WhisperFeatureExtractor(feature_size=bands)
    samples = sound(3.0).astype(np.float32)
    wanted = theirs(samples, sampling_rate=16_000, return_tensors="np").input_features[0]
    whole = np.zeros(480_000, np.float32)
    whole[: len(samples)] = samples
    found = LogMel(MelSizes(bands=bands))(mirrored(whole))[0].numpy()
    assert found.shape == wanted.shape == (bands, 3000)
    np.testing.assert_allclose(found, wanted, atol=1e-4)
