"""Encoders of text that are composed of other blocks, norms or positions than BERT's."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from model.architectures.text_encoder import TextEncoderConfig
from model.parts.attention import MultiHeadAttention
from model.parts.blocks import PostNormBlock, PreNormBlock, Stack, with_weights_of
from model.parts.contexts import Disentangled, LocalAndGlobal, Turned
from model.parts.disentangled import DisentangledAttention, logarithmic_classes, plain_classes
from model.parts.feed_forward import ACTIVATIONS, GatedFeedForward
from model.parts.norms import RMSNorm
from model.parts.positions import NoPositions, Rotary
from model.parts.stretch import Stretch


@dataclass(frozen=True)
class PreNormEncoderConfig(TextEncoderConfig):
    """Norms stand before each branch, and behind the last block (Xiong et al. 2020, table 1).

    `embedding_normed` says whether one stands behind embeddings, too.
    """

    embedding_normed: bool = True

    def embedding_norm(self, width: int) -> nn.Module:
        """Compose the norm of embeddings, or none."""
        return super().embedding_norm(width) if self.embedding_normed else nn.Identity()

    def encoder(self) -> Stack:
        """Compose the stack."""
        return Stack(self.blocks(PreNormBlock), self.norm())


@dataclass(frozen=True)
class SharedEncoderConfig(TextEncoderConfig):
    """Layers share weights: ALBERT (Lan et al. 2020, section 3.1).

    `weights` says of each layer the first one that has the same.
    """

    weights: tuple[int, ...] = ()

    def encoder(self) -> Stack:
        """Compose the stack, a block for each layer: what looks at a layer finds one that is its own."""
        blocks = self.blocks(PostNormBlock)
        for block, first in zip(blocks, self.weights, strict=True):
            with_weights_of(blocks[first], block)
        return Stack(blocks, nn.Identity())


@dataclass(frozen=True)
class DisentangledEncoderConfig(TextEncoderConfig):
    """Scores of what tokens are and of how far away: DeBERTa (He et al. 2021), whose embeddings know no positions.

    There are `buckets` of distances in each direction, that end at `farthest`, or without buckets each distance up to
    `farthest`. `distances_normed` says whether a norm stands behind the states of distances.
    """

    farthest: int = 512
    distances_normed: bool = True

    def positions(self, width: int) -> nn.Module:
        """Compose what is added to embeddings of tokens: nothing."""
        return NoPositions()

    def attention(self, **options: Any) -> MultiHeadAttention:  # noqa: ANN401 # those of MultiHeadAttention
        """Compose an attention."""
        return DisentangledAttention(self.width, self.heads)

    def contexts(self) -> nn.Module:
        """Compose the states of distances."""
        classes = (
            logarithmic_classes(self.length, self.buckets, self.farthest)
            if self.buckets
            else plain_classes(self.length, self.farthest)
        )
        states = 2 * (self.buckets or self.farthest)
        return Disentangled(
            classes, nn.Embedding(states, self.width), self.norm() if self.distances_normed else nn.Identity()
        )


@dataclass(frozen=True)
class RotaryEncoderConfig(TextEncoderConfig):
    """Queries and keys are turned by their positions, with a base of angles `theta` (Su et al. 2021, "RoFormer").

    Texts that are `stretch` times as long as those of a training are told by a base as many times as large, and by
    angles divided by stretch^(2/d), where heads are d wide (NTK-aware; Su 2023, kexue.fm/archives/9706, equation 6).
    `attention_bias` says whether the projections of attention add a bias.
    """

    theta: float = 10_000.0
    stretch: float = 1.0
    attention_bias: bool = True

    def positions(self, width: int) -> nn.Module:
        """Compose what is added to embeddings of tokens: nothing."""
        return NoPositions()

    def attention(self, **options: Any) -> MultiHeadAttention:  # noqa: ANN401 # those of MultiHeadAttention
        """Compose an attention."""
        return super().attention(bias=self.attention_bias, output_bias=self.attention_bias, **options)

    def rotary(self, theta: float) -> Rotary:
        """Compose the angles of a base."""
        width = self.width // self.heads
        return Rotary(width, theta * self.stretch, Stretch(self.stretch ** (2 / width)))

    def contexts(self) -> nn.Module:
        """Compose the angles."""
        return Turned(self.rotary(self.theta))


@dataclass(frozen=True)
class GatedEncoderConfig(RotaryEncoderConfig):
    """The same with gated feed-forwards (Shazeer 2020).

    `gate_bias` is that of all their layers, unless `output_bias` says otherwise of the last.
    """

    gate_bias: bool = False
    output_bias: bool | None = None

    def feed_forward(self) -> nn.Module:
        """Compose a feed-forward."""
        return GatedFeedForward(
            self.width,
            self.hidden,
            ACTIVATIONS[self.activation](),
            bias=self.gate_bias,
            output_bias=self.output_bias,
        )


@dataclass(frozen=True)
class EuroBertConfig(GatedEncoderConfig):
    """Blocks of a LLaMA in which all tokens see each other (Boizard et al. 2025, "EuroBERT", section 2.1).

    Fewer heads of keys and values, `key_heads`, may serve those of queries.
    """

    key_heads: int | None = None

    def norm(self) -> nn.Module:
        """Compose a norm of the width."""
        return RMSNorm(self.width, self.epsilon)

    def embedding_norm(self, width: int) -> nn.Module:
        """Compose the norm of embeddings: none."""
        return nn.Identity()

    def attention(self, **options: Any) -> MultiHeadAttention:  # noqa: ANN401 # those of MultiHeadAttention
        """Compose an attention."""
        return super().attention(key_heads=self.key_heads, **options)

    def encoder(self) -> Stack:
        """Compose the stack."""
        return Stack(self.blocks(PreNormBlock), self.norm())


@dataclass(frozen=True)
class ModernBertConfig(GatedEncoderConfig):
    """Layers that look at all tokens among layers that look at near ones (Warner et al. 2024, "ModernBERT").

    The layers of these numbers look `everywhere`; the others look at tokens that are `reach` away, and are turned with
    the base `local_theta`. `norm_bias` says whether norms add a bias.
    """

    everywhere: tuple[int, ...] = ()
    reach: int = 64
    local_theta: float = 10_000.0
    norm_bias: bool = False

    def norm(self) -> nn.LayerNorm:
        """Compose a norm of the width."""
        return nn.LayerNorm(self.width, eps=self.epsilon, bias=self.norm_bias)

    def embedding_norm(self, width: int) -> nn.Module:
        """Compose the norm of embeddings."""
        return self.norm()

    def encoder(self) -> Stack:
        """Compose the stack; embeddings are normalised, so that the first attention has no norm (section 2.1.1)."""
        blocks = self.blocks(PreNormBlock)
        blocks[0].attention_norm = nn.Identity()
        return Stack(blocks, self.norm())

    def contexts(self) -> nn.Module:
        """Compose the angles and windows."""
        everywhere = [layer in self.everywhere for layer in range(self.layers)]
        return LocalAndGlobal(everywhere, self.reach, self.rotary(self.theta), self.rotary(self.local_theta))
