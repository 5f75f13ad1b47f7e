"""Blocks of a stack, composed from sizes: the same parts in the encoders and decoders of all models."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import nn

from model.parts.attention import MultiHeadAttention
from model.parts.blocks import PostNormBlock, PostNormDecoderBlock, PreNormBlock, PreNormDecoderBlock
from model.parts.feed_forward import ACTIVATIONS, FeedForward

B = TypeVar("B", bound=nn.Module)


class BlockSizes:
    """Sizes of the blocks of a stack, and what makes their parts: the base of configurations that name these sizes.

    `hidden` is the width inside the feed-forward, `epsilon` that of the norms.
    """

    width: int
    layers: int
    heads: int
    hidden: int
    activation: str
    epsilon: float

    @property
    def head_width(self) -> int:
        """How wide a head is: its share of the width."""
        return self.width // self.heads

    def norm(self) -> nn.Module:
        """Compose a norm of the width."""
        return nn.LayerNorm(self.width, eps=self.epsilon)

    def attention(self, **options: Any) -> MultiHeadAttention:  # noqa: ANN401 # those of MultiHeadAttention
        """Compose an attention."""
        return MultiHeadAttention(self.width, self.heads, **options)

    def feed_forward(self) -> nn.Module:
        """Compose a feed-forward."""
        return FeedForward(self.width, self.hidden, ACTIVATIONS[self.activation]())

    def blocks(self, make: Callable[..., B], **parts: Callable[[], object]) -> list[B]:
        """Compose a block for each layer: `make` is given fresh parts by name, and what makes a norm.

        The parts are by default an attention and a feed-forward. Their weights are drawn in the order of the parts.
        """
        parts = parts or {"attention": self.attention, "feed_forward": self.feed_forward}
        return [make(**{name: part() for name, part in parts.items()}, norm=self.norm) for _ in range(self.layers)]


@dataclass(frozen=True)
class PlainSizes(BlockSizes):
    """Sizes of blocks, and nothing else."""

    width: int
    layers: int
    heads: int
    hidden: int
    activation: str
    epsilon: float = 1e-5


@dataclass(frozen=True)
class StackSizes:
    """Sizes of the encoder or the decoder in a model of both; `hidden` is the width inside the feed-forward."""

    layers: int
    heads: int
    hidden: int

    def within(self, width: int, activation: str) -> PlainSizes:
        """Return the sizes of the blocks in a model of a width."""
        return PlainSizes(width, self.layers, self.heads, self.hidden, activation)


@dataclass(frozen=True)
class Wiring:
    """Where an encoder-decoder normalises: the classes of its blocks, and what makes the norm behind a stack's last."""

    encoder_block: type[PreNormBlock]
    decoder_block: type[PreNormDecoderBlock]
    last_norm: Callable[[int], nn.Module]


POST_NORM = Wiring(PostNormBlock, PostNormDecoderBlock, nn.Identity)
"""After each residual sum, so that the last block ends in a norm (Vaswani et al. 2017, section 3.1)."""

PRE_NORM = Wiring(PreNormBlock, PreNormDecoderBlock, nn.LayerNorm)
"""Before each branch, and once more behind the last block (Xiong et al. 2020, table 1)."""
