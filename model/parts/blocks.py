"""Blocks and their stacks. Each way to wire a block is a class, whose forward is the paper's equation."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

from model.parts.attention import (
    ALL_VISIBLE,
    Context,
    Contexts,
    KeyValue,
    Maps,
    MultiHeadAttention,
    Recall,
    of_layers,
    under,
)

Norm: TypeAlias = Callable[[], nn.Module]
"""Makes a fresh normalisation of the block's width."""


class PreNormBlock(nn.Module):
    """x' = x + s(MHA(norm(x))); x'' = x' + s(FF(norm(x'))) (Dosovitskiy et al. 2021, equations 2 and 3).

    `scale` makes s: the identity, or a `LayerScale` (Touvron et al. 2021). In a context that is causal and recalls a
    cache, this is the block of a decoder without cross-attention (Radford et al. 2019).
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: nn.Module,
        norm: Norm,
        scale: Callable[[], nn.Module] = nn.Identity,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_norm = norm()
        self.attention_scale = scale()
        self.feed_forward = feed_forward
        self.feed_forward_norm = norm()
        self.feed_forward_scale = scale()

    def forward(self, x: Tensor, context: Context = ALL_VISIBLE) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape."""
        mixed, maps = self.attention(self.attention_norm(x), context)
        x = x + self.attention_scale(mixed)
        return x + self.feed_forward_scale(self.feed_forward(self.feed_forward_norm(x))), under("attention", maps)


