"""Variants against each other: their sizes, their batches, their positions."""

from dataclasses import replace

import pytest
import torch

from model.architectures.vit_variants import PLAIN, VARIANTS, parallel
from model.catalogue import build
from model.parts.positions import NoPositions, SinusoidalPositions
from tests.samples.attention_reference import assert_batch_is_its_rows, assert_same, randn, sharpen


def test_an_odd_number_of_layers_cannot_be_parallel():
    with pytest.raises(ValueError, match="parallel: layers must be even, two side by side, given 3"):
        parallel(replace(PLAIN, layers=3))


def test_variants_have_as_many_parameters_as_the_plain_one():
    counts = {name: sum(one.numel() for one in build(name).parameters()) for name in VARIANTS}
    assert {name: count for name, count in counts.items() if abs(count / counts["digits-plain"] - 1) > 0.01} == {}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_of_five_is_five_of_one(name):
    """In float64, and each variant answers otherwise than the plain one."""
    assert_batch_is_its_rows(sharpen(build(name)), randn(5, 1, 28, 28))


def test_positions_that_nobody_learned():
    index = torch.arange(5)
    assert_same(NoPositions()(index), torch.zeros(5, 1))
    assert NoPositions().half()(index).dtype == torch.float16
    assert not NoPositions().state_dict()
    ours = build("digits-sinusoidal")
    assert isinstance(ours.positions, SinusoidalPositions)
    patches = randn(1, 1, 28, 28).float()
    turned = torch.roll(patches, 7, dims=3)  # by one patch
    blind = build("digits-no-positions")
    assert_same(blind(patches)[0], blind(turned)[0], 1e-5)
    assert (ours(patches)[0] - ours(turned)[0]).abs().max() > 1e-3
