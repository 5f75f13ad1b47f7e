"""Variants against their papers' equations in float64 numpy, and against each other."""

import numpy as np
import pytest
import torch
from torch import nn

from model.attention import AxialAttention, MultiHeadAttention, along, attend
from model.blocks import BranchformerBlock, EBranchformerBlock, MacaronEncoderBlock, ParallelEncoderBlock
from model.catalogue import build
from model.parts import (
    ConvolutionalGate,
    ConvolutionalGatingMLP,
    DepthwiseConvolution,
    DepthwiseMerge,
    FeedForward,
    LayerScale,
    NoPositions,
    SinusoidalPositions,
)
from model.scores import Additive, Bilinear, dot_product
from model.selects import Hard, ReAttention
from model.variants import PLAIN, VARIANTS, parallel
from model.weights import WeightsError, load_weights, save_weights
from tests.model.reference import (
    assert_same,
    assert_same_maps,
    attention,
    feed_forward,
    gelu,
    layer_norm,
    linear,
    randn,
    sharpen,
    softmax,
    weights_of,
)

WIDTH, HEADS, HIDDEN, TOKENS, KERNEL = 12, 3, 20, 7, 3


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
    given, maps = module(x, x, None)
    expected, weights = attended(module, x.numpy(), equation)
    assert_same(given, expected)
    assert_same(maps[""], weights)
    assert maps[""].max() > 0.4


@pytest.mark.parametrize("name", SCORES)
def test_what_is_hidden_has_no_weight_whatever_scores(name):
    module, x = sharpen(MultiHeadAttention(WIDTH, HEADS, score=SCORES[name][0]())), randn(2, TOKENS, WIDTH)
    visible = torch.arange(TOKENS) < 4
    given, maps = module(x, x, visible)
    assert_same(given, module(x, x[:, :4], None)[0])
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

    given, maps = module(x, x, None)
    expected, weights = attended(module, x.numpy(), scaled, select)
    assert_same(given, expected)
    assert_same(maps[""], weights)
    assert (maps[""].sum(-1) - 1).abs().max() > 0.1


def norm():
    return nn.LayerNorm(WIDTH)


def attentions(count):
    return [MultiHeadAttention(WIDTH, HEADS) for _ in range(count)]


def feed_forwards(count):
    return [FeedForward(WIDTH, HIDDEN, nn.GELU()) for _ in range(count)]


def branches(merge):
    return BranchformerBlock(*attentions(1), ConvolutionalGatingMLP(WIDTH, HIDDEN, KERNEL), merge, norm)


def depthwise(w, name, x):
    """A correlation a channel along the tokens, zeros beyond their ends."""
    side = KERNEL // 2
    padded = np.pad(x, ((0, 0), (side, side), (0, 0)))
    windows = np.stack([padded[:, start : start + x.shape[1]] for start in range(KERNEL)], -1)  # (b, t, c, k)
    return np.einsum("btck,ck->btc", windows, w[f"{name}.weight"][:, 0]) + w[f"{name}.bias"]


def gating(w, name, x):
    wide = gelu(linear(w, f"{name}.0", x))
    a, b = np.split(wide, 2, axis=-1)
    return linear(w, f"{name}.3", a * depthwise(w, f"{name}.2.convolution", layer_norm(w, f"{name}.2.norm", b)))


def parallel_equation(w, x):
    found = [
        attention(w, f"module.attentions.{i}", HEADS, *[layer_norm(w, f"module.attention_norms.{i}", x)] * 2)
        for i in range(2)
    ]
    x = x + found[0][0] + found[1][0]
    more = [
        feed_forward(w, f"module.feed_forwards.{i}", layer_norm(w, f"module.feed_forward_norms.{i}", x), gelu)
        for i in range(2)
    ]
    return x + more[0] + more[1], {f"attentions.{i}": found[i][1] for i in range(2)}


def half_fed(w, part, x):
    return x + 0.5 * feed_forward(w, f"module.{part}", layer_norm(w, f"module.{part}_norm", x), gelu)


def macaron_equation(w, x):
    x = half_fed(w, "first", x)
    mixed, weights = attention(w, "module.attention", HEADS, *[layer_norm(w, "module.attention_norm", x)] * 2)
    return half_fed(w, "second", x + mixed), {"attention": weights}


def both_branches(w, name, x):
    mixed, weights = attention(w, f"{name}.attention", HEADS, *[layer_norm(w, f"{name}.attention_norm", x)] * 2)
    return np.concatenate((mixed, gating(w, f"{name}.gating", layer_norm(w, f"{name}.gating_norm", x))), -1), weights


def branchformer_equation(w, x):
    both, weights = both_branches(w, "module", x)
    return x + linear(w, "module.merge", both), {"attention": weights}


def e_branchformer_equation(w, x):
    x = half_fed(w, "first", x)
    y, weights = both_branches(w, "module.branches", x)
    merged = linear(w, "module.branches.merge.output", depthwise(w, "module.branches.merge.convolution", y) + y)
    return layer_norm(w, "module.norm", half_fed(w, "second", x + merged)), {"branches.attention": weights}


