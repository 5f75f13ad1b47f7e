"""Caches: what is written where. That steps with a cache are a whole pass is tested with each model."""

import torch

from model.parts.cache import Slots, before, put, recording
from tests.samples.attention_reference import assert_same, randn


def test_what_lies_before_a_position_and_what_is_put_there():
    past = torch.arange(24, dtype=torch.float64).reshape(2, 1, 4, 3)
    found = before(past, torch.tensor([1, 3]), 2)
    assert_same(found, torch.stack((torch.cat((torch.zeros(1, 3), past[0, 0, :1])), past[1, 0, 1:3])))
    new = -torch.ones(2, 3, dtype=torch.float64)
    written = put(past, torch.tensor([0, 2]), new)
    expected = past.clone()
    expected[0, 0, 0] = expected[1, 0, 2] = -1
    assert_same(written, expected)


def test_a_recording_returns_what_it_is_given_and_keeps_it_in_order():
    seen = []
    recall, pairs = recording(seen), [(randn(1, 2), randn(1, 2, seed=seed)) for seed in range(2)]
    assert [recall(pair) is pair for pair in pairs] == [True, True]
    assert all(one is other for one, other in zip(seen, pairs, strict=True))


def test_a_slot_is_filled_at_each_row_s_position_and_those_up_to_it_are_visible():
    past = (randn(2, 3, 4, 5), randn(2, 3, 4, 5, seed=2))
    new = (randn(2, 3, 1, 5, seed=3), randn(2, 3, 1, 5, seed=4))
    slots = Slots([past], torch.tensor([0, 2]))
    given = slots.recalls[0](new)
    assert slots.visible[:, 0, 0].tolist() == [[True, False, False, False], [True, True, True, False]]
    assert slots.present == [given]
    for old, fresh, filled in zip(past, new, given, strict=True):
        expected = old.clone()
        expected[0, :, 0], expected[1, :, 2] = fresh[0, :, 0], fresh[1, :, 0]
        assert_same(filled, expected)
