"""Positions as parts of attention, against their papers' equations, in one pass and with a cache."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from model.parts.attention import Context, MultiHeadAttention, Rotation, causal, rotated
from model.parts.blocks import PreNormBlock, Stack
from model.parts.cache import Slots, recording
from model.parts.embedding import Embedding
from model.parts.feed_forward import FeedForward, GatedFeedForward
from model.parts.norms import RMSNorm
from model.parts.positions import (
    GridBiases,
    GridRotary,
    RelativeBias,
    Rotary,
    SinusoidalPositions,
    near,
    offsets,
    sinusoids,
)
from tests.samples.attention_reference import assert_same, attention, randn, sharpen, weights_of

WIDTH, HEADS, KEY_HEADS, LENGTH = 24, 4, 2, 7
INDEX = torch.arange(LENGTH)


def turned(x, positions, theta):
    """Su et al. 2021, equation 12: pairs of a head as complex numbers, times e^(i m θ_j)."""
    width = x.shape[-1]
    pairs = x[..., : width // 2] + 1j * x[..., width // 2 :]
    angles = positions[:, None] * theta ** (-2 * np.arange(width // 2) / width)
    pairs = pairs * np.exp(1j * angles)
    return np.concatenate((pairs.real, pairs.imag), -1)


@pytest.mark.parametrize("theta", [10_000.0, 500.0])
def test_queries_and_keys_are_turned_by_their_positions(theta):
    x, positions = randn(2, HEADS, 3, 6), torch.tensor([0, 5, 1000])
    given = rotated(x, Rotary(6, theta).double()(positions))
    assert_same(given, turned(x.numpy(), positions.numpy(), theta), 2e-5)
    of_each = Rotary(6, theta).double()(positions.expand(2, -1))
    assert_same(rotated(x, of_each), given)


def test_what_is_behind_the_turned_entries_of_a_head_stays():
    x, positions = randn(2, HEADS, 3, 9), torch.tensor([0, 5, 40])
    given = rotated(x, Rotary(6, 30.0).double()(positions))
    assert_same(given[..., :6], turned(x[..., :6].numpy(), positions.numpy(), 30.0), 1e-5)
    assert torch.equal(given[..., 6:], x[..., 6:])


def test_a_score_of_turned_vectors_depends_on_their_distance_alone():
    query, key = randn(1, 1, 1, 8), randn(1, 1, 1, 8, seed=2)

    def score(of_query, of_key):
        rotary = Rotary(8).double()
        turn = [rotated(x, rotary(torch.tensor([at]))) for x, at in ((query, of_query), (key, of_key))]
        return (turn[0] @ turn[1].mT).item()

    assert score(3, 1) == pytest.approx(score(43, 41), abs=1e-5)
    assert abs(score(3, 1) - score(1, 3)) > 1e-2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_far_positions_in_half_floats_are_turned_by_angles_of_single_ones(dtype):
    """In half floats 2001 is 2000, or 2032."""
    rotary, positions = Rotary(6, 50.0).to(dtype), torch.tensor([2000, 2001, 4093])
    assert rotary.frequencies.dtype == torch.float32
    x = randn(1, 1, 3, 6).to(dtype)
    given = rotated(x, rotary(positions))
    assert given.dtype == dtype
    assert_same(given.double(), turned(x.double().numpy(), positions.numpy(), 50.0), 0.02)
    assert Rotary(6).double().to(dtype).double().frequencies.dtype == torch.float64


def test_an_odd_width_of_a_head_is_refused():
    with pytest.raises(ValueError, match=r"^rotary positions: width of a head must be even, given 5$"):
        Rotary(5)


def bucket(distance, buckets, farthest, *, both_ways):
    """Raffel et al. 2020, section 2.1, as in the authors' code."""
    start = 0
    if both_ways:
        buckets //= 2
        start = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return start + distance
    grown = exact + int(math.log(distance / exact) / math.log(farthest / exact) * (buckets - exact))
    return start + min(grown, buckets - 1)


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(8, 16), (32, 128)])
def test_a_bias_is_that_of_the_bucket_of_a_distance(buckets, farthest, both_ways):
    module = RelativeBias(HEADS, buckets, farthest, both_ways=both_ways).double()
    query, key = torch.tensor([0, 3, 300]), torch.tensor([0, 1, 2, 9, 40, 299, 900])
    given, table = module(query, key), module.table.weight.detach()
    for row, column in np.ndindex(3, 7):
        wanted = bucket(int(key[column] - query[row]), buckets, farthest, both_ways=both_ways)
        assert_same(given[:, row, column].detach(), table[wanted])
    assert given.shape == (HEADS, 3, 7)
    assert module(query.expand(2, -1), key).shape == (2, HEADS, 3, 7)


