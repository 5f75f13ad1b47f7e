"""Balanced gradient x input without a gradient: every state is kept as the sum of what each token gave to it.

Under the rules of Mehri et al. 2025 a model is an affine map of its first states. So what a token gives to the answer
is found forwards: the state of each token starts as its own share, and every layer is applied to each share alone.
Biases are one more share. The shares of a state always add up to the state. Attention's maps are taken as given.
"""

import math
from collections.abc import Iterator
from functools import singledispatch

import torch
from torch import Tensor, nn

from model.parts import attention, attention_variants, blocks, convolutions, feed_forward, heads, norms


def of_tokens(*states: Tensor) -> list[Tensor]:
    """Return the shares (origin, batch, token, width) of each state. Origins: the tokens of all states, then biases."""
    count = sum(state.shape[1] for state in states)
    found, first = [], 0
    for state in states:
        shares = state.new_zeros(count + 1, *state.shape)
        for token in range(state.shape[1]):
            shares[first + token, :, token] = state[:, token]
        found.append(shares)
        first += state.shape[1]
    return found


def biased(shares: Tensor, bias: Tensor | None) -> Tensor:
    """Add a bias to the share of the biases."""
    return shares if bias is None else torch.cat((shares[:-1], shares[-1:] + bias))


def product(one: Tensor, other: Tensor) -> Tensor:
    """Each factor accounts for half of a product of two."""
    return (one * other.sum(0) + other * one.sum(0)) / 2


def attended(module: nn.Module, shares: Tensor, source: Tensor, weights: Tensor) -> Tensor:
    """Mix the shares of source by the map (batch, heads, query, key); it does not matter what made the map."""
    values = through(module.value, source)
    size = values.shape[-1] // weights.shape[1]
    mixed = [weights[:, head] @ values[..., head * size : (head + 1) * size] for head in range(weights.shape[1])]
    return through(module.output, torch.cat(mixed, -1))


SLOPES = {
    "none": lambda x: (1 + torch.erf(x / math.sqrt(2))) / 2,
    "tanh": lambda x: (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
}
"""GELU(x) / x (Hendrycks & Gimpel 2016), and its approximation's."""


@singledispatch
def through(module: nn.Module, shares: Tensor, maps: Iterator[Tensor] | None = None) -> Tensor:
    """Pass shares (origin, batch, token, width) through a module, whose attentions made the next of the maps."""
    raise NotImplementedError(type(module))


@through.register
def _(module: nn.Identity, shares, maps=None):
    return shares


@through.register
def _(module: nn.Linear, shares, maps=None):
    return biased(torch.einsum("...i,oi->...o", shares, module.weight), module.bias)


@through.register
def _(module: nn.LayerNorm, shares, maps=None):
    x = shares.sum(0)
    deviation = ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True).add(module.eps) ** 0.5
    return biased((shares - shares.mean(-1, keepdim=True)) / deviation * module.weight, module.bias)


@through.register
def _(module: nn.GELU, shares, maps=None):
    return shares * SLOPES[module.approximate](shares.sum(0))


@through.register
def _(module: nn.SiLU, shares, maps=None):
    return shares / (1 + torch.exp(-shares.sum(0)))


@through.register
def _(module: feed_forward.QuickGELU, shares, maps=None):
    return shares / (1 + torch.exp(-1.702 * shares.sum(0)))


@through.register
def _(module: nn.ReLU, shares, maps=None):
    return shares * (shares.sum(0) > 0)


@through.register
def _(module: nn.Tanh, shares, maps=None):
    x = shares.sum(0)
    return shares * torch.where(x.abs() < 1e-9, 1, (1 - 2 / (torch.exp(2 * x) + 1)) / x)


@through.register
def _(module: nn.Sequential, shares, maps=None):
    for part in module:
        shares = through(part, shares)
    return shares


@through.register
def _(module: norms.LayerScale, shares, maps=None):
    return shares * module.weight


@through.register
def _(module: feed_forward.GatedFeedForward, shares, maps=None):
    gate = through(nn.SiLU(), through(module.gate, shares))
    return through(module.output, product(gate, through(module.up, shares)))


