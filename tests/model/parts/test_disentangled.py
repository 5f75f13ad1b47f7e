"""Disentangled attention against its equation, one query and one key after the other, and the authors' buckets."""

import math

import numpy as np
import pytest
import torch

from model.parts.attention import Context, Distances
from model.parts.disentangled import DisentangledAttention, logarithmic_classes, plain_classes
from tests.samples.attention_reference import assert_same, linear, randn, sharpen, softmax, weights_of

WIDTH, HEADS, LENGTH, CLASSES = 8, 2, 5, 4


def test_scores_are_those_of_contents_and_distances():
    """He et al. 2021, equation 4, with δ(i, j) in the last term, as in the authors' code."""
    module, x, states = sharpen(DisentangledAttention(WIDTH, HEADS)), randn(2, LENGTH, WIDTH), randn(CLASSES, WIDTH)
    classes = torch.randint(CLASSES, (LENGTH, LENGTH), generator=torch.Generator().manual_seed(0))
    visible = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    mixed, maps = module(x, Context(visible[:, None, None], distances=Distances(states, classes)))
    w, size = weights_of(module), WIDTH // HEADS
    query, key, value = (linear(w, f"module.{part}", x.numpy()) for part in ("query", "key", "value"))
    of_query, of_key = (linear(w, f"module.{part}", states.numpy()) for part in ("query", "key"))
    expected = np.zeros((2, HEADS, LENGTH, LENGTH))
    for text, head, i, j in np.ndindex(expected.shape):
        own, near = slice(head * size, (head + 1) * size), int(classes[i, j])
        terms = (
            query[text, i, own] @ key[text, j, own],
            query[text, i, own] @ of_key[near, own],
            key[text, j, own] @ of_query[near, own],
        )
        expected[text, head, i, j] = sum(terms) / math.sqrt(3 * size) if visible[text, j] else -np.inf
    expected = softmax(expected)
    assert_same(maps[""], expected)
    by_head = value.reshape(2, LENGTH, HEADS, size).swapaxes(1, 2)
    joined = (expected @ by_head).swapaxes(1, 2).reshape(2, LENGTH, WIDTH)
    assert_same(mixed, linear(w, "module.output", joined))


def test_a_context_without_distances_is_refused():
    with pytest.raises(ValueError, match=r"^disentangled attention: must be given distances, given none$"):
        DisentangledAttention(WIDTH, HEADS)(torch.zeros(1, LENGTH, WIDTH))


def bucket(distance, buckets, farthest):
    """He et al. 2023, in whose code distances are those of a query from a key."""
    middle = buckets // 2
    if abs(distance) <= middle:
        return distance
    grown = math.ceil(math.log(abs(distance) / middle) / math.log((farthest - 1) / middle) * (middle - 1)) + middle
    return int(math.copysign(grown, distance))


@pytest.mark.parametrize(("length", "buckets", "farthest"), [(40, 6, 12), (300, 256, 512), (600, 32, 128)])
def test_far_distances_are_joined_by_a_logarithm(length, buckets, farthest):
    wanted = [bucket(distance, buckets, farthest) + buckets for distance in range(1 - length, length)]
    assert logarithmic_classes(length, buckets, farthest).tolist() == np.clip(wanted, 0, 2 * buckets - 1).tolist()


def test_without_buckets_each_distance_has_a_class_up_to_the_farthest():
    assert plain_classes(5, 3).tolist() == [0, 0, 1, 2, 3, 4, 5, 5, 5]
