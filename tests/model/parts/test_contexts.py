"""What layers are told of a text, of which some tokens are padding."""

import torch
from torch import nn

from model.parts.attention import Context, causal, visible_keys
from model.parts.cache import Slots
from model.parts.contexts import (
    Apart,
    Around,
    Before,
    Biased,
    Causal,
    Disentangled,
    LocalAndGlobal,
    SeenAlone,
    Sight,
    Sights,
    Turned,
    Unplaced,
)
from model.parts.positions import RelativeBias, Rotary
from tests.samples.attention_reference import assert_same, sharpen

VISIBLE = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
INDEX = torch.arange(6)


def test_tokens_see_what_is_visible_and_nothing_else_is_said():
    given = Unplaced()(VISIBLE)
    assert torch.equal(given.visible, VISIBLE[:, None, None])
    assert given == Context(given.visible)


def test_what_is_later_is_not_seen():
    given = Causal()(VISIBLE).visible
    for text in range(2):
        for query in range(6):
            assert [bool(one) for one in given[text, 0, query]] == [
                key <= query and bool(VISIBLE[text, key]) for key in range(6)
            ]


def test_a_text_that_is_read_at_once_sees_what_a_decoder_sees_of_it_without_padding():
    rotary = Rotary(4, 30.0)
    sights = Sights([Sight(rotary), Sight(rotary, 3)], [0, 1])
    for layer, given in enumerate(Before(sights)(VISIBLE)):
        for text, length in enumerate((6, 4)):
            alone = sights(causal(length), torch.arange(length))[layer]
            assert torch.equal(given.visible[text, 0, :length, :length], alone.visible)
            assert not given.visible[text, 0, :, length:].any()
            for turned, wanted in zip(given.rotation, alone.rotation, strict=True):
                assert_same(turned[0, :length], wanted)


def test_a_text_whose_tokens_see_what_is_behind_them_sees_all_that_is_visible():
    (given,) = Around(Sights([Sight(Rotary(4, 30.0))], [0]))(VISIBLE)
    assert torch.equal(given.visible, VISIBLE[:, None, None].expand(-1, -1, 6, -1))
    assert_same(given.rotation.sine[0], Rotary(4, 30.0)(INDEX).sine)


def test_a_bias_is_that_of_the_distances_of_all_tokens():
    bias = sharpen(RelativeBias(2, 8, 16))
    given = Biased(bias)(VISIBLE)
    assert_same(given.bias, bias(INDEX, INDEX))
    assert torch.equal(given.visible, visible_keys(VISIBLE))


def test_queries_and_keys_of_a_decoder_s_step_have_the_bias_of_their_distances():
    biases = [sharpen(RelativeBias(2, 8, 16, both_ways=False)) for _ in range(2)]
    at, seen = torch.tensor([[4], [0]]), (torch.arange(6) <= torch.tensor([[4], [0]]))[:, None, None]
    one, each = Apart(biases[:1])(seen, at, INDEX), Apart(biases)(seen, at, INDEX)
    assert torch.equal(one.visible, seen)
    assert_same(one.bias, each[0].bias)
    for given, bias in zip(each, biases, strict=True):
        assert_same(given.bias, torch.stack([bias(row, INDEX) for row in at]))
    assert SeenAlone()(seen, at, INDEX) == Context(seen)


def test_rotations_are_those_of_the_places_of_tokens():
    given, wanted = Turned(Rotary(4, 30.0))(VISIBLE), Rotary(4, 30.0)(INDEX)
    assert all(torch.equal(one, other) for one, other in zip(given.rotation, wanted, strict=True))


def test_local_layers_see_near_tokens_and_are_turned_by_angles_of_their_own():
    whole, near = Rotary(4, 900.0), Rotary(4, 30.0)
    given = LocalAndGlobal([True, False, True], 2, whole, near)(VISIBLE)
    for context, rotary, everywhere in zip(given, (whole, near, whole), (True, False, True), strict=True):
        for text, query, key in ((0, 0, 2), (0, 0, 3), (0, 5, 1), (1, 2, 3), (1, 2, 4)):
            seen = context.visible.expand(2, 1, 6, 6)[text, 0, query, key]
            assert seen == (bool(VISIBLE[text, key]) and (everywhere or abs(query - key) <= 2))
        assert torch.equal(context.rotation.sine, rotary(INDEX).sine)


def test_distances_have_the_normalised_states_of_their_classes():
    classes = torch.tensor([0, 0, 1, 1, 2, 3, 4, 4, 4, 5, 5])  # of distances from -5 to 5
    module = sharpen(Disentangled(classes, nn.Embedding(6, 8), nn.LayerNorm(8)))
    states, found = module(VISIBLE).distances
    assert_same(states, module.norm(module.states.weight))
    for query, key in ((0, 0), (0, 5), (5, 0), (3, 1)):
        assert found[query, key] == classes[query - key + 5]


def test_a_window_shows_the_last_tokens_in_one_pass_and_in_a_step():
    sight = Sight(window=3)
    whole = sight(causal(6), INDEX).visible
    assert [[int(one) for one in row] for row in whole] == [
        [int(0 <= query - key < 3) for key in range(6)] for query in range(6)
    ]
    position = torch.tensor([1, 4])
    slots = Slots([(torch.zeros(2, 1, 6, 4),) * 2], position)
    step = sight(slots.visible, position[:, None]).visible
    assert step.shape == (2, 1, 1, 6)
    assert torch.equal(step[:, 0, 0], whole[position])


def test_each_layer_sees_in_its_way():
    rotary = Rotary(4, 30.0)
    given = Sights([Sight(rotary), Sight(window=1)], [1, 0, 1])(causal(6), INDEX)
    assert [context.rotation is None for context in given] == [True, False, True]
    assert_same(given[1].rotation.sine, rotary(INDEX).sine)
    assert torch.equal(given[0].visible, torch.eye(6, dtype=torch.bool))
    assert torch.equal(given[1].visible, causal(6))
