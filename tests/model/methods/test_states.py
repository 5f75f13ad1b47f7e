"""Likeness of states against cosines in plain loops."""

import pytest
import torch

from model.methods.states import likeness

STATES = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 3
PARTS = torch.tensor([False, True, True, True, True, False])


def test_likeness_is_the_cosine_of_what_differs_from_the_mean_of_the_parts():
    found = likeness(STATES, PARTS)
    middle = [sum(float(STATES[token, channel]) for token in range(1, 5)) / 4 for channel in range(4)]
    apart = [[float(value) - mean for value, mean in zip(row, middle, strict=True)] for row in STATES]
    for first, one in enumerate(apart):
        for second, other in enumerate(apart):
            product = sum(a * b for a, b in zip(one, other, strict=True))
            lengths = sum(a * a for a in one) ** 0.5 * sum(b * b for b in other) ** 0.5
            assert float(found[first, second]) == pytest.approx(product / lengths, abs=1e-12)


def test_a_single_part_is_like_nothing_since_it_is_the_mean():
    assert likeness(STATES[:1], PARTS[1:2]).tolist() == [[0.0]]
