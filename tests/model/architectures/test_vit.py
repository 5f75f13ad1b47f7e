from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from model.architectures.vit import VIT_SIZES, PatchesAloneConfig, ViTConfig, vit
from model.parts.attention import Context, MultiHeadAttention
from model.parts.blocks import PreNormBlock, Stack
from model.parts.feed_forward import GatedFeedForward
from model.parts.heads import MeanState
from model.parts.norms import LayerScale
from tests.samples.attention_reference import (
    assert_batch_is_its_rows,
    assert_same,
    assert_same_maps,
    encoder_block,
    gelu,
    layer_norm,
    linear,
    randn,
    sharpen,
    weights_of,
)

SMALL = ViTConfig((8, 12), 2, patch=(4, 4), width=12, layers=3, heads=3, hidden=20, classes=5)


def equations(model, config, pixels):
    """The whole network in float64 numpy, equations 1 to 4 of the paper and the head."""
    w, (rows, columns), size = weights_of(model, "vit"), config.grid, config.patch[0]
    kernel = w["vit.patches.projection.weight"].reshape(config.width, -1)
    x = np.stack([
        kernel @ pixels[:, :, row * size : (row + 1) * size, column * size : (column + 1) * size]
        .reshape(len(pixels), -1).T + w["vit.patches.projection.bias"][:, None]
        for row in range(rows) for column in range(columns)
    ]).transpose(2, 0, 1)  # (batch, patches, width)  # fmt: skip
    x = np.concatenate((np.tile(w["vit.class_token"], (len(x), 1, 1)), x), axis=1) + w["vit.positions.weight"]
    maps = {}
    for index in range(config.layers):
        x, maps[f"encoder.blocks.{index}.attention"] = encoder_block(
            w,
            f"vit.encoder.blocks.{index}",
            config.heads,
            x,
            pre_norm=True,
            activation=gelu,
            epsilon=config.epsilon,
        )
    return linear(w, "vit.head", layer_norm(w, "vit.encoder.norm", x, config.epsilon)[:, 0]), maps


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        ViTConfig((8, 12), 2, patch=(4, 4), width=12, layers=2, heads=3, hidden=20, classes=5, epsilon=0.1),
        ViTConfig((6, 6), 1, patch=(2, 2), width=8, layers=1, heads=1, hidden=8, classes=2),
    ],
    ids=["oblong", "another epsilon", "square"],
)
def test_the_whole_network_follows_the_equations(config):
    model = sharpen(vit(config))
    pixels = randn(3, config.channels, *config.image)
    logits, maps = model(pixels)
    expected, weights = equations(model, config, pixels.numpy())
    assert_same(logits, expected)
    assert_same_maps(maps, weights)
    tokens = 1 + config.grid[0] * config.grid[1]
    assert {tuple(found.shape) for found in maps.values()} == {(3, config.heads, tokens, tokens)}


def test_a_batch_of_five_is_five_batches_of_one():
    assert_batch_is_its_rows(sharpen(vit(SMALL)), randn(5, 2, 8, 12))


def test_there_is_one_map_for_every_attention_module_under_its_path():
    model = sharpen(vit(SMALL))
    _, maps = model(randn(1, 2, 8, 12))
    paths = [path for path, module in model.named_modules() if isinstance(module, MultiHeadAttention)]
    assert list(maps) == paths == [f"encoder.blocks.{index}.attention" for index in range(3)]


def test_without_positions_the_order_of_the_patches_is_lost_on_the_logits():
    model, pixels = sharpen(vit(SMALL)), randn(1, 2, 8, 12)
    rows = pixels.split(4, dim=2)
    patches = [patch for row in rows for patch in row.split(4, dim=3)]
    order = [3, 5, 0, 2, 1, 4]
    moved = [patches[index] for index in order]
    shuffled = torch.cat((torch.cat(moved[:3], dim=3), torch.cat(moved[3:], dim=3)), dim=2)
    assert (model(shuffled)[0] - model(pixels)[0]).abs().max() > 0.1
    torch.nn.init.zeros_(model.positions.weight)
    logits, maps = model(pixels)
    permuted, permuted_maps = model(shuffled)
    tokens = torch.tensor([0, *(1 + index for index in order)])  # the class token stays first
    assert_same(permuted, logits)
    assert_same_maps(permuted_maps, {name: found[:, :, tokens][..., tokens] for name, found in maps.items()})


