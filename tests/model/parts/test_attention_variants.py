"""Scores, selects and axial attention against their papers' equations in float64 numpy."""

import numpy as np
import pytest
import torch

from model.parts.attention import Context, MultiHeadAttention, attend
from model.parts.attention_variants import (
    Additive,
    AxialAttention,
    Bilinear,
    Hard,
    ReAttention,
    along,
    along_lines,
    dot_product,
)
from tests.samples.attention_reference import (
    assert_same,
    attention,
    linear,
    randn,
    sharpen,
    softmax,
    weights_of,
)

WIDTH, HEADS, TOKENS = 12, 3, 7


def heads_of(x):
    """(batch, token, width) -> (batch, heads, token, width of a head)."""
    return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)


def attended(module, x, score, select=lambda shares: shares):
    """Multi-head attention with another score and select: (output, weights)."""
    w = weights_of(module)
    query, key, value = (heads_of(linear(w, f"module.{part}", x)) for part in ("query", "key", "value"))
    weights = select(softmax(score(w, query, key)))
    mixed = (weights @ value).swapaxes(1, 2).reshape(*x.shape[:2], -1)
    return linear(w, "module.output", mixed), weights


def scaled(w, query, key):
    return query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])


def additive(w, query, key):
    bent = np.tanh(query[:, :, :, None] + key[:, :, None])
    return np.einsum("bhqkw,hw->bhqk", bent, w["module.score.weight"][..., 0])


def bilinear(w, query, key):
    return np.einsum("bhqi,hij,bhkj->bhqk", query, w["module.score.weight"], key)


