import math

import numpy as np
import pytest
import torch

from model.architectures.speech_transformer import PlaneAttention, SpeechTransformerConfig, speech_transformer
from model.parts.stacks import StackSizes
from tests.samples.attention_reference import randn, relu, sharpen, softmax, weights_of

SIZES = SpeechTransformerConfig(
    13, bands=12, frames=7, length=9, width=16, channels=5, maps=3, planes=2,
    encoder=StackSizes(2, 2, 24), decoder=StackSizes(3, 4, 20),
)  # fmt: skip


def convolve(w, name, x, stride=1):
    """Return the convolution of x (batch, channel, row, column) by a kernel of 3 x 3, with zeros around it."""
    kernel, bias = w[f"{name}.weight"], w[f"{name}.bias"]
    around = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    rows, columns = (-(-side // stride) for side in x.shape[2:])
    found = np.empty((len(x), len(kernel), rows, columns))
    for row in range(rows):
        for column in range(columns):
            patch = around[:, :, row * stride : row * stride + 3, column * stride : column * stride + 3]
            found[:, :, row, column] = np.einsum("bcij,ocij->bo", patch, kernel) + bias
    return found


def plane(w, name, x):
    """Return 2D-attention of x (batch, channel, frame, band), channel by channel, and its weights."""
    query, key, value = (convolve(w, f"{name}.{part}", x) for part in ("query", "key", "value"))
    batch, maps, frames, bands = query.shape
    mixed = np.empty((batch, 2 * maps, frames, bands))
    times, frequencies = np.empty((batch, maps, frames, frames)), np.empty((batch, maps, bands, bands))
    for row in range(batch):
        for channel in range(maps):
            q, k, v = query[row, channel], key[row, channel], value[row, channel]  # (frame, band)
            times[row, channel] = softmax(q @ k.T / math.sqrt(bands))
            frequencies[row, channel] = softmax(q.T @ k / math.sqrt(frames))
            mixed[row, channel] = times[row, channel] @ v
            mixed[row, maps + channel] = (frequencies[row, channel] @ v.T).T
    return x + convolve(w, f"{name}.output", mixed), times, frequencies


def test_every_channel_attends_along_time_and_along_frequency():
    part = sharpen(PlaneAttention(5, 3))
    x = randn(2, 5, 7, 4)
    found, maps = part(x)
    wanted, times, frequencies = plane(weights_of(part), "module", x.numpy())
    np.testing.assert_allclose(found.detach(), wanted, atol=1e-12)
    np.testing.assert_allclose(maps["time"].detach(), times, atol=1e-12)
    np.testing.assert_allclose(maps["frequency"].detach(), frequencies, atol=1e-12)
    assert min(np.ptp(weights, axis=-1).max() for weights in (times, frequencies)) > 0.5


def test_frames_are_halved_twice_before_planes_and_encoder():
    model = sharpen(speech_transformer(SIZES))
    source, sound = model.source, randn(2, 12, 28)
    w = weights_of(source)
    x = relu(convolve(w, "module.first", sound.numpy().transpose(0, 2, 1)[:, None], stride=2))
    x = relu(convolve(w, "module.second", x, stride=2))
    for index in range(2):
        x, _, _ = plane(w, f"module.planes.{index}", x)
    x = x.transpose(0, 2, 1, 3).reshape(2, 7, -1) @ w["module.output.weight"].T + w["module.output.bias"]
    angle = np.arange(7)[:, None] / 10000 ** (np.arange(0, 16, 2) / 16)
    places = np.stack((np.sin(angle), np.cos(angle)), axis=-1).reshape(7, 16)
    np.testing.assert_allclose(source(sound)[0].detach(), x + places, atol=1e-6)  # sinusoids are single floats


def test_maps_are_of_five_kinds():
    model = sharpen(speech_transformer(SIZES))
    logits, maps = model(randn(2, 12, 28), torch.randint(13, (2, 5)))
    assert logits.shape == (2, 5, 13)
    shapes = {
        "source.planes.{}.time": (3, 7, 7),
        "source.planes.{}.frequency": (3, 3, 3),
        "encoder.blocks.{}.attention": (2, 7, 7),
        "decoder.blocks.{}.attention": (4, 5, 5),
        "decoder.blocks.{}.cross": (4, 5, 7),
    }
    assert len(maps) == 3 * 2 + 2 * 3
    for path, shape in shapes.items():
        assert maps[path.format(1)].shape == (2, *shape), path


def test_steps_write_what_the_whole_pass_does():
    model = sharpen(speech_transformer(SIZES))
    target, sound = torch.randint(13, (2, 6)), randn(2, 12, 28)
    whole, _ = model(sound, target)
    memory, _ = model.hear(sound)
    past = [(torch.zeros(2, 4, 8, 4).double(), torch.zeros(2, 4, 8, 4).double()) for _ in range(3)]
    for place in range(6):
        logits, past, _ = model.step(target[:, place], torch.full((2,), place), past, memory, None)
        torch.testing.assert_close(logits, whole[:, place])
    begun = model.prompt(target[:, :4], memory)
    for (key, value), (ours, other) in zip(begun, past, strict=True):
        torch.testing.assert_close(key, ours[:, :, :4])
        torch.testing.assert_close(value, other[:, :, :4])


def test_bands_must_halve_twice():
    with pytest.raises(ValueError, match="bands: must be a multiple of 4, given 42"):
        SpeechTransformerConfig(13, 42, 7, 9, 16, 5, 3, 2, StackSizes(2, 2, 24), StackSizes(3, 4, 20))
