"""Heads against their equations, written out in numpy."""

import numpy as np
import pytest
import torch
from torch import nn

from model.parts.heads import (
    Cut,
    Dense,
    DistilledClassifier,
    EachLinear,
    EachThen,
    FirstAndMeanClassifier,
    FirstClassifier,
    FirstDense,
    FirstLinear,
    FirstState,
    MaskedWords,
    MeanLinear,
    MeanState,
    PatchMean,
    Pool,
    PrefixMean,
    ProjectedMeanClassifier,
    SparseWords,
    Unit,
    head_width,
    word_parts,
)
from tests.samples.attention_reference import assert_same, layer_norm, linear, randn, relu, sharpen, weights_of

X = randn(3, 5, 8)
VISIBLE = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [True] + [False] * 4])


def test_heads_of_the_first_state():
    first = X.numpy()[:, 0]
    assert_same(FirstState()(X), first)
    head = sharpen(FirstLinear(8, 3))
    assert_same(head(X), linear(weights_of(head), "module", first))
    head = sharpen(FirstDense(8, 6, nn.Tanh()))
    assert_same(head(X), np.tanh(linear(weights_of(head), "module.dense", first)))
    head = sharpen(FirstClassifier(8, 3, nn.ReLU()))
    w = weights_of(head)
    assert_same(head(X), linear(w, "module.output", relu(linear(w, "module.dense", first))))


def test_a_head_of_every_state():
    head = sharpen(EachLinear(8, 3))
    assert_same(head(X, VISIBLE), linear(weights_of(head), "module", X.numpy()))


def test_heads_of_more_than_the_first_state():
    x = X.numpy()
    head = sharpen(DistilledClassifier(8, 3))
    w = weights_of(head)
    assert_same(head(X), (linear(w, "module.classifier", x[:, 0]) + linear(w, "module.distilled", x[:, 1])) / 2)
    head = sharpen(FirstAndMeanClassifier(8, 3, prefix=2))
    both = np.concatenate((x[:, 0], x[:, 2:].mean(1)), axis=1)
    assert_same(head(X), linear(weights_of(head), "module", both))


def test_heads_of_the_mean_of_all_states():
    mean = X.numpy().mean(1)
    assert_same(MeanState()(X), mean)
    head = sharpen(MeanLinear(8, 3))
    assert_same(head(X), linear(weights_of(head), "module", mean))
    head = sharpen(ProjectedMeanClassifier(8, 6, 3))
    w = weights_of(head)
    assert_same(head(X), linear(w, "module.output", linear(w, "module.projection", X.numpy()).mean(1)))


def test_a_head_of_the_mean_of_the_first_states():
    head = sharpen(PrefixMean(2, nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 3))))
    w, mean = weights_of(head), X.numpy()[:, :2].mean(1)
    assert_same(head(X), linear(w, "module.behind.1", layer_norm(w, "module.behind.0", mean)))
    assert_same(PrefixMean(3, nn.Identity())(X), X.numpy()[:, :3].mean(1))
    assert_same(PatchMean(3, head.behind)(X), head.behind(X[:, 3:].mean(1)))


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize(
    ("pooling", "pool"),
    [
        ("first", lambda rows: rows[0]),
        ("last", lambda rows: rows[-1]),
        ("mean", lambda rows: rows.mean(0)),
        ("max", lambda rows: rows.max(0)),
        ("mean_sqrt_length", lambda rows: rows.sum(0) / np.sqrt(len(rows))),
        ("weighted_mean", lambda rows: np.average(rows, 0, np.arange(1, len(rows) + 1))),
    ],
)
def test_pooling_takes_no_part_of_padding(pooling, pool, unit):
    expected = np.stack([pool(row[shown]) for row, shown in zip(X.numpy(), VISIBLE.numpy(), strict=True)])
    if unit:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert_same(Pool(pooling, Unit() if unit else nn.Identity())(X, VISIBLE), expected)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("outputs", "residual"), [(3, False), (3, True), (8, True)])
