"""The shares that are altered along time, along frequency and in magnitude, and how states are probed."""

import random

import numpy as np
import pytest
import torch

from model.catalogue import build
from train.recipes.tera import (
    BLOCK,
    LENGTH,
    NOISE_DEVIATION,
    Pretraining,
    along_frequency,
    along_time,
    in_magnitude,
    mel_means,
    padded,
    probed,
)  # fmt: skip


@pytest.fixture
def sound():
    torch.manual_seed(0)
    return torch.rand(600, 8, 300) + 1  # never 0


def test_blocks_of_frames_become_zeros_or_other_frames_or_stay(sound):
    altered = along_time(sound)
    zero = (altered == 0).all(1)
    other = (altered != sound).any(1) & ~zero
    assert abs(zero.double().mean() - 0.14 * 0.8) < 0.005  # 6 blocks of 7 frames are 0.14 of 300
    assert abs(other.double().mean() - 0.14 * 0.1) < 0.003
    starts = torch.nn.functional.pad(zero.int(), (1, 0)).diff(dim=1).clamp(min=0)
    lengths = zero.sum(1)
    assert (lengths % BLOCK == 0).all()
    assert (starts.sum(1) <= 6).all()
    row = int(other.sum(1).argmax())
    place = int(other[row].int().argmax())
    distances = (sound[row] - altered[row, :, place : place + 1]).abs().sum(0)
    assert distances.min() == 0  # it is another frame of the same sound


def test_one_block_of_bands_becomes_zeros():
    torch.manual_seed(0)
    sound = torch.ones(4000, 40, 3)
    zero = (along_frequency(sound) == 0).all(2)
    width = zero.sum(1)
    assert width.min() == 0
    assert width.max() == 16
    assert abs(width.double().mean() - 8) < 0.25
    changes = torch.nn.functional.pad(zero.int(), (1, 1)).diff(dim=1).abs().sum(1)
    assert set(changes.tolist()) <= {0, 2}
    assert zero[:, 0].any()
    assert zero[:, -1].any()


def test_noise_is_added_to_some_sounds(sound):
    noise = in_magnitude(sound) - sound
    noisy = noise.abs().amax(dim=(1, 2)) > 1e-3
    assert abs(noisy.double().mean() - 0.15) < 0.04
    assert abs(noise[noisy].std() - NOISE_DEVIATION) < 0.005


def test_all_frames_are_restored_from_altered_ones(monkeypatch):
    torch.manual_seed(0)
    pretraining = Pretraining(build("spoken-tera"))
    sound, altered = torch.rand(2, 40, 300), torch.rand(2, 40, 300)
    monkeypatch.setattr("train.recipes.tera.along_time", lambda _: altered)
    monkeypatch.setattr("train.recipes.tera.along_frequency", lambda given: given)
    monkeypatch.setattr("train.recipes.tera.in_magnitude", lambda given: given)
    restored = pretraining.head(pretraining.model.states(altered)[0]).transpose(1, 2)
    torch.testing.assert_close(pretraining.loss(sound), (restored - sound).abs().mean())


def test_means_of_bands_are_of_frames_that_hold_sound():
    sound = torch.rand(2, 4, 20)
    sound[0, :, 12:] = -1
    found = mel_means(sound)
    np.testing.assert_allclose(found[0, :4], sound[0, :, :12].mean(1), rtol=1e-5)
    np.testing.assert_allclose(found[0, 4:], sound[0, :, :12].std(1, unbiased=False), rtol=1e-4)


def test_a_word_stands_within_silence():
    word = np.ones(3000, np.float32)
    samples = padded(word, random.Random(0))
    assert samples.shape == (LENGTH,)
    assert int((samples > 0).sum()) == 3000
    assert 0.1 <= samples.max() <= 1


def test_a_probe_finds_what_is_there_and_no_more():
    torch.manual_seed(0)
    labels = torch.arange(4).repeat(50)
    given = torch.randn(200, 6) + 4 * torch.nn.functional.one_hot(labels, 6)
    assert probed(given[:100], labels[:100], given[100:], labels[100:]) > 0.95
    assert probed(torch.randn(100, 6), labels[:100], given[100:], labels[100:]) < 0.5