BLOCKS = {
    "parallel": (lambda: ParallelEncoderBlock(attentions(2), feed_forwards(2), norm), parallel_equation),
    "macaron": (lambda: MacaronEncoderBlock(*attentions(1), *feed_forwards(2), norm), macaron_equation),
    "branchformer": (lambda: branches(nn.Linear(2 * WIDTH, WIDTH)), branchformer_equation),
    "e-branchformer": (
        lambda: EBranchformerBlock(branches(DepthwiseMerge(WIDTH, KERNEL)), *feed_forwards(2), norm),
        e_branchformer_equation,
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_is_its_equation(name):
    make, equation = BLOCKS[name]
    module, x = sharpen(make()), randn(2, TOKENS, WIDTH)
    given, maps = module(x, None)
    expected, weights = equation(weights_of(module), x.numpy())
    assert_same(given, expected)
    assert_same_maps(maps, weights)


def test_layer_scale_weighs_each_channel_and_begins_where_it_is_told():
    part, x = LayerScale(WIDTH, 0.1), randn(2, TOKENS, WIDTH)
    assert_same(part.double()(x), 0.1 * x, 1e-7)
    part.weight.data = randn(WIDTH, seed=2)
    assert_same(part(x).detach(), x.numpy() @ np.diag(part.weight.detach().numpy()))


GRIDS = {"rows of a grid": ((3, 4), 1), "columns": ((3, 4), 0), "three axes": ((2, 3, 4), 1), "a line": ((5,), 0)}


@pytest.mark.parametrize(("grid", "axis"), GRIDS.values(), ids=GRIDS)
def test_axial_attention_is_attention_on_each_line_alone(grid, axis):
    """Every line is a batch row of its own, and its maps lie unfolded in those over all tokens."""
    module, x = sharpen(AxialAttention(WIDTH, HEADS, axis, grid)), randn(2, int(np.prod(grid)), WIDTH)
    given, maps = module(x, x, None)
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
        AxialAttention(WIDTH, HEADS, 0, (3, 4)).double()(x, x, None)


def test_sizes_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="parallel: layers must be even, two side by side, given 3"):
        parallel(PLAIN.__class__((8, 8), 1, patch=(4, 4), width=8, layers=3, heads=2, hidden=8, classes=2))
    with pytest.raises(ValueError, match="depth-wise convolution: kernel must be odd, given 4"):
        DepthwiseConvolution(8, 4)
    with pytest.raises(ValueError, match="convolutional gate: width must be even, to be split in halves, given 7"):
        ConvolutionalGate(7, 3)


def test_a_variant_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match=r"model: must be one of .*digits-axial.*, given 'digits-sideways'"):
        build("digits-sideways")


def test_weights_of_another_variant_are_refused(tmp_path):
    """Scaled or not, scores have no weights of their own: only what the file says tells the two from each other."""
    file = tmp_path / "model.safetensors"
    save_weights(build("digits-dot"), file, "digits-dot")
    load_weights(build("digits-dot"), file, "digits-dot")
    with pytest.raises(WeightsError, match="must be of digits-plain, given those of digits-dot"):
        load_weights(build("digits-plain"), file, "digits-plain")
    save_weights(build("digits-bilinear"), file)
    with pytest.raises(WeightsError, match=r"left over encoder\.blocks\.0\.attention\.score\.weight"):
        load_weights(build("digits-plain"), file, "digits-plain")


def test_what_is_learned_beside_parameters_is_saved(tmp_path):
    file, ours, theirs = tmp_path / "model.safetensors", build("digits-re-attention"), build("digits-re-attention")
    ours.encoder.blocks[1].attention.select.norm.running_mean += 3
    save_weights(ours, file)
    load_weights(theirs, file)
    assert_same(theirs.encoder.blocks[1].attention.select.norm.running_mean, torch.full((PLAIN.heads,), 3.0), 1e-6)


def test_variants_have_as_many_parameters_as_the_plain_one():
    counts = {name: sum(one.numel() for one in build(name).parameters()) for name in VARIANTS}
    assert {name: count for name, count in counts.items() if abs(count / counts["digits-plain"] - 1) > 0.01} == {}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_of_five_is_five_of_one(name):
    """In float64, and each variant answers otherwise than the plain one."""
    model, pixels = sharpen(build(name)), randn(5, 1, 28, 28)
    logits, maps = model(pixels)
    alone = [model(one[None]) for one in pixels]
    assert_same(logits, torch.cat([one for one, _ in alone]))
    assert_same_maps(maps, {path: torch.cat([found[path] for _, found in alone]) for path in maps})


def test_positions_that_nobody_learned():
    index = torch.arange(5)
    assert_same(NoPositions()(index), torch.zeros(5, 1))
    ours = build("digits-sinusoidal")
    assert isinstance(ours.positions, SinusoidalPositions)
    patches = randn(1, 1, 28, 28).float()
    turned = torch.roll(patches, 7, dims=3)  # by one patch
    blind = build("digits-no-positions")
    assert_same(blind(patches)[0], blind(turned)[0], 1e-5)
    assert (ours(patches)[0] - ours(turned)[0]).abs().max() > 1e-3
