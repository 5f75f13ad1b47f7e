import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from model.parts.attention import Context, MultiHeadAttention, attend, causal, under
from tests.samples.attention_reference import assert_same, attention, copy_attention, randn, sharpen, weights_of

WIDTH, HEADS = 24, 3
PADDED = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])  # (batch, key)
SOME = torch.tensor([[1, 0, 1, 1, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 1, 0, 1]]).bool()  # (query, key)
MASKS = {
    "none": None,
    "a row each": SOME,
    "padding": PADDED[:, None, None, :],
    "both": SOME[2:][[0, 1, 0, 1]] & PADDED[:, None, None, :],
}


def projected():
    return randn(2, 3, 4, 8, seed=1) * 2, randn(2, 3, 5, 8, seed=2) * 2, randn(2, 3, 5, 6, seed=3)


def test_two_tokens_give_the_numbers_worked_out_by_hand():
    x = torch.tensor([[1.0, 2, 3], [4, 5, 6]], dtype=torch.float64)
    query = x @ torch.tensor([[0.01, 0.03], [0.02, 0.02], [0.03, 0.01]], dtype=torch.float64)
    key = x @ torch.tensor([[0.05, 0.05], [0.06, 0.05], [0.07, 0.05]], dtype=torch.float64)
    value = x @ torch.tensor([[0.02, 0.02], [0.01, 0.02], [0.01, 0.01]], dtype=torch.float64)
    mixed, weights = attend(query, key, value)
    assert_same(query, torch.tensor([[0.14, 0.10], [0.32, 0.28]], dtype=torch.float64))
    expected = [[0.478694, 0.521306], [0.447375, 0.552625]]
    assert_same(weights, torch.tensor(expected, dtype=torch.float64), tolerance=5e-7)
    expected = [[0.132557, 0.168196], [0.136315, 0.172894]]
    assert_same(mixed, torch.tensor(expected, dtype=torch.float64), tolerance=5e-7)


def test_the_same_numbers_come_out_of_a_layer_without_biases():
    layer = MultiHeadAttention(3, 1).double()
    parts = {
        layer.query: [[0.01, 0.03, 0], [0.02, 0.02, 0], [0.03, 0.01, 0]],
        layer.key: [[0.05, 0.05, 0], [0.06, 0.05, 0], [0.07, 0.05, 0]],
        layer.value: [[0.02, 0.02, 0], [0.01, 0.02, 0], [0.01, 0.01, 0]],
        layer.output: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    }
    with torch.no_grad():
        for part, matrix in parts.items():
            part.weight.copy_(torch.tensor(matrix).T)
            part.bias.zero_()
        layer.query.weight *= math.sqrt(3 / 2)  # the third, empty dimension counts in the width that is divided by
    x = torch.tensor([[[1.0, 2, 3], [4, 5, 6]]], dtype=torch.float64)
    mixed, maps = layer(x)
    expected = [[[0.132557, 0.168196, 0], [0.136315, 0.172894, 0]]]
    assert_same(mixed, torch.tensor(expected, dtype=torch.float64), tolerance=5e-7)
    expected = [[[[0.478694, 0.521306], [0.447375, 0.552625]]]]
    assert_same(maps[""], torch.tensor(expected, dtype=torch.float64), tolerance=5e-7)


def test_scores_are_divided_by_the_root_of_the_width():
    query = torch.ones(1, 64)
    key = torch.tensor([[112 / 64], [96 / 64]]).expand(2, 64)
    assert (query @ key.T).tolist() == [[112, 96]]
    _, weights = attend(query, key, torch.zeros(2, 1))
    assert_same(weights, torch.tensor([[14.0, 12.0]]).softmax(-1), tolerance=1e-6)
    assert [round(weight, 2) for weight in weights[0].tolist()] == [0.88, 0.12]


