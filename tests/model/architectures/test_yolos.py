import dataclasses
import functools

import pytest
import torch
import transformers
from torch import nn

from model.architectures.yolos import YolosConfig, positioned, yolos
from model.methods.attribution import libra
from model.parts.blocks import PreNormBlock, Stack
from tests.samples.attention_reference import assert_same, randn, sharpen
from tests.samples.detectors_reference import copy_yolos, randomised

SMALL = YolosConfig(
    (8, 12), 3, patch=(4, 4), width=16, layers=3, heads=2, hidden=24, classes=3, epsilon=1e-3, objects=5
)
OPTIONS = {
    "with positions before each block": ({}, SMALL),
    "without them": ({"use_mid_position_embeddings": False}, SMALL),
    "without biases": ({"qkv_bias": False}, SMALL),
    "another activation": ({"hidden_act": "gelu_new"}, dataclasses.replace(SMALL, activation="gelu_tanh")),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_it_answers_as_the_reference_library(option):
    options, config = OPTIONS[option]
    theirs = randomised(
        transformers.YolosForObjectDetection(
            transformers.YolosConfig(
                hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=24, image_size=[8, 12],
                patch_size=4, num_detection_tokens=5, num_labels=3, layer_norm_eps=1e-3, attn_implementation="eager",
                **options,
            )
        )
    )  # fmt: skip
    attention = functools.partial(config.attention, bias=options.get("qkv_bias", True))
    blocks = config.blocks(PreNormBlock, attention=attention, feed_forward=config.feed_forward)
    placed = options.get("use_mid_position_embeddings", True)
    ours = yolos(config, positioned(config, blocks) if placed else Stack(blocks, config.norm())).double().eval()
    copy_yolos(theirs, ours)
    pixels = randn(2, 3, 8, 12)
    with torch.no_grad():
        logits, boxes, maps = ours(pixels)
        expected = theirs(pixels, output_attentions=True)
    assert logits.shape == (2, 5, 4)
    assert_same(logits, expected.logits)
    assert_same(boxes, expected.pred_boxes)
    assert list(maps) == [f"encoder.blocks.{index}.attention" for index in range(3)]
    for given, each in zip(maps.values(), expected.attentions, strict=True):
        assert given.shape == (2, 2, 1 + 6 + 5, 1 + 6 + 5)
        assert_same(given, each)
        assert each.std(-1).max() > 0.05  # no map is uniform


class Plus(nn.Module):
    """A block that adds a number, and attends to nothing."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x, context):
        return x + self.number, {}


def test_positions_are_added_before_each_block_from_the_second_on():
    positions = nn.Parameter(randn(2, 4, 3))
    entered = []
    stack = Stack([Plus(1), Plus(2), Plus(4)], nn.Identity(), positions)
    for each in stack.blocks:
        each.register_forward_pre_hook(lambda _, given: entered.append(given[0]))
    x = randn(2, 4, 3, seed=2)
    given, _ = stack(x)
    for one, expected in zip(entered, (x, x + 1 + positions[0], x + 3 + positions.sum(0)), strict=True):
        assert_same(one.detach(), expected.detach())
    assert_same(given.detach(), (x + 7 + positions.sum(0)).detach())


def test_tokens_biases_and_positions_between_blocks_add_up_to_the_score_at_each_layer():
    model, pixels = sharpen(yolos(SMALL)), randn(1, 3, 8, 12)
    found = libra(model, [model.encoder], lambda: model(pixels)[0][:, 4, 1])
    for tokens, biases in zip(found.tokens[0], found.biases, strict=True):
        assert abs(float(tokens.sum() + biases - found.score)) <= 1e-12 * max(1, float(tokens.abs().sum()))
    with torch.no_grad():
        model.encoder.positions.zero_()
    without = libra(model, [model.encoder], lambda: model(pixels)[0][:, 4, 1])
    assert abs(float(without.biases[0] - found.biases[0])) > 1e-3


def test_objects_are_read_off_the_last_tokens():
    model = sharpen(yolos(SMALL))
    pixels = randn(1, 3, 8, 12)
    with torch.no_grad():
        logits, _, _ = model(pixels)
        model.detection_tokens[:, -1] *= -3
        changed, _, _ = model(pixels)
    apart = (changed - logits).abs().amax(-1)[0]
    assert apart.argmax() == 4
    assert SMALL.tokens == 1 + 6 + 5


def test_an_image_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"^image: must be 8x12 pixels, given 12x8$"):
        yolos(SMALL)(torch.zeros(1, 3, 12, 8))


@pytest.mark.parametrize("tokens", [{"registers": 2}, {"distillation_tokens": 1}])
def test_tokens_that_a_yolos_has_not_are_refused(tokens):
    with pytest.raises(ValueError, match="must be 0, since a YOLOS has none"):
        YolosConfig((4, 4), 1, (2, 2), 8, layers=1, heads=2, hidden=12, classes=3, **tokens)