SCORES = {
    "dot": (lambda: dot_product, lambda w, query, key: query @ key.swapaxes(-1, -2)),
    "additive": (lambda: Additive(HEADS, WIDTH // HEADS), additive),
    "bilinear": (lambda: Bilinear(HEADS, WIDTH // HEADS), bilinear),
}


@pytest.mark.parametrize("name", SCORES)
def test_a_score_is_its_equation(name):
    make, equation = SCORES[name]
    module, x = sharpen(MultiHeadAttention(WIDTH, HEADS, score=make())), randn(2, TOKENS, WIDTH)
    given, maps = module(x)
    expected, weights = attended(module, x.numpy(), equation)
    assert_same(given, expected)
    assert_same(maps[""], weights)
    assert maps[""].max() > 0.4


@pytest.mark.parametrize("name", SCORES)
def test_what_is_hidden_has_no_weight_whatever_scores(name):
    module, x = sharpen(MultiHeadAttention(WIDTH, HEADS, score=SCORES[name][0]())), randn(2, TOKENS, WIDTH)
    visible = torch.arange(TOKENS) < 4
    given, maps = module(x, Context(visible))
    assert_same(given, module.read(x, module.remember(x[:, :4]))[0])
    assert not maps[""][..., 4:].any()


def test_hard_attention_looks_at_the_likeliest_alone():
    shares = randn(2, HEADS, TOKENS, TOKENS).softmax(-1)
    chosen = Hard().eval()(shares)
    assert_same(chosen, np.eye(TOKENS)[shares.numpy().argmax(-1)])
    query, value = randn(1, 1, 3, 4), randn(1, 1, 5, 4, seed=2)
    mixed, weights = attend(query, value, value, None, dot_product, Hard().eval())
    assert_same(mixed[0, 0], value[0, 0, (query @ value.transpose(-1, -2)).argmax(-1)[0, 0]])
    assert_same(weights.sum(-1), torch.ones(1, 1, 3, dtype=torch.float64))


def test_the_gradient_of_a_choice_goes_straight_through_in_training():
    shares, seed = randn(2, 4).softmax(-1).requires_grad_(), randn(2, 4, seed=3)
    chosen = Hard().train()(shares)
    assert_same(chosen.detach(), Hard().eval()(shares.detach()))
    chosen.backward(seed)
    assert_same(shares.grad, seed)


def test_re_attention_is_its_equation():
    """Norm(θᵀ softmax(QKᵀ/√d)) V, the norm over a batch with the mean and variance that were learned."""
    module, x = sharpen(MultiHeadAttention(WIDTH, HEADS, select=ReAttention(HEADS))), randn(2, TOKENS, WIDTH)
    norm = module.select.norm
    norm.running_mean.copy_(randn(HEADS, seed=4))
    norm.running_var.copy_(randn(HEADS, seed=5).square() + 0.1)

    def select(shares):
        mixed = np.einsum("gh,bgqk->bhqk", module.select.weight.detach().numpy(), shares)
        mean, variance, scale, bias = (
            tensor.detach().numpy()[:, None, None]
            for tensor in (norm.running_mean, norm.running_var, norm.weight, norm.bias)
        )
        return (mixed - mean) / np.sqrt(variance + norm.eps) * scale + bias

    given, maps = module(x)
    expected, weights = attended(module, x.numpy(), scaled, select)
    assert_same(given, expected)
    assert_same(maps[""], weights)
    assert (maps[""].sum(-1) - 1).abs().max() > 0.1


GRIDS = {"rows of a grid": ((3, 4), 1), "columns": ((3, 4), 0), "three axes": ((2, 3, 4), 1), "a line": ((5,), 0)}


@pytest.mark.parametrize(("grid", "axis"), GRIDS.values(), ids=GRIDS)
def test_axial_attention_is_attention_on_each_line_alone(grid, axis):
    """Every line is a batch row of its own, and its maps lie unfolded in those over all tokens."""
    module, x = sharpen(AxialAttention(WIDTH, HEADS, axis, grid)), randn(2, int(np.prod(grid)), WIDTH)
    given, maps = module(x)
    w, length = weights_of(module), grid[axis]
    lines = np.moveaxis(x.numpy().reshape(2, *grid, WIDTH), axis + 1, -2)
    others = lines.shape[1:-2]
    folded, weights = attention(w, "module", HEADS, *[lines.reshape(-1, length, WIDTH)] * 2)
    expected = np.moveaxis(folded.reshape(2, *others, length, WIDTH), -2, axis + 1).reshape(x.shape)
    assert_same(given, expected)
    weights = weights.reshape(2, -1, HEADS, length, length)
    place = np.moveaxis(np.arange(np.prod(grid)).reshape(grid), axis, -1).reshape(-1, length)  # (line, place on it)
    unfolded = np.zeros((2, HEADS, np.prod(grid), np.prod(grid)))
    for line, tokens in enumerate(place):
        unfolded[:, :, tokens[:, None], tokens] = weights[:, line]
    assert_same(maps[""], unfolded)


@pytest.mark.parametrize("prefix", [0, 1, 2])
@pytest.mark.parametrize(("grid", "axis"), GRIDS.values(), ids=GRIDS)
def test_along_lines_it_computes_the_same_without_a_map(grid, axis, prefix):
    module = sharpen(AxialAttention(WIDTH, HEADS, axis, grid, prefix=prefix))
    x = randn(2, prefix + int(np.prod(grid)), WIDTH)
    expected, maps = module(x)
    assert maps
    with along_lines(module):
        given, maps = module(x)
    assert not maps
    assert_same(given, expected)
    assert module(x)[1]


def test_tokens_before_the_grid_see_all_and_are_seen_by_all():
    line = along(0, (2, 2), prefix=1)
    assert line.tolist() == [
        [True] * 5,
        [True, True, False, True, False],
        [True, False, True, False, True],
        [True, True, False, True, False],
        [True, False, True, False, True],
    ]


def test_a_grid_that_does_not_match_is_refused():
    with pytest.raises(ValueError, match="axis must be from 0 to 1, those of the grid, given 2"):
        AxialAttention(WIDTH, HEADS, 2, (3, 4))
    x = randn(1, 11, WIDTH)
    with pytest.raises(ValueError, match="must be given the 12 tokens of its grid, given 11"):
        AxialAttention(WIDTH, HEADS, 0, (3, 4)).double()(x)
