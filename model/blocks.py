"""Blocks and their stacks. A wiring is a class; its forward is the equation."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

from model.attention import KeyValue, Maps, MultiHeadAttention, under

Norm: TypeAlias = Callable[[], nn.Module]
"""Makes a fresh normalisation of the block's width."""

Recall: TypeAlias = Callable[[KeyValue], KeyValue]
"""Takes the keys and values of the tokens given now, returns those to look at: the same ones, or a whole cache."""


def only_these(remembered: KeyValue) -> KeyValue:
    """Recall nothing beyond the tokens given now: a full pass without a cache."""
    return remembered


def recording(seen: list[KeyValue]) -> Recall:
    """Recall nothing more, and note in `seen` what was given: the keys and values of each block, in order."""

    def record(new: KeyValue) -> KeyValue:
        seen.append(new)
        return new

    return record


class PreNormEncoderBlock(nn.Module):
    """x' = x + s(MHA(norm(x))); x'' = x' + s(FF(norm(x'))) (Dosovitskiy et al. 2021, equations 2 and 3).

    `scale` makes s, which is nothing unless it is given: a `LayerScale` (Touvron et al. 2021). With `visible` causal
    and `recall` a cache, this is the block of a decoder without cross-attention (Radford et al. 2019).
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: nn.Module,
        norm: Norm,
        scale: Callable[[], nn.Module] = nn.Identity,
    ) -> None:
        super().__init__()
        self.attention, self.attention_norm, self.attention_scale = attention, norm(), scale()
        self.feed_forward, self.feed_forward_norm, self.feed_forward_scale = feed_forward, norm(), scale()

    def forward(self, x: Tensor, visible: Tensor | None, recall: Recall = only_these) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape."""
        y = self.attention_norm(x)
        mixed, maps = self.attention.read(y, recall(self.attention.remember(y)), visible)
        x = x + self.attention_scale(mixed)
        return x + self.feed_forward_scale(self.feed_forward(self.feed_forward_norm(x))), under("attention", maps)


class PostNormEncoderBlock(PreNormEncoderBlock):
    """x' = norm(x + MHA(x)); x'' = norm(x' + FF(x')) (Vaswani et al. 2017, section 3.1)."""

    def forward(self, x: Tensor, visible: Tensor | None, recall: Recall = only_these) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape."""
        mixed, maps = self.attention.read(x, recall(self.attention.remember(x)), visible)
        x = self.attention_norm(x + self.attention_scale(mixed))
        return self.feed_forward_norm(x + self.feed_forward_scale(self.feed_forward(x))), under("attention", maps)


class ParallelEncoderBlock(nn.Module):
    """x' = x + MHA₁(norm(x)) + MHA₂(norm(x)); x'' = x' + FF₁(norm(x')) + FF₂(norm(x')).

    Touvron et al. 2022, "Three things everyone should know about Vision Transformers", section 3. Any number of either
    stand side by side, each behind a norm of its own.
    """

    def __init__(
        self, attentions: Sequence[MultiHeadAttention], feed_forwards: Sequence[nn.Module], norm: Norm
    ) -> None:
        super().__init__()
        self.attentions, self.attention_norms = nn.ModuleList(attentions), _norms(norm, attentions)
        self.feed_forwards, self.feed_forward_norms = nn.ModuleList(feed_forwards), _norms(norm, feed_forwards)

    def forward(self, x: Tensor, visible: Tensor | None, recall: Recall = only_these) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape; `recall` is asked for each attention in turn."""
        branches: list[Tensor] = []
        maps: Maps = {}
        for index, (attention, norm) in enumerate(zip(self.attentions, self.attention_norms, strict=True)):
            y = norm(x)
            mixed, found = attention.read(y, recall(attention.remember(y)), visible)  # type: ignore[operator] # ModuleList forgets its parts' class
            branches.append(mixed)
            maps |= under(f"attentions.{index}", found)
        x = sum(branches, x)
        branches = [part(norm(x)) for part, norm in zip(self.feed_forwards, self.feed_forward_norms, strict=True)]
        return sum(branches, x), maps


def _norms(norm: Norm, parts: Sequence[nn.Module]) -> nn.ModuleList:
    return nn.ModuleList(norm() for _ in parts)


