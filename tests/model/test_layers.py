import math

import numpy as np
import pytest
import torch
from torch import nn

from model.layers import (
    ConvolutionalGate,
    DepthwiseConvolution,
    Embedding,
    FeedForward,
    GatedFeedForward,
    LayerScale,
    Patches,
    QuickGELU,
    SinusoidalPositions,
    sinusoids,
    tied_linear,
)
from tests.samples.attention_reference import assert_same, feed_forward, gelu, linear, randn, relu, sharpen, weights_of

X = randn(3, 5, 8)


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


def test_an_embedding_is_the_scaled_token_plus_its_position():
    tokens = nn.Embedding(5, 8, dtype=torch.float64)
    embedding = Embedding(tokens, SinusoidalPositions(6, 8), scale=math.sqrt(8))
    given = torch.tensor([[4, 0, 4], [1, 2, 3]])
    w, rows = tokens.weight.detach().numpy(), table(6, 8)
    for index in (torch.arange(3), torch.tensor([[0, 1, 2], [5, 3, 4]])):
        assert_same(embedding(given, index), w[given] * math.sqrt(8) + rows[index], tolerance=1e-6)


def test_learned_positions_are_called_the_same_way():
    tokens, positions = sharpen(nn.Embedding(5, 8), seed=1), sharpen(nn.Embedding(6, 8), seed=2)
    given = Embedding(tokens, positions)(torch.tensor([[4, 0]]), torch.tensor([5, 1]))
    assert_same(given, tokens.weight[[4, 0]][None] + positions.weight[[5, 1]][None])


@pytest.mark.parametrize(("activation", "bend"), [(nn.ReLU(), relu), (nn.GELU(), gelu)], ids=["relu", "gelu"])
def test_a_feed_forward_follows_its_equation(activation, bend):
    module, x = sharpen(FeedForward(6, 10, activation)), randn(2, 3, 6)
    assert_same(module(x), feed_forward(weights_of(module), "module", x.numpy(), bend))


def test_a_feed_forward_treats_every_position_alike():
    module, x = sharpen(FeedForward(6, 10, nn.ReLU())), randn(2, 3, 6)
    assert_same(module(x)[:, 1], module(x[:, 1]))


def test_patches_are_cut_and_projected_in_reading_order():
    patches, pixels = sharpen(Patches((6, 12), 2, (3, 3), 5)), randn(2, 2, 6, 12)  # 2 x 4 patches
    w = weights_of(patches)
    kernel, bias = w["module.projection.weight"].reshape(5, -1), w["module.projection.bias"]
    expected = [
        [kernel @ image[:, top : top + 3, left : left + 3].ravel() + bias for top in (0, 3) for left in (0, 3, 6, 9)]
        for image in pixels.numpy()
    ]
    assert_same(patches(pixels), np.array(expected))


@pytest.mark.parametrize(("row", "column", "patch"), [(0, 0, 0), (1, 11, 3), (3, 0, 4), (5, 6, 6)])
def test_a_pixel_changes_its_own_patch_and_no_other(row, column, patch):
    patches, pixels = sharpen(Patches((6, 12), 2, (3, 3), 5)), randn(1, 2, 6, 12)
    touched = pixels.clone()
    touched[0, 1, row, column] += 1
    changed = (patches(touched) != patches(pixels))[0].any(-1)
    assert changed.nonzero().flatten().tolist() == [patch]


@pytest.mark.parametrize("size", [(6, 13), (7, 12), (12, 6), (3, 24)])
def test_an_image_of_another_size_is_refused_even_where_it_has_as_many_patches(size):
    with pytest.raises(ValueError, match=f"image: must be 6x12 pixels, given {size[0]}x{size[1]}"):
        Patches((6, 12), 2, (3, 3), 5)(torch.zeros(1, 2, *size))


def test_layer_scale_weighs_each_channel_and_begins_where_it_is_told():
    part, x = LayerScale(12, 0.1), randn(2, 7, 12)
    assert_same(part.double()(x), 0.1 * x, 1e-7)
    part.weight.data = randn(12, seed=2)
    assert_same(part(x).detach(), x.numpy() @ np.diag(part.weight.detach().numpy()))


def test_convolutions_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="depth-wise convolution: kernel must be odd, given 4"):
        DepthwiseConvolution(8, 4)
    with pytest.raises(ValueError, match="convolutional gate: width must be even, to be split in halves, given 7"):
        ConvolutionalGate(7, 3)


def test_a_gated_feed_forward_is_swiglu():
    module = sharpen(GatedFeedForward(8, 6))
    w, x = weights_of(module), X.numpy()
    gate = linear(w, "module.gate", x)
    assert_same(module(X), linear(w, "module.output", gate / (1 + np.exp(-gate)) * linear(w, "module.up", x)))


def test_quick_gelu_is_its_formula():
    assert_same(QuickGELU()(X), X.numpy() / (1 + np.exp(-1.702 * X.numpy())))


def test_sinusoids_in_halves_are_the_interleaved_ones_in_another_order():
    interleaved, halves = sinusoids(7, 8), sinusoids(7, 8, interleaved=False)
    assert torch.equal(halves, torch.cat((interleaved[:, 0::2], interleaved[:, 1::2]), dim=1))


@pytest.mark.parametrize("bias", [False, True])
def test_a_tied_layer_scores_states_by_the_rows_of_the_embedding(bias):
    tokens = nn.Embedding(5, 8, dtype=torch.float64)
    layer = tied_linear(tokens, bias=bias).double()
    layer.weight = tokens.weight  # which `double` made anew
    expected = X @ tokens.weight.T + (layer.bias if bias else 0)
    assert_same(layer(X), expected)
    assert tied_linear(tokens).weight is tokens.weight
