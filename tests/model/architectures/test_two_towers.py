"""Two towers against their equations in float64 numpy."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from model.architectures.text_encoder import TextEncoderConfig
from model.architectures.two_towers import TwoTowersConfig, clip, siglip
from model.architectures.vit import PatchesAloneConfig, ViTConfig
from tests.samples.attention_reference import (
    assert_same,
    assert_same_maps,
    attention,
    encoder_block,
    feed_forward,
    layer_norm,
    linear,
    randn,
    sharpen,
    weights_of,
)

SIZES = {"layers": 2, "heads": 2, "activation": "quick_gelu", "epsilon": 0.1}
CONFIG = TwoTowersConfig(
    ViTConfig((4, 6), 3, patch=(2, 2), width=12, hidden=20, classes=0, **SIZES),
    TextEncoderConfig(11, length=9, width=8, hidden=12, **SIZES),
    outputs=10,
)
SOURCE = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]])
VISIBLE = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def quick_gelu(x):
    return x / (1 + np.exp(-1.702 * x))


def blocks(w, tower, x, visible=None):
    maps = {}
    for index in range(SIZES["layers"]):
        path = f"encoder.blocks.{index}"
        x, maps[f"{path}.attention"] = encoder_block(
            w, f"{tower}.{path}", SIZES["heads"], x, pre_norm=True, activation=quick_gelu, visible=visible, epsilon=0.1
        )
    return layer_norm(w, f"{tower}.encoder.norm", x, 0.1), maps


def patches(w, pixels):
    kernel = w["image.patches.projection.weight"].reshape(CONFIG.image.width, -1)
    cells = [(row, column) for row in range(0, 4, 2) for column in range(0, 6, 2)]
    cut = [
        pixels[:, :, row : row + 2, column : column + 2].reshape(len(pixels), -1) @ kernel.T for row, column in cells
    ]
    return np.stack(cut, 1)


def of_picture(w, pixels):
    """Patches without a bias, a class token, positions, a norm, blocks, a norm, and the class token projected."""
    x = np.concatenate((np.tile(w["image.class_token"], (len(pixels), 1, 1)), patches(w, pixels)), axis=1)
    x = layer_norm(w, "image.encoder.before", x + w["image.positions.weight"], 0.1)
    x, maps = blocks(w, "image", x)
    return linear(w, "image.head", x[:, 0]), maps


def of_text(w, source, visible):
    """Tokens and positions, blocks in which nothing later is seen, a norm, and the last visible token projected."""
    length = source.shape[1]
    x = w["text.embed.tokens.weight"][source] + w["text.embed.positions.weight"][:length]
    x, maps = blocks(w, "text", x, np.tril(np.ones((length, length), bool)) & visible.numpy()[:, None])
    return linear(w, "text.head.behind", x[range(len(x)), visible.sum(1) - 1]), maps


def test_both_towers_and_their_scores_are_their_equations():
    model, pixels = sharpen(clip(CONFIG)), randn(3, 3, 4, 6)
    with torch.no_grad():
        model.scale.fill_(1.5)
    w = {name.removeprefix("clip."): array for name, array in weights_of(model, "clip").items()}
    (pictures, seen), (texts, read) = of_picture(w, pixels.numpy()), of_text(w, SOURCE, VISIBLE)
    ours, maps = model.image(pixels)
    assert_same(ours, pictures)
    assert_same_maps(maps, seen)
    ours, maps = model.text(SOURCE, VISIBLE)
    assert_same(ours, texts)
    assert_same_maps({name: found[:, :, :3] for name, found in maps.items()}, {n: f[:, :, :3] for n, f in read.items()})
    cosines = pictures @ texts.T / np.linalg.norm(pictures, axis=1)[:, None] / np.linalg.norm(texts, axis=1)
    assert_same(model(pixels, SOURCE, VISIBLE), np.exp(1.5) * cosines)


def test_a_siglip_is_its_equations():
    """Zhai et al. 2022, section 3.2, of pictures; of texts nothing is hidden, and the last token is projected."""
    config = replace(
        CONFIG, image=PatchesAloneConfig((4, 6), 3, patch=(2, 2), width=12, hidden=20, classes=0, **SIZES), outputs=12
    )
    model, pixels = sharpen(siglip(config)), randn(3, 3, 4, 6)
    w, whole = weights_of(model, "siglip"), torch.ones_like(VISIBLE)
    w = {name.removeprefix("siglip."): array for name, array in w.items()}
    x = patches(w, pixels.numpy()) + w["image.patches.projection.bias"] + w["image.positions.weight"]
    x, seen = blocks(w, "image", x)
    found, weights = attention(w, "image.pool.attention", 2, np.tile(w["image.pool.probe"], (3, 1, 1)), x)
    pictures = found + feed_forward(
        w, "image.pool.feed_forward", layer_norm(w, "image.pool.norm", found, 0.1), quick_gelu
    )
    ours, maps = model.image(pixels)
    assert_same(ours, pictures[:, 0])
    assert_same_maps(maps, seen | {"pool.attention": weights})
    y, read = blocks(w, "text", w["text.embed.tokens.weight"][SOURCE] + w["text.embed.positions.weight"][:5])
    ours, maps = model.text(SOURCE, whole)
    texts = linear(w, "text.head.behind", y[:, -1])
    assert_same(ours, texts)
    assert_same_maps(maps, read)
    cosines = pictures[:, 0] @ texts.T / np.linalg.norm(pictures[:, 0], axis=1)[:, None] / np.linalg.norm(texts, axis=1)
    assert_same(model(pixels, SOURCE, whole), np.exp(w["scale"]) * cosines + w["bias"])
    with pytest.raises(ValueError, match="outputs: must be the width of the pictures' encoder, given 10"):
        siglip(replace(config, outputs=10))


def test_padding_of_a_text_changes_nothing():
    text = sharpen(clip(CONFIG)).text
    assert_same(text(SOURCE, VISIBLE)[0][1:], text(SOURCE[1:, :3], VISIBLE[1:, :3])[0])