@pytest.mark.parametrize(
    ("buckets", "farthest", "both_ways", "words"),
    [
        (3, 128, True, "buckets of distances: must be at least 2 for each direction, given 1"),
        (32, 8, True, "farthest distance: must be beyond the 8 that have a bucket each, given 8"),
        (32, 16, False, "farthest distance: must be beyond the 16 that have a bucket each, given 16"),
    ],
)
def test_buckets_that_cannot_grow_are_refused(buckets, farthest, both_ways, words):
    with pytest.raises(ValueError, match=words):
        RelativeBias(HEADS, buckets, farthest, both_ways=both_ways)


def test_near_keys_are_those_within_reach():
    seen = near(INDEX, INDEX, 2)
    assert all(bool(seen[row, column]) == (abs(row - column) <= 2) for row, column in np.ndindex(LENGTH, LENGTH))


ROWS, COLUMNS = 2, 3
CELLS = [(row, column) for row in range(ROWS) for column in range(COLUMNS)]


def test_differences_of_cells_are_told_apart_and_counted_from_the_farthest_key():
    found = offsets(ROWS, COLUMNS)
    differences = {
        (query[0] - key[0], query[1] - key[1]): int(found[at, looked])
        for at, query in enumerate(CELLS)
        for looked, key in enumerate(CELLS)
    }
    assert [differences[one] for one in sorted(differences)] == list(range(15))


@pytest.mark.parametrize(("own", "shared"), [(2, False), (0, True), (2, True)])
def test_a_grid_s_biases_are_those_of_differences_and_of_the_class_token(own, shared):
    biases = sharpen(GridBiases(HEADS, ROWS, COLUMNS, own=own, shared=shared))
    tables = weights_of(biases)
    places = sorted({(down, across) for down in (-1, 0, 1) for across in (-2, -1, 0, 1, 2)})

    def row_of(query, key):
        if query is None or key is None:
            return len(places) + (0 if key is not None else 1 if query is not None else 2)
        return places.index((query[0] - key[0], query[1] - key[1]))

    contexts = biases() if own else [biases()] * 2
    tokens = [None, *CELLS]
    for layer, context in enumerate(contexts):
        table = tables.get(f"module.own.{layer}.weight", 0) + tables.get("module.shared.0.weight", 0)
        wanted = np.array([[table[row_of(query, key)] for key in tokens] for query in tokens]).transpose(2, 0, 1)
        assert_same(context.bias, wanted)


def test_cells_of_a_grid_are_turned_by_their_centres_and_other_tokens_not_at_all():
    """Siméoni et al. 2025: coordinates in [-1, 1] times 2π, of rows for the first half of the pairs."""
    x = randn(1, HEADS, 2 + ROWS * COLUMNS, 8)
    context = GridRotary(8, ROWS, COLUMNS, prefix=2, theta=7.0).double()()
    pairs, angles = x.numpy()[..., :4] + 1j * x.numpy()[..., 4:], np.zeros((2 + ROWS * COLUMNS, 4))
    for token, (row, column) in enumerate(CELLS, 2):
        down, across = (2 * (at + 0.5) / side - 1 for at, side in ((row, ROWS), (column, COLUMNS)))
        angles[token] = 2 * np.pi * np.array([down, down / 7**0.5, across, across / 7**0.5])
    pairs = pairs * np.exp(1j * angles)
    found = rotated(x, context.rotation)
    assert_same(found, np.concatenate((pairs.real, pairs.imag), -1), 2e-6)
    assert_same(found[:, :, :2], x[:, :, :2])


def test_a_head_whose_width_is_no_multiple_of_4_is_not_turned_on_a_grid():
    words = r"^rotary positions of a grid: width of a head must be a multiple of 4, given 6$"
    with pytest.raises(ValueError, match=words):
        GridRotary(6, ROWS, COLUMNS, prefix=1, theta=100.0)