@pytest.mark.parametrize("visible", MASKS.values(), ids=MASKS)
def test_the_mix_is_that_of_torch(visible):
    query, key, value = projected()
    mixed, weights = attend(query, key, value, visible)
    assert_same(mixed, F.scaled_dot_product_attention(query, key, value, visible))
    assert_same(mixed, weights @ value)
    assert weights.max() > 0.9


def test_a_causal_mix_is_that_of_torch():
    query, key, value = randn(2, 3, 7, 8, seed=1), randn(2, 3, 7, 8, seed=2), randn(2, 3, 7, 8, seed=3)
    mixed, _ = attend(query, key, value, causal(7))
    assert_same(mixed, F.scaled_dot_product_attention(query, key, value, is_causal=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("visible", MASKS.values(), ids=MASKS)
def test_every_row_is_a_distribution_and_a_hidden_key_weighs_exactly_nothing(dtype, visible):
    query, key, value = (tensor.to(dtype) for tensor in projected())
    mixed, weights = attend(query, key, value, visible)
    assert mixed.dtype == weights.dtype == dtype
    assert (weights >= 0).all()
    assert_same(weights.double().sum(-1), torch.ones(2, 3, 4, dtype=torch.float64), 8 * torch.finfo(dtype).eps)
    if visible is not None:
        hidden = weights.masked_select(~visible)
        assert len(hidden)
        assert (hidden == 0).all()


def test_a_hidden_key_weighs_exactly_nothing_beside_very_low_scores():
    low = torch.full((1, 3), 1e4)
    _, weights = attend(-low, torch.stack((low[0], low[0], -low[0])), torch.eye(3), torch.tensor([True, True, False]))
    assert weights.tolist() == [[0.5, 0.5, 0]]


def test_what_is_hidden_does_not_reach_the_mix():
    query, key, value = projected()
    visible = MASKS["both"]
    mixed, weights = attend(query, key, value, visible)
    never = ~PADDED[:, None, :, None]
    mixed_again, weights_again = attend(query, key.masked_fill(never, 1e3), value.masked_fill(never, -1e3), visible)
    assert_same(mixed_again, mixed)
    assert_same(weights_again, weights)


def test_a_row_that_sees_nothing_is_uniform():
    query, key, value = projected()
    visible = SOME.clone()
    visible[1] = False
    mixed, weights = attend(query, key, value, visible)
    assert_same(weights[:, :, 1], torch.full((2, 3, 5), 1 / 5, dtype=torch.float64))
    assert_same(mixed[:, :, 1], value.mean(-2))


def test_attending_leaves_its_inputs_alone():
    given = [*projected(), MASKS["both"]]
    before = [tensor.clone() for tensor in given]
    attend(*given)
    assert all(torch.equal(now, then) for now, then in zip(given, before, strict=True))


def test_a_causal_mask_shows_a_token_itself_and_what_came_before():
    assert causal(4).tolist() == [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, False],
        [True, True, True, True],
    ]
    assert causal(2, torch.device("meta")).device.type == "meta"


def test_a_causal_map_gives_exactly_nothing_to_later_tokens():
    layer, x = sharpen(MultiHeadAttention(WIDTH, HEADS)), randn(2, 6, WIDTH)
    _, maps = layer(x, Context(causal(6)))
    assert maps[""].shape == (2, HEADS, 6, 6)
    for query in range(6):
        assert (maps[""][:, :, query, query + 1 :] == 0).all()
        assert (maps[""][:, :, query, : query + 1] > 0).all()


LAYER_MASKS = {
    "none": (None, {}),
    "causal": (causal(5), {"attn_mask": ~causal(5)}),
    "padding": (PADDED[:, None, None, :], {"key_padding_mask": ~PADDED}),
    "both": (causal(5) & PADDED[:, None, None, :], {"attn_mask": ~causal(5), "key_padding_mask": ~PADDED}),
}


@pytest.mark.parametrize(("visible", "hidden"), LAYER_MASKS.values(), ids=LAYER_MASKS)
@pytest.mark.parametrize("seed", range(3))
def test_a_layer_gives_the_output_and_the_weights_of_each_head_that_torch_gives(visible, hidden, seed):
    ours = sharpen(MultiHeadAttention(WIDTH, HEADS), seed)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64)
    copy_attention(ours, theirs)
    x = randn(2, 5, WIDTH, seed=seed + 10)
    source = randn(2, 5, WIDTH, seed=seed + 20)
    for looked_at in (x, source):
        mixed, maps = ours.read(x, ours.remember(looked_at), Context(visible))
        expected, weights = theirs(x, looked_at, looked_at, average_attn_weights=False, **hidden)
        assert_same(mixed, expected)
        assert_same(maps[""], weights)