@through.register
def _(module: convolutions.DepthwiseConvolution, shares, maps=None):
    tokens, kernel = shares.shape[2], module.kernel_size[0]
    padded = nn.functional.pad(shares, (0, 0, kernel // 2, kernel // 2))
    moved = [padded[:, :, offset : offset + tokens] * module.weight[:, 0, offset] for offset in range(kernel)]
    return biased(sum(moved), module.bias)


@through.register
def _(module: convolutions.ConvolutionalGate, shares, maps=None):
    kept, gating = shares.chunk(2, dim=-1)
    return product(kept, through(module.convolution, through(module.norm, gating)))


@through.register
def _(module: convolutions.DepthwiseMerge, shares, maps=None):
    return through(module.output, through(module.convolution, shares) + shares)


@through.register
def _(module: attention.MultiHeadAttention, shares, maps):
    return attended(module, shares, shares, next(maps))


@through.register
def _(module: attention_variants.AxialAttention, shares, maps):
    return attended(module, shares, shares, next(maps))


@through.register
def _(module: blocks.PreNormBlock, x, maps):
    x = x + through(module.attention_scale, through(module.attention, through(module.attention_norm, x), maps))
    return x + through(module.feed_forward_scale, through(module.feed_forward, through(module.feed_forward_norm, x)))


@through.register
def _(module: blocks.PostNormBlock, x, maps):
    x = through(module.attention_norm, x + through(module.attention, x, maps))
    return through(module.feed_forward_norm, x + through(module.feed_forward, x))


@through.register
def _(module: blocks.ParallelBlock, x, maps):
    pairs = zip(module.attentions, module.attention_norms, strict=True)
    x = x + sum(through(one, through(norm, x), maps) for one, norm in pairs)
    pairs = zip(module.feed_forwards, module.feed_forward_norms, strict=True)
    return x + sum(through(one, through(norm, x)) for one, norm in pairs)


@through.register
def _(module: blocks.MacaronBlock, x, maps):
    x = x + through(module.first, through(module.first_norm, x)) / 2
    x = x + through(module.attention, through(module.attention_norm, x), maps)
    return x + through(module.second, through(module.second_norm, x)) / 2


@through.register
def _(module: blocks.BranchformerBlock, x, maps):
    looked = through(module.attention, through(module.attention_norm, x), maps)
    gated = through(module.gating, through(module.gating_norm, x))
    return x + through(module.merge, torch.cat((looked, gated), dim=-1))


@through.register
def _(module: blocks.EBranchformerBlock, x, maps):
    x = x + through(module.first, through(module.first_norm, x)) / 2
    x = through(module.branches, x, maps)
    return through(module.norm, x + through(module.second, through(module.second_norm, x)) / 2)


@through.register
def _(module: blocks.Stack, x, maps):
    for block in module.blocks:
        x = through(block, x, maps)
    return through(module.norm, x)


def decoded(module: blocks.Decoder, x: Tensor, memory: Tensor, maps: Iterator[Tensor]) -> Tensor:
    """Pass the shares of target tokens x and of the encoder's memory through a decoder."""
    for block in module.blocks:
        norms = [block.attention_norm, block.cross_norm, block.feed_forward_norm]
        branches = [
            lambda x, block=block: through(block.attention, x, maps),
            lambda x, block=block: attended(block.cross, x, memory, next(maps)),
            lambda x, block=block: through(block.feed_forward, x),
        ]
        for norm, branch in zip(norms, branches, strict=True):
            last = isinstance(block, blocks.PostNormDecoderBlock)
            x = through(norm, x + branch(x)) if last else x + branch(through(norm, x))
    return through(module.norm, x)


# Heads: shares (origin, batch, token, width) -> (origin, batch, number)


@through.register
def _(module: heads.FirstState, x, maps=None):
    return x[:, :, 0]


@through.register
def _(module: heads.FirstLinear, x, maps=None):
    return biased(x[:, :, 0] @ module.weight.T, module.bias)


@through.register
def _(module: heads.EachLinear, x, maps=None):
    return biased(x @ module.weight.T, module.bias)


@through.register
def _(module: heads.FirstDense, x, maps=None):
    return through(module.activation, through(module.dense, x[:, :, 0]))


@through.register
def _(module: heads.FirstClassifier, x, maps=None):
    return through(module.output, through(module.activation, through(module.dense, x[:, :, 0])))


@through.register
def _(module: heads.DistilledClassifier, x, maps=None):
    return (through(module.classifier, x[:, :, 0]) + through(module.distilled, x[:, :, 1])) / 2


@through.register
def _(module: heads.FirstAndMeanClassifier, x, maps=None):
    own, mean = x[:, :, 0], x[:, :, module.prefix :].sum(2) / (x.shape[2] - module.prefix)
    return biased(torch.cat((own, mean), -1) @ module.weight.T, module.bias)


def pooled(pooling: heads.Pooling, x: Tensor, visible: Tensor) -> Tensor:
    """Make one share of those of the visible tokens; equal largest ones have equal parts of a maximum."""
    shown = visible[:, :, None].to(x.dtype)
    if pooling == "first":
        return x[:, :, 0]
    if pooling == "last":
        return torch.stack([x[:, row, own.nonzero().max()] for row, own in enumerate(visible)], 1)
    if pooling == "max":
        state = x.sum(0).where(visible[:, :, None], -math.inf)
        largest = (state == state.max(1, keepdim=True).values).to(x.dtype)
        return (x * largest).sum(2) / largest.sum(1)
    if pooling == "weighted_mean":
        weights = shown * shown.cumsum(1)
        return (x * weights).sum(2) / weights.sum(1)
    count = shown.sum(1)
    return (x * shown).sum(2) / (count if pooling == "mean" else count**0.5)


def unit(x: Tensor) -> Tensor:
    """Divide shares of a vector (origin, batch, number) by its length."""
    return x / (x.sum(0) ** 2).sum(-1, keepdim=True) ** 0.5


def filled(module: heads.MaskedWords, x: Tensor, masked: Tensor) -> Tensor:
    """Return the shares of the logits at positions masked (batch, mask): (origin, batch, mask, vocabulary)."""
    chosen = x[:, torch.arange(len(masked))[:, None], masked]
    for part in (module.dense, module.activation, module.norm, module.output):
        chosen = through(part, chosen)
    return chosen


def weighed(module: heads.SparseWords, x: Tensor, visible: Tensor) -> Tensor:
    """Return the shares of the weights of words: (origin, batch, vocabulary). A log(1 + w) is w times a slope."""
    for part in (module.dense, module.activation, module.norm, module.output):
        x = through(part, x)
    x = x * (x.sum(0) > 0)
    for _ in range(module.logs):
        weight = x.sum(0)
        x = x * torch.where(weight > 0, torch.log(1 + weight) / weight.clamp_min(1e-300), 1)
    if module.pooling == "max":
        return pooled("max", x, visible)
    return (x * visible[:, :, None]).sum(2)