class MacaronEncoderBlock(nn.Module):
    """x₁ = x + ½FF₁(norm(x)); x₂ = x₁ + MHA(norm(x₁)); x₃ = x₂ + ½FF₂(norm(x₂)) (Lu et al. 2019, section 4).

    The norms stand before the branches, where Gulati et al. 2020, section 2.4, have them.
    """

    def __init__(self, attention: MultiHeadAttention, first: nn.Module, second: nn.Module, norm: Norm) -> None:
        super().__init__()
        self.first, self.first_norm = first, norm()
        self.attention, self.attention_norm = attention, norm()
        self.second, self.second_norm = second, norm()

    def forward(self, x: Tensor, visible: Tensor | None, recall: Recall = only_these) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape."""
        x = x + self.first(self.first_norm(x)) / 2
        y = self.attention_norm(x)
        mixed, maps = self.attention.read(y, recall(self.attention.remember(y)), visible)
        x = x + mixed
        return x + self.second(self.second_norm(x)) / 2, under("attention", maps)


class BranchformerBlock(nn.Module):
    """x' = x + merge(concat(MHA(norm(x)), cgMLP(norm(x)))) (Peng et al. 2022, section 2)."""

    def __init__(self, attention: MultiHeadAttention, gating: nn.Module, merge: nn.Module, norm: Norm) -> None:
        super().__init__()
        self.attention, self.attention_norm = attention, norm()
        self.gating, self.gating_norm = gating, norm()
        self.merge = merge

    def forward(self, x: Tensor, visible: Tensor | None, recall: Recall = only_these) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width), every token of which a convolution sees -> the same shape."""
        y = self.attention_norm(x)
        mixed, maps = self.attention.read(y, recall(self.attention.remember(y)), visible)
        both = torch.cat((mixed, self.gating(self.gating_norm(x))), dim=-1)  # (batch, token, twice the width)
        return x + self.merge(both), under("attention", maps)


class EBranchformerBlock(nn.Module):
    """Half a feed-forward, the branches, half a feed-forward, and a norm (Kim et al. 2022, figure 1)."""

    def __init__(self, branches: BranchformerBlock, first: nn.Module, second: nn.Module, norm: Norm) -> None:
        super().__init__()
        self.first, self.first_norm = first, norm()
        self.branches = branches
        self.second, self.second_norm = second, norm()
        self.norm = norm()

    def forward(self, x: Tensor, visible: Tensor | None, recall: Recall = only_these) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width), every token of which a convolution sees -> the same shape."""
        x = x + self.first(self.first_norm(x)) / 2
        x, maps = self.branches(x, visible, recall)
        return self.norm(x + self.second(self.second_norm(x)) / 2), under("branches", maps)


class PreNormDecoderBlock(nn.Module):
    """Self-attention, attention to the encoder's memory, feed-forward, each as x + f(norm(x))."""

    def __init__(
        self, attention: MultiHeadAttention, cross: MultiHeadAttention, feed_forward: nn.Module, norm: Norm
    ) -> None:
        super().__init__()
        self.attention, self.attention_norm = attention, norm()
        self.cross, self.cross_norm = cross, norm()
        self.feed_forward, self.feed_forward_norm = feed_forward, norm()

    def forward(
        self, x: Tensor, memory: KeyValue, visible: Tensor, memory_visible: Tensor | None, recall: Recall
    ) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape; `memory` holds this block's cross keys and values."""
        y = self.attention_norm(x)
        mixed, own = self.attention.read(y, recall(self.attention.remember(y)), visible)
        x = x + mixed
        mixed, cross = self.cross.read(self.cross_norm(x), memory, memory_visible)
        x = x + mixed
        return x + self.feed_forward(self.feed_forward_norm(x)), under("attention", own) | under("cross", cross)


class PostNormDecoderBlock(PreNormDecoderBlock):
    """The same three steps, each as norm(x + f(x)) (Vaswani et al. 2017, figure 1)."""

    def forward(
        self, x: Tensor, memory: KeyValue, visible: Tensor, memory_visible: Tensor | None, recall: Recall
    ) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape; `memory` holds this block's cross keys and values."""
        mixed, own = self.attention.read(x, recall(self.attention.remember(x)), visible)
        x = self.attention_norm(x + mixed)
        mixed, cross = self.cross.read(x, memory, memory_visible)
        x = self.cross_norm(x + mixed)
        return self.feed_forward_norm(x + self.feed_forward(x)), under("attention", own) | under("cross", cross)


class Encoder(nn.Module):
    """Blocks one after the other, then a norm (`nn.Identity` where the blocks end in one)."""

    def __init__(self, blocks: Iterable[nn.Module], norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    def forward(
        self, x: Tensor, visible: Tensor | None, recalls: Sequence[Recall] | None = None
    ) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape; one entry of `recalls` a block."""
        recalls = recalls or [only_these] * len(self.blocks)
        maps: Maps = {}
        for index, (block, recall) in enumerate(zip(self.blocks, recalls, strict=True)):
            x, found = block(x, visible, recall)
            maps |= under(f"blocks.{index}", found)
        return self.norm(x), maps


class Decoder(nn.Module):
    """Decoder blocks one after the other, then a norm."""

    def __init__(self, blocks: Iterable[PreNormDecoderBlock], norm: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    def remember(self, memory: Tensor) -> list[KeyValue]:
        """Compute every block's cross keys and values from the encoder's memory (batch, source, width), once."""
        return [block.cross.remember(memory) for block in self.blocks]  # type: ignore[union-attr, operator] # ModuleList forgets its blocks' class

    def forward(
        self,
        x: Tensor,
        memory: Sequence[KeyValue],
        visible: Tensor,
        memory_visible: Tensor | None,
        recalls: Sequence[Recall] | None = None,
    ) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape; one entry of `memory` and of `recalls` a block."""
        recalls = recalls or [only_these] * len(self.blocks)
        maps: Maps = {}
        for index, (block, crossed, recall) in enumerate(zip(self.blocks, memory, recalls, strict=True)):
            x, found = block(x, crossed, visible, memory_visible, recall)
            maps |= under(f"blocks.{index}", found)
        return self.norm(x), maps
