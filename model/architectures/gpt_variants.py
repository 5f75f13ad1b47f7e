"""Decoders alone that are composed of other blocks, norms or positions than GPT-2's."""

import functools
from dataclasses import dataclass
from typing import Any

from torch import nn

from model.architectures.gpt import GPTConfig
from model.parts.attention import MultiHeadAttention
from model.parts.blocks import BesideBlock, BranchNormBlock, PreNormBlock, Stack
from model.parts.contexts import LocalAndGlobal, Sight, Sights
from model.parts.embedding import Embedding
from model.parts.feed_forward import ACTIVATIONS, FeedForward, GatedFeedForward
from model.parts.norms import JointNorm, RMSNorm
from model.parts.positions import NO_STRETCH, NoPositions, Rotary
from model.parts.stretch import Stretch


@dataclass(frozen=True)
class LlamaConfig(GPTConfig):
    """Root-mean-square norms, gated feed-forwards, and queries and keys that are turned (Touvron et al. 2023, "LLaMA").

    A head is `head` wide, by default its share of the width; the first `turned` of its numbers, by default all, are
    turned by angles of the base `theta`, changed by `stretch`. Layers that are `still` turn nothing (Yang et al. 2025,
    "Rope to Nope and Back Again"); those that are `near` see the last `window` tokens (Jiang et al. 2023, "Mistral
    7B"). Of the biases `bias` is that of queries, keys and values, `gate_bias` that of feed-forwards. Embeddings are
    multiplied by `scale`. `heads_normed` says whether each head's queries and keys are normalised (Yang et al. 2025,
    "Qwen3").
    """

    activation: str = "silu"
    epsilon: float = 1e-6
    head: int | None = None
    scale: float = 1.0
    turned: int | None = None
    theta: float = 10_000.0
    stretch: Stretch = NO_STRETCH
    still: tuple[int, ...] = ()
    near: tuple[int, ...] = ()
    window: int | None = None
    bias: bool = False
    output_bias: bool = False
    gate_bias: bool = False
    heads_normed: bool = False

    @property
    def head_width(self) -> int:
        """How wide a head is."""
        return self.head or super().head_width

    def around(self) -> nn.Module:
        """Compose angles where tokens see those behind them, too. Raises ValueError for layers that see the last."""
        if self.near:
            raise ValueError("is_causal: must be true where layers see the last tokens alone")
        return super().around()

    def positions(self) -> nn.Module:
        """Compose what is added to embeddings of tokens: nothing."""
        return NoPositions()

    def embed(self, tokens: nn.Embedding) -> Embedding:
        """Compose what makes vectors of tokens, from their table."""
        return Embedding(tokens, self.positions(), scale=self.scale)

    def norm(self) -> nn.Module:
        """Compose a norm of the width."""
        return RMSNorm(self.width, self.epsilon)

    def head_norm(self, width: int) -> nn.Module:
        """Compose a norm of a head."""
        return RMSNorm(width, self.epsilon)

    def attention(self, **options: Any) -> MultiHeadAttention:  # noqa: ANN401 # those of MultiHeadAttention
        """Compose an attention."""
        biases = {"bias": self.bias, "output_bias": self.output_bias}
        norm = self.head_norm if self.heads_normed else None
        return super().attention(head_width=self.head, norm=norm, **biases, **options)

    def feed_forward(self) -> nn.Module:
        """Compose a feed-forward."""
        return GatedFeedForward(self.width, self.hidden, ACTIVATIONS[self.activation](), bias=self.gate_bias)

    def contexts(self) -> nn.Module:
        """Compose the angles and windows."""
        rotary = Rotary(self.turned or self.head_width, self.theta, self.stretch)
        each = [(layer in self.still, layer in self.near) for layer in range(self.layers)]
        ways = sorted(set(each))
        return Sights(
            [Sight(None if still else rotary, self.window if near else None) for still, near in ways],
            [ways.index(way) for way in each],
        )


@dataclass(frozen=True)
class Olmo2Config(LlamaConfig):
    """Norms stand behind each branch, and one of all heads together behind queries and behind keys.

    Walsh et al. 2025, "2 OLMo 2 Furious", section 3.2.
    """

    def attention(self, **options: Any) -> MultiHeadAttention:  # noqa: ANN401 # those of MultiHeadAttention
        """Compose an attention."""
        part = super().attention(**options)
        part.query_norm, part.key_norm = (
            JointNorm(heads, self.head_width, self.epsilon) for heads in (part.heads, part.key_heads)
        )
        return part

    def decoder(self) -> Stack:
        """Compose the stack."""
        return Stack(self.blocks(BranchNormBlock), self.norm())


@dataclass(frozen=True)
class NeoXConfig(LlamaConfig):
    """The norms and feed-forwards of GPT-2, with turned queries and keys (Black et al. 2022, "GPT-NeoX-20B").

    `beside` says whether both branches of a block read the same states.
    """

    beside: bool = True

    def norm(self) -> nn.Module:
        """Compose a norm of the width."""
        return nn.LayerNorm(self.width, self.epsilon)

    def feed_forward(self) -> nn.Module:
        """Compose a feed-forward."""
        return FeedForward(self.width, self.hidden, ACTIVATIONS[self.activation]())

    def decoder(self) -> Stack:
        """Compose the stack."""
        return Stack(self.blocks(BesideBlock if self.beside else PreNormBlock), self.norm())


@dataclass(frozen=True)
class GemmaConfig(LlamaConfig):
    """Norms stand before each branch and behind it, and near layers have angles of their own.

    Gemma Team 2025, "Gemma 3 Technical Report", section 2. `local_theta` is the base of the angles of near layers.
    """

    local_theta: float = 10_000.0

    def decoder(self) -> Stack:
        """Compose the stack."""
        return Stack(self.blocks(functools.partial(PreNormBlock, scale=self.norm)), self.norm())

    def contexts(self) -> nn.Module:
        """Compose the angles and windows."""
        whole = Sight(Rotary(self.head_width, self.theta, self.stretch))
        local = Sight(Rotary(self.head_width, self.local_theta), self.window)
        return Sights([whole, local], [int(layer in self.near) for layer in range(self.layers)])

    def around(self) -> nn.Module:
        """Compose the same where tokens see those on both sides: in near layers `window` // 2 on each.

        Schechter Vera et al. 2025, "EmbeddingGemma", section 2.1.
        """
        everywhere = [layer not in self.near for layer in range(self.layers)]
        whole = Rotary(self.head_width, self.theta, self.stretch)
        return LocalAndGlobal(everywhere, (self.window or 0) // 2, whole, Rotary(self.head_width, self.local_theta))
