"""Text encoders of other blocks, norms and positions, against their equations in float64 numpy."""

import numpy as np
import pytest
import torch
from torch import nn

from model.architectures.text_encoder import text_encoder
from model.architectures.text_encoder_variants import (
    DisentangledEncoderConfig,
    EuroBertConfig,
    GatedEncoderConfig,
    ModernBertConfig,
    PreNormEncoderConfig,
    RotaryEncoderConfig,
    SharedEncoderConfig,
)
from model.methods.attribution import libra
from model.parts.heads import FirstState
from model.parts.norms import RMSNorm
from tests.samples.attention_reference import (
    assert_same,
    assert_same_maps,
    encoder_block,
    gelu,
    layer_norm,
    linear,
    sharpen,
    weights_of,
)

SIZES = {"length": 9, "width": 8, "layers": 3, "heads": 2, "hidden": 12, "epsilon": 0.1}
CONFIGS = {
    "norms before": PreNormEncoderConfig(11, **SIZES),
    "no norm of embeddings": PreNormEncoderConfig(11, **SIZES, embedding_normed=False, types=2),
    "shared": SharedEncoderConfig(11, **SIZES, weights=(0, 0, 2), embedding=6, types=2),
    "disentangled": DisentangledEncoderConfig(11, **SIZES, buckets=4, farthest=6),
    "disentangled, each distance": DisentangledEncoderConfig(11, **SIZES, farthest=3, distances_normed=False),
    "rotary": RotaryEncoderConfig(11, **SIZES, theta=30.0, types=2),
    "gated": GatedEncoderConfig(11, **SIZES, attention_bias=False, output_bias=True),
    "eurobert": EuroBertConfig(11, **SIZES, key_heads=1, attention_bias=False),
    "modernbert": ModernBertConfig(11, **SIZES, everywhere=(0, 2), reach=1, local_theta=30.0),
}
SOURCE = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]])
VISIBLE = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
TYPES = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])


def made(name):
    return sharpen(text_encoder(CONFIGS[name], FirstState()))


@pytest.mark.parametrize("name", CONFIGS)
def test_padding_changes_nothing(name):
    model = made(name)
    together, maps = model(SOURCE, VISIBLE, TYPES)
    alone, maps_alone = model(SOURCE[1:, :3], VISIBLE[1:, :3], TYPES[1:, :3])
    assert_same(together[1:], alone)
    assert_same_maps({path: found[1:, :, :3, :3] for path, found in maps.items()}, maps_alone)
    assert list(maps) == [f"encoder.blocks.{layer}.attention" for layer in range(3)]


@pytest.mark.parametrize("name", CONFIGS)
def test_tokens_that_stand_elsewhere_have_other_states(name):
    model = made(name)
    states, _ = model(SOURCE, VISIBLE, TYPES)
    moved, _ = model(SOURCE[:, [0, 2, 1, 3, 4]], VISIBLE, TYPES[:, [0, 2, 1, 3, 4]])
    assert (states - moved).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["norms before", "no norm of embeddings"])
def test_norms_stand_before_each_branch_and_behind_the_last_block(name):
    model, config = made(name), CONFIGS[name]
    states, _ = model(SOURCE, VISIBLE, TYPES)
    w = weights_of(model)
    x = w["module.embed.tokens.weight"][SOURCE] + w["module.embed.positions.weight"][:5]
    if config.types:
        x = x + w["module.embed.types.weight"][TYPES]
    if config.embedding_normed:
        x = layer_norm(w, "module.embed.norm", x, 0.1)
    for layer in range(3):
        path = f"module.encoder.blocks.{layer}"
        x, _ = encoder_block(w, path, 2, x, pre_norm=True, activation=gelu, visible=VISIBLE[:, None], epsilon=0.1)
    assert_same(states, layer_norm(w, "module.encoder.norm", x, 0.1)[:, 0])


def test_narrow_embeddings_are_projected_and_layers_share_weights():
    model = made("shared")
    states, _ = model(SOURCE, VISIBLE, TYPES)
    w = weights_of(model)
    assert model.width == 8
    assert not any(".blocks.1." in name for name in w)
    x = w["module.embed.tokens.weight"][SOURCE] + w["module.embed.positions.weight"][:5]
    x = layer_norm(w, "module.embed.norm", x + w["module.embed.types.weight"][TYPES], 0.1)
    x = linear(w, "module.embed.projection", x)
    for layer in (0, 0, 2):
        path = f"module.encoder.blocks.{layer}"
        x, _ = encoder_block(w, path, 2, x, pre_norm=False, activation=gelu, visible=VISIBLE[:, None], epsilon=0.1)
    assert_same(states, x[:, 0])


def test_libra_gives_a_shared_bias_to_each_layer_that_adds_it():
    """As of a model whose layers have weights of their own that are the same."""
    model, whole = made("shared"), made("shared")
    parts = dict(whole.encoder.blocks[1].named_modules())
    for path, part in whole.encoder.blocks[0].named_modules():
        for name, parameter in part.named_parameters(recurse=False):
            setattr(parts[path], name, nn.Parameter(parameter.detach().clone()))
    shared, own = (
        libra(one, [one.encoder], lambda one=one: one(SOURCE, VISIBLE, TYPES)[0][:, 3]) for one in (model, whole)
    )
    assert len(list(model.parameters())) < len(list(whole.parameters()))
    for given, wanted in zip(shared.biases, own.biases, strict=True):
        assert_same(given, wanted)
    for given, wanted in zip(shared.tokens[0], own.tokens[0], strict=True):
        assert_same(given, wanted)
    assert_same(shared.tokens[0][0].sum() + shared.biases[0], shared.score.sum(), 1e-9)


def test_a_text_encoder_like_a_llama_has_norms_by_root_mean_square_and_no_bias():
    model = made("eurobert")
    assert not any(name.endswith("bias") for name, _ in model.named_parameters())
    assert isinstance(model.encoder.norm, RMSNorm)
    assert isinstance(model.embed.norm, nn.Identity)
    assert model.encoder.blocks[0].attention.key_heads == 1


def test_local_layers_give_no_weight_beyond_their_reach():
    model = made("modernbert")
    _, maps = model(SOURCE, VISIBLE)
    for layer, near in enumerate((False, True, False)):
        weights = maps[f"encoder.blocks.{layer}.attention"].detach().numpy()
        beyond = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) > 1
        assert (weights[0][:, beyond] == 0).all() == near
    assert isinstance(model.encoder.blocks[0].attention_norm, nn.Identity)
    assert isinstance(model.encoder.blocks[1].attention_norm, nn.LayerNorm)


def test_angles_of_longer_texts_are_those_of_a_larger_base_and_slower():
    """Su 2023, equation 6: β^i with β = (10000 κ)^(2/d) for i from 0, and all divided by κ^(2/d)."""
    config = RotaryEncoderConfig(11, **SIZES, theta=500.0, stretch=2.0)
    frequencies = config.contexts().rotary.frequencies
    assert_same(frequencies, torch.tensor([(1000.0 ** (-pair / 2)) / 2 ** (2 / 4) for pair in (0, 1)]), 1e-7)
