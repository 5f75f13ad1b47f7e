import math

import pytest
import torch

from model.architectures.conditional_detector import (
    ConditionalAttention,
    FirstConditionalAttention,
    conditional_detector,
)
from model.architectures.detector import DetectorConfig
from model.parts.attention import Context
from model.parts.stacks import StackSizes
from tests.samples.attention_reference import assert_same, assert_same_maps, randn, sharpen
from tests.samples.detectors_reference import OPTIONS, assert_same_answers, copy_conditional_detector

FEW = DetectorConfig(
    (16, 24), 2, cell=8, width=12, encoder=StackSizes(2, 3, 20), decoder=StackSizes(2, 3, 18), objects=4, classes=3
)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "padded"])
def test_it_answers_as_the_reference_library(option, masked):
    assert_same_answers(
        "ConditionalDetr", conditional_detector, copy_conditional_detector, option, masked=masked, near=1e-5
    )


@pytest.mark.parametrize("kind", [ConditionalAttention, FirstConditionalAttention])
def test_a_score_is_the_sum_of_a_score_of_contents_and_one_of_places(kind):
    attention = sharpen(kind(12, 3))
    x, queries, sought = randn(2, 4, 12), randn(4, 12, seed=2), randn(2, 4, 12, seed=3)
    memory, places = randn(2, 7, 12, seed=4), randn(7, 12, seed=5)
    remembered = attention.remember(memory, Context(positions=places))
    _, maps = attention.seek(x, queries, remembered, Context(positions=sought))
    asked, read = attention.query(x), attention.key(memory)
    if kind is FirstConditionalAttention:
        asked, read = asked + attention.query_object(queries), read + attention.key_place(places)
    for head in range(3):
        own = slice(4 * head, 4 * head + 4)
        contents = asked[..., own] @ read[..., own].mT
        of_places = attention.query_place(sought)[..., own] @ attention.key_place(places)[..., own].mT
        assert_same(maps[""][:, head], ((contents + of_places) / math.sqrt(8)).softmax(-1))


def test_the_first_block_seeks_objects_at_their_points_and_the_next_where_their_states_say():
    model = sharpen(conditional_detector(FEW))
    decoder, asked = model.decoder, []
    for block in decoder.blocks:
        block.register_forward_pre_hook(lambda _, given: asked.append(given))
    pixels = randn(2, 2, 16, 24)
    model(pixels)
    (*_, first), (state, *_, second) = asked
    x, y = decoder.points().sigmoid().unbind(-1)
    period = 10000 ** (torch.arange(3, dtype=torch.float64) / 3)
    waves = [[wave(2 * math.pi * at[:, None] / period) for wave in (torch.sin, torch.cos)] for at in (y, x)]
    expected = torch.cat([torch.stack(half, -1).flatten(1) for half in waves], -1)
    assert_same(first.positions, expected.expand(2, -1, -1), 1e-5)
    assert_same(second.positions, decoder.scale(state) * expected, 1e-5)
    with torch.no_grad():  # boxes without an offset have their middle at the points
        for layer in model.head.box[-1].parameters():
            layer.zero_()
    assert_same(model(pixels)[1][0, :, :2], torch.stack((x, y), -1))


def test_whatever_stands_in_the_padding_the_answer_is_the_same():
    model = sharpen(conditional_detector(FEW))
    visible = torch.tensor([[True, True, False, False, False, False], [True] * 6])
    pixels, others = randn(2, 2, 16, 24), randn(2, 2, 16, 24, seed=9)
    others[0, :, :8, :16], others[1] = pixels[0, :, :8, :16], pixels[1]
    with torch.no_grad():
        *given, maps = model(pixels, visible)
        *same, others = model(others, visible)
        assert_same_maps(maps, others, 0)
        for one, other in zip(given, same, strict=True):
            assert_same(one, other, 0)
        assert all((maps[name][0, :, :, 2:] == 0).all() for name in maps if name.endswith("cross"))


def test_a_fresh_model_expects_few_objects_of_each_class():
    assert_same(conditional_detector(FEW).head.classes.bias.sigmoid().detach(), torch.full((3,), 0.01), 1e-6)
