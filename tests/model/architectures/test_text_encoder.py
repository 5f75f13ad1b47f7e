"""A text encoder against its equations in float64 numpy."""

import torch
from torch import nn

from model.architectures.text_encoder import TextEncoderConfig, text_encoder, word_filler
from model.parts.heads import FirstState
from tests.samples.attention_reference import (
    assert_same,
    assert_same_maps,
    encoder_block,
    gelu,
    layer_norm,
    sharpen,
    weights_of,
)

CONFIG = TextEncoderConfig(11, length=9, width=8, layers=2, heads=2, hidden=12, epsilon=0.1, types=2, offset=2)
SOURCE = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]])
VISIBLE = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
TYPES = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])


class AllStates(nn.Module):
    def forward(self, states, visible):
        return states


def test_a_text_encoder_is_its_equations():
    """Devlin et al. 2019, section 3: tokens, positions from an offset, types, a norm, then post-norm blocks."""
    model = sharpen(text_encoder(CONFIG, FirstState()))
    states, maps = model(SOURCE, VISIBLE, TYPES)
    w = weights_of(model)
    x = w["module.embed.tokens.weight"][SOURCE] + w["module.embed.positions.weight"][2:7]
    x = layer_norm(w, "module.embed.norm", x + w["module.embed.types.weight"][TYPES], CONFIG.epsilon)
    found = {}
    for index in range(CONFIG.layers):
        path = f"encoder.blocks.{index}"
        x, found[f"{path}.attention"] = encoder_block(
            w,
            f"module.{path}",
            CONFIG.heads,
            x,
            pre_norm=False,
            activation=gelu,
            visible=VISIBLE[:, None],
            epsilon=CONFIG.epsilon,
        )
    assert_same(states, x[:, 0])
    assert_same_maps(maps, found)
    assert model.width == CONFIG.width


def test_padding_changes_nothing():
    model = sharpen(text_encoder(CONFIG, FirstState()))
    together, maps = model(SOURCE, VISIBLE, TYPES)
    alone, maps_alone = model(SOURCE[1:, :3], VISIBLE[1:, :3], TYPES[1:, :3])
    assert_same(together[1:], alone)
    assert_same_maps({name: found[1:, :, :3, :3] for name, found in maps.items()}, maps_alone)


def test_a_word_filler_scores_masked_positions_by_the_rows_of_its_embedding():
    model = sharpen(word_filler(CONFIG))
    assert model.head.output.weight is model.embed.tokens.weight
    places = torch.tensor([[4, 0], [2, 1]])
    logits, _ = model(SOURCE, VISIBLE, TYPES, places)
    head, model.head = model.head, AllStates()
    states, _ = model(SOURCE, VISIBLE, TYPES)
    assert_same(logits, head(states, VISIBLE, places))
    assert logits.shape == (2, 2, CONFIG.vocabulary)