def test_every_row_of_every_map_is_a_distribution():
    _, maps = sharpen(vit(SMALL))(randn(2, 2, 8, 12))
    for found in maps.values():
        assert (found >= 0).all()
        assert_same(found.sum(-1), torch.ones(2, 3, 7, dtype=torch.float64))


@pytest.mark.parametrize("name", VIT_SIZES)
def test_the_sizes_of_the_table_normalise_as_the_published_weights_expect(name):
    assert VIT_SIZES[name].epsilon == 1e-6


def test_the_grid_is_rows_and_columns():
    assert SMALL.grid == (2, 3)


@pytest.mark.parametrize(("height", "width"), [(8, 13), (9, 12), (30, 30)])
def test_an_image_that_patches_do_not_fill_is_refused(height, width):
    words = rf"image: sides must be multiples of the patch's 4x4, given {height}x{width}"
    with pytest.raises(ValueError, match=words):
        ViTConfig((height, width), 1, patch=(4, 4), width=8, layers=1, heads=1, hidden=8, classes=2)


def test_further_tokens_stand_behind_the_class_token_and_registers_have_no_position():
    config = replace(SMALL, distillation_tokens=1, registers=2)
    model, pixels = sharpen(vit(config, nn.Identity())), randn(2, 2, 8, 12)
    assert config.prefix == 4
    assert len(model.positions.weight) == 2 + 6
    model.encoder = Stack([], nn.Identity())
    states, maps = model(pixels)
    assert maps == {}
    positions = model.positions.weight
    assert_same(states[:, 0], (model.class_token[0] + positions[0]).expand(2, -1))
    assert_same(states[:, 1], (model.distillation_token[0] + positions[1]).expand(2, -1))  # where its classifier reads
    assert_same(states[:, 2:4], model.registers.expand(2, -1, -1))
    assert_same(states[:, 4:], model.patches(pixels) + positions[2:])


def test_a_block_of_dinov2_scales_both_branches():
    attention, mlp = MultiHeadAttention(12, 3), GatedFeedForward(12, 20)
    block, x = sharpen(PreNormBlock(attention, mlp, SMALL.norm, lambda: LayerScale(12))), randn(2, 7, 12)
    given, maps = block(x)
    mixed, found = attention(block.attention_norm(x))
    expected = x + block.attention_scale.weight * mixed
    expected = expected + block.feed_forward_scale.weight * mlp(block.feed_forward_norm(expected))
    assert_same(given, expected)
    assert_same(maps["attention"], found[""])


def test_without_a_class_token_there_are_patches_alone():
    config = PatchesAloneConfig(**vars(SMALL))
    model = sharpen(vit(config, MeanState()))
    pixels = randn(2, 2, 8, 12)
    found, maps = model(pixels)
    states, wanted = model.encoder(model.patches(pixels) + model.positions.weight)
    assert_same(found, states.mean(1))
    assert_same_maps(maps, {f"encoder.{name}": weights for name, weights in wanted.items()})
    assert (config.prefix, model.width, maps["encoder.blocks.0.attention"].shape[-1]) == (0, 12, 6)


def test_what_surrounds_the_tokens_of_layers_is_told_to_them():
    class Hidden(nn.Module):
        def forward(self):
            return [Context(visible=torch.arange(7) != layer) for layer in range(SMALL.layers)]

    _, maps = sharpen(vit(SMALL, surroundings=Hidden()))(randn(2, 2, 8, 12))
    for layer, weights in enumerate(maps.values()):
        assert [key for key in range(7) if not weights[..., key].any()] == [layer]
