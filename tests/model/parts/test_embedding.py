import math

import numpy as np
import pytest
import torch
from torch import nn

from model.parts.convolutions import ConvolutionalGate, DepthwiseConvolution
from model.parts.embedding import Embedding, Patches, tied_linear
from model.parts.positions import SinusoidalPositions, sinusoids
from tests.samples.attention_reference import assert_same, randn, sharpen, weights_of

X = randn(3, 5, 8)


def test_an_embedding_is_the_scaled_token_plus_its_position():
    tokens = nn.Embedding(5, 8, dtype=torch.float64)
    embedding = Embedding(tokens, SinusoidalPositions(6, 8), scale=math.sqrt(8))
    given = torch.tensor([[4, 0, 4], [1, 2, 3]])
    w, rows = tokens.weight.detach().numpy(), sinusoids(6, 8).numpy()
    for index in (torch.arange(3), torch.tensor([[0, 1, 2], [5, 3, 4]])):
        assert_same(embedding(given, index), w[given] * math.sqrt(8) + rows[index], tolerance=1e-6)


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


def test_convolutions_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="depth-wise convolution: kernel must be odd, given 4"):
        DepthwiseConvolution(8, 4)
    with pytest.raises(ValueError, match="convolutional gate: width must be even, to be split in halves, given 7"):
        ConvolutionalGate(7, 3)


@pytest.mark.parametrize("bias", [False, True])
def test_a_tied_layer_scores_states_by_the_rows_of_the_embedding(bias):
    tokens = nn.Embedding(5, 8, dtype=torch.float64)
    layer = tied_linear(tokens, bias=bias).double()
    layer.weight = tokens.weight  # which `double` made anew
    expected = X @ tokens.weight.T + (layer.bias if bias else 0)
    assert_same(layer(X), expected)
    assert tied_linear(tokens).weight is tokens.weight