class PostNormBlock(PreNormBlock):
    """x' = norm(x + MHA(x)); x'' = norm(x' + FF(x')) (Vaswani et al. 2017, section 3.1)."""

    def forward(self, x: Tensor, context: Context = ALL_VISIBLE) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape."""
        mixed, maps = self.attention(x, context)
        x = self.attention_norm(x + self.attention_scale(mixed))
        return self.feed_forward_norm(x + self.feed_forward_scale(self.feed_forward(x))), under("attention", maps)


class BranchNormBlock(PreNormBlock):
    """x' = x + norm(MHA(x)); x'' = x' + norm(FF(x')) (Liu et al. 2022, "Swin Transformer V2", figure 1)."""

    def forward(self, x: Tensor, context: Context = ALL_VISIBLE) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape."""
        mixed, maps = self.attention(x, context)
        x = x + self.attention_scale(self.attention_norm(mixed))
        return x + self.feed_forward_scale(self.feed_forward_norm(self.feed_forward(x))), under("attention", maps)


class BesideBlock(PreNormBlock):
    """x' = x + MHA(norm₁(x)) + FF(norm₂(x)) (Black et al. 2022, "GPT-NeoX-20B", section 2.1.2)."""

    def forward(self, x: Tensor, context: Context = ALL_VISIBLE) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape."""
        mixed, maps = self.attention(self.attention_norm(x), context)
        fed = self.feed_forward_scale(self.feed_forward(self.feed_forward_norm(x)))
        return x + self.attention_scale(mixed) + fed, under("attention", maps)


class ParallelBlock(nn.Module):
    """x' = x + MHA₁(norm(x)) + MHA₂(norm(x)); x'' = x' + FF₁(norm(x')) + FF₂(norm(x')).

    Touvron et al. 2022, "Three things everyone should know about Vision Transformers", section 3. There may be any
    number of parallel attentions and of parallel feed-forwards, each with a norm of its own.
    """

    def __init__(
        self, attentions: Sequence[MultiHeadAttention], feed_forwards: Sequence[nn.Module], norm: Norm
    ) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(attentions)
        self.attention_norms = _norms(norm, attentions)
        self.feed_forwards = nn.ModuleList(feed_forwards)
        self.feed_forward_norms = _norms(norm, feed_forwards)

    def forward(self, x: Tensor, context: Context = ALL_VISIBLE) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape; the context recalls once for each attention, in order."""
        branches: list[Tensor] = []
        maps: Maps = {}
        for index, (attention, norm) in enumerate(zip(self.attentions, self.attention_norms, strict=True)):
            mixed, found = attention(norm(x), context)
            branches.append(mixed)
            maps |= under(f"attentions.{index}", found)
        x = sum(branches, x)
        branches = [part(norm(x)) for part, norm in zip(self.feed_forwards, self.feed_forward_norms, strict=True)]
        return sum(branches, x), maps


def _norms(norm: Norm, parts: Sequence[nn.Module]) -> nn.ModuleList:
    return nn.ModuleList(norm() for _ in parts)


class MacaronBlock(nn.Module):
    """x₁ = x + ½FF₁(norm(x)); x₂ = x₁ + MHA(norm(x₁)); x₃ = x₂ + ½FF₂(norm(x₂)) (Lu et al. 2019, section 4).

    Each norm stands before its branch, as in Gulati et al. 2020, section 2.4.
    """

    def __init__(self, attention: MultiHeadAttention, first: nn.Module, second: nn.Module, norm: Norm) -> None:
        super().__init__()
        self.first, self.first_norm = first, norm()
        self.attention, self.attention_norm = attention, norm()
        self.second, self.second_norm = second, norm()

    def forward(self, x: Tensor, context: Context = ALL_VISIBLE) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape."""
        x = x + self.first(self.first_norm(x)) / 2
        mixed, maps = self.attention(self.attention_norm(x), context)
        x = x + mixed
        return x + self.second(self.second_norm(x)) / 2, under("attention", maps)


class BranchformerBlock(nn.Module):
    """x' = x + merge(concat(MHA(norm(x)), cgMLP(norm(x)))) (Peng et al. 2022, section 2)."""

    def __init__(self, attention: MultiHeadAttention, gating: nn.Module, merge: nn.Module, norm: Norm) -> None:
        super().__init__()
        self.attention, self.attention_norm = attention, norm()
        self.gating, self.gating_norm = gating, norm()
        self.merge = merge

    def forward(self, x: Tensor, context: Context = ALL_VISIBLE) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width), without padding, which the convolution would see -> the same shape."""
        mixed, maps = self.attention(self.attention_norm(x), context)
        both = torch.cat((mixed, self.gating(self.gating_norm(x))), dim=-1)  # (batch, token, twice the width)
        return x + self.merge(both), under("attention", maps)


class EBranchformerBlock(nn.Module):
    """x₁ = x + ½FF₁(norm(x)); x₂ = branches(x₁); x₃ = norm(x₂ + ½FF₂(norm(x₂))) (Kim et al. 2022, figure 1)."""

    def __init__(self, branches: BranchformerBlock, first: nn.Module, second: nn.Module, norm: Norm) -> None:
        super().__init__()
        self.first, self.first_norm = first, norm()
        self.branches = branches
        self.second, self.second_norm = second, norm()
        self.norm = norm()

    def forward(self, x: Tensor, context: Context = ALL_VISIBLE) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width), without padding, which the convolution would see -> the same shape."""
        x = x + self.first(self.first_norm(x)) / 2
        x, maps = self.branches(x, context)
        return self.norm(x + self.second(self.second_norm(x)) / 2), under("branches", maps)


class PreNormDecoderBlock(nn.Module):
    """Self-attention, cross-attention to the encoder's memory, feed-forward, each as x + f(norm(x))."""

    def __init__(
        self, attention: MultiHeadAttention, cross: MultiHeadAttention, feed_forward: nn.Module, norm: Norm
    ) -> None:
        super().__init__()
        self.attention, self.attention_norm = attention, norm()
        self.cross, self.cross_norm = cross, norm()
        self.feed_forward, self.feed_forward_norm = feed_forward, norm()

    def forward(self, x: Tensor, context: Context, memory: KeyValue, across: Context) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape.

        `memory` holds this block's cross keys and values, and `across` is the context in which they are looked at.
        """
        mixed, own = self.attention(self.attention_norm(x), context)
        x = x + mixed
        mixed, cross = self.cross.read(self.cross_norm(x), memory, across)
        x = x + mixed
        return x + self.feed_forward(self.feed_forward_norm(x)), under("attention", own) | under("cross", cross)


class PostNormDecoderBlock(PreNormDecoderBlock):
    """The same three steps, each as norm(x + f(x)) (Vaswani et al. 2017, figure 1)."""

    def forward(self, x: Tensor, context: Context, memory: KeyValue, across: Context) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape.

        `memory` holds this block's cross keys and values, and `across` is the context in which they are looked at.
        """
        mixed, own = self.attention(x, context)
        x = self.attention_norm(x + mixed)
        mixed, cross = self.cross.read(x, memory, across)
        x = self.cross_norm(x + mixed)
        return self.feed_forward_norm(x + self.feed_forward(x)), under("attention", own) | under("cross", cross)


def with_weights_of(one: nn.Module, other: nn.Module) -> None:
    """Let a module have the parameters of another one of the same form; each stays a module of its own."""
    parts = dict(other.named_modules())
    for path, part in one.named_modules():
        for name, parameter in part.named_parameters(recurse=False):
            setattr(parts[path], name, parameter)


class Stack(nn.Module):
    """Blocks one after the other, then a norm: an encoder, or the decoder of a GPT.

    `norm` is `nn.Identity` where each block ends in a norm. `positions` (block - 1, token, width), if there are any,
    are added to what leaves every block but the last (Fang et al. 2021).
    """

    def __init__(self, blocks: Iterable[nn.Module], norm: nn.Module, positions: nn.Parameter | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.positions = positions

    def forward(
        self, x: Tensor, contexts: Contexts = ALL_VISIBLE, recalls: Sequence[Recall] | None = None
    ) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape; `recalls` has one entry for each block."""
        maps: Maps = {}
        each = of_layers(contexts, recalls, len(self.blocks))
        for index, (block, context) in enumerate(zip(self.blocks, each, strict=True)):
            if index and self.positions is not None:
                x = x + self.positions[index - 1]
            x, found = block(x, context)
            maps |= under(f"blocks.{index}", found)
        return self.norm(x), maps


class Decoder(nn.Module):
    """Blocks with cross-attention one after the other, then a norm."""

    def __init__(self, blocks: Iterable[PreNormDecoderBlock], norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    def remember(self, memory: Tensor, context: Context = ALL_VISIBLE) -> list[KeyValue]:
        """Compute every block's cross keys and values from the encoder's memory (batch, source, width), once."""
        return [block.cross.remember(memory, context) for block in self.blocks]  # type: ignore[union-attr, operator] # ModuleList forgets its blocks' class

    def forward(
        self,
        x: Tensor,
        contexts: Contexts,
        memory: Sequence[KeyValue],
        across: Context,
        recalls: Sequence[Recall] | None = None,
    ) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape; `memory` and `recalls` have one entry for each block."""
        maps: Maps = {}
        each = zip(self.blocks, of_layers(contexts, recalls, len(self.blocks)), memory, strict=True)
        for index, (block, context, crossed) in enumerate(each):
            x, found = block(x, context, crossed, across)
            maps |= under(f"blocks.{index}", found)
        return self.norm(x), maps
