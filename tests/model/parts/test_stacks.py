"""Blocks that are composed from sizes."""

import pytest
import torch
from torch import nn

from model.architectures.gpt import GPTConfig
from model.architectures.swin import SWIN_SIZES
from model.architectures.text_encoder import TextEncoderConfig
from model.architectures.vit import ViTConfig
from model.parts.blocks import PostNormBlock, PreNormBlock, PreNormDecoderBlock
from model.parts.feed_forward import GatedFeedForward
from model.parts.stacks import PlainSizes, StackSizes

SIZES = PlainSizes(width=8, layers=3, heads=2, hidden=12, activation="relu", epsilon=0.1)
NAMED = {"width": 8, "layers": 3, "heads": 2, "hidden": 12, "activation": "relu", "epsilon": 0.1}


@pytest.mark.parametrize(
    "sizes",
    [
        SIZES,
        TextEncoderConfig(11, length=9, **NAMED),
        GPTConfig(11, length=9, **NAMED),
        ViTConfig((8, 8), 1, (4, 4), classes=3, **NAMED),
    ],
    ids=lambda sizes: type(sizes).__name__,
)
def test_the_blocks_of_a_configuration_have_its_sizes(sizes):
    blocks = sizes.blocks(PostNormBlock)
    assert [type(block) for block in blocks] == [PostNormBlock] * 3
    for block in blocks:
        assert block.attention.heads == 2
        assert block.attention.query.weight.shape == (8, 8)
        assert block.feed_forward[0].weight.shape == (12, 8)
        assert isinstance(block.feed_forward[1], nn.ReLU)
        assert [norm.eps for norm in block.modules() if isinstance(norm, nn.LayerNorm)] == [0.1, 0.1]
    parameters = [id(parameter) for block in blocks for parameter in block.parameters()]
    assert len(set(parameters)) == len(parameters)  # nothing is shared


def test_the_parts_of_a_block_may_be_others():
    gated = SIZES.blocks(
        PreNormBlock, attention=lambda: SIZES.attention(bias=False), feed_forward=lambda: GatedFeedForward(8, 20)
    )
    assert all(block.attention.query.bias is None and block.feed_forward.up.out_features == 20 for block in gated)
    of_decoder = StackSizes(2, 4, 12).within(8, "gelu")
    made = of_decoder.blocks(
        PreNormDecoderBlock,
        attention=of_decoder.attention,
        cross=of_decoder.attention,
        feed_forward=of_decoder.feed_forward,
    )
    assert [block.cross.heads for block in made] == [4, 4]
    assert all(block.cross is not block.attention and block.cross_norm.eps == 1e-5 for block in made)


def test_weights_are_drawn_block_by_block_in_the_order_of_the_parts():
    torch.manual_seed(0)
    blocks = SIZES.blocks(PreNormBlock, feed_forward=SIZES.feed_forward, attention=SIZES.attention)
    torch.manual_seed(0)
    for block in blocks:
        feed_forward = SIZES.feed_forward()
        assert torch.equal(block.feed_forward[0].weight, feed_forward[0].weight)
        assert torch.equal(block.attention.query.bias, SIZES.attention().query.bias)


def test_each_stage_of_a_swin_has_sizes_of_its_own():
    assert [(sizes.width, sizes.layers, sizes.heads, sizes.hidden) for sizes in SWIN_SIZES["swin_t"].stages] == [
        (96, 2, 3, 384), (192, 2, 6, 768), (384, 6, 12, 1536), (768, 2, 24, 3072),
    ]  # fmt: skip
