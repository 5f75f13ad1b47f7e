"""Decoders alone that are composed of other blocks, norms or positions than GPT-2's."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from model.architectures.gpt import GPTConfig
from model.parts.attention import MultiHeadAttention
from model.parts.contexts import Sight, Sights
from model.parts.feed_forward import ACTIVATIONS, GatedFeedForward
from model.parts.norms import RMSNorm
from model.parts.positions import NO_STRETCH, NoPositions, Rotary
from model.parts.stretch import Stretch


@dataclass(frozen=True)
class LlamaConfig(GPTConfig):
    """Root-mean-square norms, gated feed-forwards, and queries and keys that are turned (Touvron et al. 2023, "LLaMA").

    A head is `head` wide, by default its share of the width; angles have the base `theta`, changed by `stretch`. Layers
    that are `still` turn nothing (Yang et al. 2025, "Rope to Nope and Back Again"); those that are `near` see the last
    `window` tokens (Jiang et al. 2023, "Mistral 7B"). Of the biases `bias` is that of queries, keys and values,
    `gate_bias` that of feed-forwards. `heads_normed` says whether each head's queries and keys are normalised (Yang et
    al. 2025, "Qwen3").
    """

    activation: str = "silu"
    epsilon: float = 1e-6
    head: int | None = None
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

    def positions(self) -> nn.Module:
        """Compose what is added to embeddings of tokens: nothing."""
        return NoPositions()

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
        rotary = Rotary(self.head_width, self.theta, self.stretch)
        each = [(layer in self.still, layer in self.near) for layer in range(self.layers)]
        ways = sorted(set(each))
        return Sights(
            [Sight(None if still else rotary, self.window if near else None) for still, near in ways],
            [ways.index(way) for way in each],
        )