def test_a_layer_follows_the_equations_where_query_and_source_differ_in_length():
    layer = sharpen(MultiHeadAttention(WIDTH, HEADS))
    x, source = randn(2, 4, WIDTH, seed=1), randn(2, 5, WIDTH, seed=2)
    for visible in MASKS.values():
        mixed, maps = layer.read(x, layer.remember(source), Context(visible))
        shared = visible if visible is None or visible.dim() == 2 else visible[:, 0]  # (batch, 1 or query, key)
        expected, weights = attention(weights_of(layer), "module", HEADS, x.numpy(), source.numpy(), shared)
        assert_same(mixed, expected)
        assert_same(maps[""], weights)


def test_permuting_the_tokens_permutes_the_outputs_and_both_axes_of_the_map():
    layer, x = sharpen(MultiHeadAttention(WIDTH, HEADS)), randn(2, 6, WIDTH)
    order = torch.tensor([3, 5, 0, 2, 1, 4])
    mixed, maps = layer(x)
    permuted, permuted_maps = layer(x[:, order])
    assert_same(permuted, mixed[:, order])
    assert_same(permuted_maps[""], maps[""][:, :, order][:, :, :, order])


def test_permuting_only_the_source_permutes_only_the_keys():
    layer, x, source = sharpen(MultiHeadAttention(WIDTH, HEADS)), randn(2, 3, WIDTH), randn(2, 6, WIDTH, seed=2)
    order = torch.tensor([3, 5, 0, 2, 1, 4])
    mixed, maps = layer.read(x, layer.remember(source))
    permuted, permuted_maps = layer.read(x, layer.remember(source[:, order]))
    assert_same(permuted, mixed)
    assert_same(permuted_maps[""], maps[""][..., order])


def test_what_is_remembered_once_can_be_read_in_pieces():
    layer, x, source = sharpen(MultiHeadAttention(WIDTH, HEADS)), randn(2, 4, WIDTH), randn(2, 5, WIDTH, seed=2)
    remembered = layer.remember(source)
    assert [part.shape for part in remembered] == [(2, HEADS, 5, WIDTH // HEADS)] * 2
    mixed, maps = layer.read(x, layer.remember(source))
    for token in range(4):
        piece, piece_maps = layer.read(x[:, token : token + 1], remembered)
        assert_same(piece[:, 0], mixed[:, token])
        assert_same(piece_maps[""][:, :, 0], maps[""][:, :, token])


@pytest.mark.parametrize(("width", "heads"), [(10, 3), (8, 16), (8, 0), (8, -2)])
def test_a_width_that_the_heads_cannot_share_is_refused(width, heads):
    words = f"attention: width must be a multiple of heads, given width {width} and {heads} heads"
    with pytest.raises(ValueError, match=words):
        MultiHeadAttention(width, heads)


def test_paths_read_like_the_state_dict():
    one, two = torch.ones(1), torch.ones(2)
    assert under("attention", {"": one}) == {"attention": one}
    assert under("blocks.0", {"attention": one, "cross": two}) == {"blocks.0.attention": one, "blocks.0.cross": two}
