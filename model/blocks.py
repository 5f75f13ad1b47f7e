"""Blocks and their stacks. A wiring is a class; its forward is the equation."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

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