def block(**options):
    attention = MultiHeadAttention(WIDTH, HEADS, bias=False, output_bias=False, **options)
    return PreNormBlock(attention, GatedFeedForward(WIDTH, 20, nn.GELU(), bias=False), lambda: RMSNorm(WIDTH))


def grouped(**options):
    return sharpen(MultiHeadAttention(WIDTH, HEADS, key_heads=KEY_HEADS, **options))


@pytest.mark.parametrize("head_width", [6, 10])
def test_several_heads_of_queries_share_a_head_of_keys_and_values(head_width):
    """As many heads of keys whose weights are repeated give the same."""
    ours = grouped(head_width=head_width)
    whole = sharpen(MultiHeadAttention(WIDTH, HEADS, head_width=head_width))
    held = dict(ours.state_dict())
    for name in ("key.weight", "key.bias", "value.weight", "value.bias"):
        by_head = held[name].unflatten(0, (KEY_HEADS, head_width))
        held[name] = by_head.repeat_interleave(HEADS // KEY_HEADS, 0).flatten(0, 1)
    whole.load_state_dict(held)
    x = randn(2, LENGTH, WIDTH)
    mixed, maps = ours(x, Context(causal(LENGTH)))
    wanted, weights = attention(weights_of(whole), "module", HEADS, x.numpy(), x.numpy(), causal(LENGTH).numpy())
    assert_same(mixed.detach(), wanted)
    assert_same(maps[""].detach(), weights)
    assert [one.shape[1] for one in ours.remember(x)] == [KEY_HEADS, KEY_HEADS]


def test_heads_that_key_heads_do_not_divide_are_refused():
    with pytest.raises(ValueError, match=r"^attention: heads must be a multiple of key heads, given 4 and 3$"):
        MultiHeadAttention(WIDTH, 4, key_heads=3)


def test_queries_and_keys_are_normalised_before_they_are_turned():
    module, x = grouped(norm=RMSNorm), randn(1, LENGTH, WIDTH)
    rotation = Rotary(WIDTH // HEADS).double()(INDEX)
    key, _ = module.remember(x, Context(rotation=rotation))
    plain = module.key(x).unflatten(-1, (KEY_HEADS, -1)).transpose(1, 2)
    normal = plain / (plain.square().mean(-1, keepdim=True) + 1e-6).sqrt() * module.key_norm.weight
    assert_same(key, rotated(normal, rotation))


def test_what_is_added_to_scores_is_added_before_the_softmax():
    module, x, bias = sharpen(MultiHeadAttention(WIDTH, HEADS)), randn(2, LENGTH, WIDTH), randn(HEADS, LENGTH, LENGTH)
    key, _ = module.remember(x)
    query = module.query(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
    wanted = (query @ key.mT / math.sqrt(WIDTH // HEADS) + bias).softmax(-1)
    assert_same(module(x, Context(bias=bias))[1][""], wanted)


def contexts_of(rotary, bias, query, key, visible):
    """Two layers: one looks at everything visible, the other at what is near."""
    whole = Context(visible, bias(query, key) if bias else None, rotary(query) if rotary else None)
    return [whole, Context(visible & near(query, key, 2).reshape(visible.shape), whole.bias, whole.rotation)]


@pytest.mark.parametrize("parts", ["rotary", "bias", "both"])
def test_a_decoder_with_a_cache_gives_what_one_pass_gives(parts):
    stack = sharpen(Stack([block(key_heads=KEY_HEADS, norm=RMSNorm) for _ in range(2)], RMSNorm(WIDTH)))
    rotary = Rotary(WIDTH // HEADS).double() if parts != "bias" else None
    bias = RelativeBias(HEADS, 8, 16, both_ways=False).double() if parts != "rotary" else None
    x, seen = randn(1, LENGTH, WIDTH), []
    recalls = [recording(seen)] * 2
    whole, maps = stack(x, contexts_of(rotary, bias, INDEX, INDEX, causal(LENGTH)), recalls)
    assert all(one.shape[1] == KEY_HEADS for pair in seen for one in pair)
    past = [tuple(torch.zeros_like(one) for one in pair) for pair in seen]
    for step in range(LENGTH):
        position = torch.tensor([step])
        slots = Slots(past, position)
        each = contexts_of(rotary, bias, position[:, None], INDEX, slots.visible)
        found, _ = stack(x[:, step : step + 1], each, slots.recalls)
        assert_same(found[:, 0].detach(), whole[:, step].detach(), 1e-9)
        past = slots.present
    assert (maps["blocks.1.attention"].detach()[0, :, 6, :4] == 0).all(), "the second layer looks at what is near"


def test_the_scale_of_a_norm_is_the_root_of_a_mean_square():
    norm, x = sharpen(RMSNorm(WIDTH, epsilon=0.1)), randn(3, WIDTH)
    wanted = x.numpy() / np.sqrt((x.numpy() ** 2).mean(-1, keepdims=True) + 0.1) * norm.weight.detach().numpy()
    assert_same(norm(x).detach(), wanted)


def test_a_root_mean_square_of_half_floats_is_finite():
    norm, x = RMSNorm(WIDTH).half(), 500 * randn(3, WIDTH)
    given = norm(x.half())
    assert given.dtype == torch.float16
    assert_same(given.double(), x / x.square().mean(-1, keepdim=True).sqrt(), 0.01)


def test_a_rotation_has_a_cosine_and_a_sine_of_each_pair():
    rotation = Rotary(6)(INDEX)
    assert isinstance(rotation, Rotation)
    assert_same(rotation.cosine.square() + rotation.sine.square(), torch.ones(LENGTH, 3), 1e-6)


def table(length, width):
    """The formula, one number after the other."""
    rows = np.empty((length, width))
    for position in range(length):
        for pair in range(width // 2):
            angle = position / 10000 ** (2 * pair / width)
            rows[position, 2 * pair] = math.sin(angle)
            rows[position, 2 * pair + 1] = math.cos(angle)
    return rows


def test_the_first_position_after_the_start_has_the_numbers_of_the_paper():
    assert [round(number, 6) for number in sinusoids(2, 512)[1, :5].tolist()] == [
        0.841471,  # sin 1
        0.540302,  # cos 1
        0.821856,  # sin of 1 / 10000^(2/512) = 0.964662
        0.569695,  # cos of the same
        0.801962,  # sin of 1 / 10000^(4/512) = 0.930573
    ]


@pytest.mark.parametrize(("length", "width"), [(60, 512), (7, 2), (9, 6)])
def test_the_whole_table_follows_the_formula(length, width):
    given = sinusoids(length, width)
    assert given.dtype == torch.get_default_dtype()
    assert_same(given.double(), table(length, width), tolerance=1e-7)


def test_far_positions_are_as_exact_as_near_ones():
    angle = 20_000 / 10000 ** (np.arange(0, 512, 2) / 512)
    far = sinusoids(20_001, 512)[20_000].double()
    assert_same(far, np.stack((np.sin(angle), np.cos(angle)), -1).ravel(), tolerance=1e-7)


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match="sinusoidal positions: width must be even, given 7"):
        sinusoids(4, 7)


def test_positions_are_looked_up_by_index_whatever_its_shape():
    positions = SinusoidalPositions(10, 8)
    rows = torch.tensor(table(10, 8), dtype=torch.float32)
    for index in (torch.tensor([3, 0, 9]), torch.tensor([[3, 0], [9, 9]])):
        assert_same(positions(index), rows[index], tolerance=1e-6)


def test_sinusoids_are_not_stored_with_the_weights():
    positions = SinusoidalPositions(10, 8)
    assert not positions.state_dict()
    assert not list(positions.parameters())


def test_learned_positions_are_called_the_same_way():
    tokens, positions = sharpen(nn.Embedding(5, 8), seed=1), sharpen(nn.Embedding(6, 8), seed=2)
    given = Embedding(tokens, positions)(torch.tensor([[4, 0]]), torch.tensor([5, 1]))
    assert_same(given, tokens.weight[[4, 0]][None] + positions.weight[[5, 1]][None])


def test_a_feed_forward_treats_every_position_alike():
    module, x = sharpen(FeedForward(6, 10, nn.ReLU())), randn(2, 3, 6)
    assert_same(module(x)[:, 1], module(x[:, 1]))


def test_sinusoids_in_halves_are_the_interleaved_ones_in_another_order():
    interleaved, halves = sinusoids(7, 8), sinusoids(7, 8, interleaved=False)
    assert torch.equal(halves, torch.cat((interleaved[:, 0::2], interleaved[:, 1::2]), dim=1))
