"""Caches: what is written where. That steps with a cache are a whole pass is tested with each model."""

import torch

from model.cache import before, put
from tests.samples.attention_reference import assert_same


def test_what_lies_before_a_position_and_what_is_put_there():
    past = torch.arange(24, dtype=torch.float64).reshape(2, 1, 4, 3)
    found = before(past, torch.tensor([1, 3]), 2)
    assert_same(found, torch.stack((torch.cat((torch.zeros(1, 3), past[0, 0, :1])), past[1, 0, 1:3])))
    new = -torch.ones(2, 3, dtype=torch.float64)
    written = put(past, torch.tensor([0, 2]), new)
    expected = past.clone()
    expected[0, 0, 0] = expected[1, 0, 2] = -1
    assert_same(written, expected)