def test_a_dense_layer_behind_pooling_is_its_equation_and_may_add_what_it_takes(bias, outputs, residual):
    layer = sharpen(Dense(8, outputs, nn.Tanh(), bias=bias, residual=residual))
    x, w = X[:, 0], weights_of(layer)
    expected = np.tanh(linear(w, "module.linear", x.numpy()))
    if residual:
        expected += linear(w, "module.residual", x.numpy()) if outputs == 3 else x.numpy()
    assert_same(layer(x), expected)
    head = nn.Sequential(layer, Unit(), Cut(2))
    unit = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    assert_same(head(x), unit[:, :2])
    assert [head_width(part, 99) for part in (layer, head, nn.Sequential(Unit()))] == [outputs, 2, 99]


def test_the_last_token_is_the_last_one_on_whichever_side_padding_stands():
    visible = torch.tensor([[True] * 5, [False] * 2 + [True] * 3, [False] + [True] * 2 + [False] * 2])
    assert_same(Pool("last", nn.Identity())(X, visible), X.numpy()[[0, 1, 2], [4, 4, 2]])
    given = Pool("last", nn.Identity())(X.flip(1), VISIBLE.flip(1))  # the first token of padding on the right
    assert_same(given, X.numpy()[:, 0])


def test_masked_words_are_read_at_their_places():
    head = sharpen(MaskedWords(word_parts(8, 11, nn.ReLU(), nn.LayerNorm(8))))
    w = weights_of(head)
    places = torch.tensor([[4, 0], [2, 2], [0, 1]])
    x = np.stack([row[at] for row, at in zip(X.numpy(), places.numpy(), strict=True)])
    x = layer_norm(w, "module.norm", relu(linear(w, "module.dense", x)))
    assert_same(head(X, VISIBLE, places), linear(w, "module.output", x))


@pytest.mark.parametrize("logs", [1, 2])
@pytest.mark.parametrize("pooling", ["max", "sum"])
def test_words_have_weights_by_the_equations_of_splade(pooling, logs):
    head = sharpen(SparseWords(word_parts(8, 11, nn.GELU(), nn.LayerNorm(8)), pooling, logs))
    w, x = weights_of(head), X.numpy()
    x = nn.functional.gelu(torch.from_numpy(linear(w, "module.dense", x))).numpy()
    weights = relu(linear(w, "module.output", layer_norm(w, "module.norm", x)))
    for _ in range(logs):
        weights = np.log(1 + weights)
    rows = [row[shown] for row, shown in zip(weights, VISIBLE.numpy(), strict=True)]
    expected = np.stack([row.max(0) if pooling == "max" else row.sum(0) for row in rows])
    assert (expected == 0).any()
    assert (expected > 0).any()
    assert_same(head(X, VISIBLE), expected)


def test_what_is_made_of_each_token_is_given_to_a_head():
    head = sharpen(EachThen(nn.Sequential(nn.Linear(8, 6), nn.ReLU()), Pool("mean", nn.Linear(6, 3))))
    each = relu(linear(weights_of(head), "module.each.0", X.numpy()))
    pooled = np.stack([row[shown].mean(0) for row, shown in zip(each, VISIBLE.numpy(), strict=True)])
    assert_same(head(X, VISIBLE), linear(weights_of(head), "module.head.behind", pooled))


@pytest.mark.parametrize(
    ("head", "width"),
    [
        (FirstState(), 8),
        (FirstLinear(8, 3), 3),
        (FirstClassifier(8, 4, nn.Tanh()), 4),
        (Pool("mean", Unit()), 8),
        (EachThen(nn.ReLU(), EachLinear(8, 5)), 5),
        (MeanState(), 8),
        (MeanLinear(8, 3), 3),
    ],
)
def test_a_head_says_how_wide_its_answer_is(head, width):
    assert head_width(head, 8) == width == head(X.float(), VISIBLE).shape[-1]
