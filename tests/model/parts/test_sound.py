import numpy as np
import pytest
import torch

from model.parts.sound import (
    ChannelNorm,
    FilterBank,
    LogMel,
    MelSizes,
    PositionConvolution,
    UnitVariance,
    hertz_of,
    mel_filters,
    mel_of,
)


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


OF_AUDIOSET = {"mean": -4.2677393, "std": 4.5689974}


def bands(samples, frames):
    """Kaldi's filter bank of each frame by itself, step by step, in float64."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)
    hertz = np.arange(257) * 16_000 / 512
    scale = lambda hertz: 1127 * np.log(1 + hertz / 700)  # noqa: E731
    edges = np.linspace(scale(20), scale(8000), 130)
    found = np.zeros((frames, 128))
    for frame in range(min(frames, (len(samples) - 400) // 160 + 1)):
        own = samples[160 * frame :][:400]
        own = own - own.mean()
        own = (own - 0.97 * np.concatenate((own[:1], own[:-1]))) * window
        power = np.abs(np.fft.rfft(own, 512)) ** 2
        for band in range(128):
            low, middle, high = edges[band : band + 3]
            weight = np.clip(
                np.minimum((scale(hertz) - low) / (middle - low), (high - scale(hertz)) / (high - middle)), 0, None
            )
            found[frame, band] = np.log(max(weight @ power, 2.0**-23))
    return (found.T - OF_AUDIOSET["mean"]) / (2 * OF_AUDIOSET["std"])


def test_a_filter_bank_is_kaldis_and_zero_where_the_sound_does_not_reach():
    samples = sound(0.4) + 0.1
    layer = FilterBank(MelSizes(bands=128), **OF_AUDIOSET).double()
    whole = np.zeros(400 + 59 * 160)
    whole[: len(samples)] = samples
    found = layer(torch.tensor(whole[None]), torch.tensor([38]))[0, 0].numpy()
    wanted = bands(samples, 60)
    assert found.shape == (128, 60)
    np.testing.assert_allclose(found, wanted, atol=1e-4)  # its tables are single floats
    assert (wanted[:, 38:] == wanted[0, 59]).all()
    assert np.ptp(wanted[:, 37]) > 0.1
    nothing = layer(torch.zeros(1, 400 + 59 * 160), torch.tensor([0]))[0, 0].numpy()
    np.testing.assert_allclose(nothing, wanted[:, 38:39].repeat(60, 1))


@pytest.mark.families
@pytest.mark.filterwarnings("ignore:At least one mel filter")
@pytest.mark.parametrize("seconds", [0.05, 3.0, 10.24, 11.0])
def test_a_filter_bank_is_that_of_the_reference_library(seconds):
    from transformers import ASTFeatureExtractor

    noise = np.random.default_rng(1).normal(size=int(seconds * 16_000)).astype(np.float32) * 0.1
    samples = noise + sound(seconds).astype(np.float32)
    wanted = ASTFeatureExtractor()(samples, sampling_rate=16_000, return_tensors="np").input_values[0]
    whole = np.zeros(400 + 1023 * 160, np.float32)
    heard = min(len(whole), len(samples))
    whole[:heard] = samples[:heard]
    layer = FilterBank(MelSizes(bands=128), **OF_AUDIOSET)
    found = layer(torch.tensor(whole[None]), torch.tensor([(heard - 400) // 160 + 1]))[0, 0].numpy()
    np.testing.assert_allclose(found.T, wanted, atol=2e-4)


def test_tables_of_a_filter_bank_stay_single_floats_in_a_model_of_half_floats():
    layer = FilterBank(MelSizes(bands=128), **OF_AUDIOSET)
    wanted = layer(torch.ones(1, 1040) * 0.1, torch.tensor([4]))
    for dtype in (torch.float16, torch.bfloat16):
        lowered = layer.to(dtype)
        assert lowered.waves.dtype == lowered.filters.dtype == torch.float32
        torch.testing.assert_close(lowered(torch.ones(1, 1040) * 0.1, torch.tensor([4])), wanted)
    assert layer.double().waves.dtype == torch.float64


@pytest.mark.families
def test_samples_are_normalised_as_by_the_reference_library():
    from transformers import Wav2Vec2FeatureExtractor

    given = [sound(0.3) * 3 + 0.2, np.zeros(500)]
    for samples in given:
        wanted = Wav2Vec2FeatureExtractor()(samples, sampling_rate=16_000, return_tensors="np").input_values
        found = UnitVariance()(torch.tensor(samples[None])).numpy()
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_each_channel_is_normalised_by_itself_in_half_floats_too():
    layer, x = ChannelNorm(3), torch.randn(2, 3, 50_000) * 4 + 7
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.normal_(layer.bias)
    wanted = torch.nn.functional.group_norm(x, 3, layer.weight, layer.bias)
    torch.testing.assert_close(layer(x), wanted)
    halves = layer.half()(x.half())
    assert halves.dtype == torch.float16
    torch.testing.assert_close(halves.float(), wanted, atol=0.02, rtol=0.01)


@pytest.mark.parametrize("kernel", [4, 5])
def test_what_is_around_a_frame_places_it(kernel):
    layer = PositionConvolution(6, kernel, 2, torch.nn.Identity()).double()
    x = torch.randn(1, 9, 6).double()
    found = layer(x)
    assert found.shape == x.shape
    weight, bias = layer.convolution.weight, layer.convolution.bias
    padded = torch.nn.functional.pad(x, (0, 0, kernel // 2, kernel // 2))
    for group in (0, 1):
        own = slice(3 * group, 3 * group + 3)
        wanted = torch.einsum("kc,ock->o", padded[0, 4 : 4 + kernel, own], weight[own]) + bias[own]
        torch.testing.assert_close(found[0, 4, own], wanted)
