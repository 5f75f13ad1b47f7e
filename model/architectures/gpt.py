"""The decoder-only Transformer (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", GPT-2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from model.architectures.text_encoder import TextEncoder
from model.parts.attention import KeyValue, Maps, MultiHeadAttention, Recall, causal, under
from model.parts.blocks import PreNormBlock, Stack
from model.parts.cache import Slots, recording
from model.parts.contexts import Around, Before, Sight
from model.parts.embedding import Embedding, tied_linear
from model.parts.stacks import BlockSizes


@dataclass(frozen=True)
class GPTConfig(BlockSizes):
    """Sizes of a GPT; `length` is the most tokens.

    There may be fewer heads of keys and values (`key_heads`) than of queries; caches hold those.
    """

    vocabulary: int
    length: int
    width: int
    layers: int
    heads: int
    hidden: int
    activation: str = "gelu_tanh"
    epsilon: float = 1e-5
    key_heads: int | None = None

    @property
    def types(self) -> int:
        """How many texts of one input embeddings tell apart: they do not."""
        return 0

    def positions(self) -> nn.Module:
        """Compose what is added to embeddings of tokens."""
        return nn.Embedding(self.length, self.width)

    def embed(self, tokens: nn.Embedding) -> Embedding:
        """Compose what makes vectors of tokens, from their table."""
        return Embedding(tokens, self.positions())

    def attention(self, **options: Any) -> MultiHeadAttention:  # noqa: ANN401 # those of MultiHeadAttention
        """Compose an attention."""
        return super().attention(key_heads=self.key_heads, **options)

    def decoder(self) -> Stack:
        """Compose the stack."""
        return Stack(self.blocks(PreNormBlock), self.norm())

    def contexts(self) -> nn.Module:
        """Compose what says in each layer what tokens look at, and where they stand."""
        return Sight()

    def before(self) -> nn.Module:
        """Compose the same of a text that is read, and not continued."""
        return Before(self.contexts())

    def around(self) -> nn.Module:
        """Compose the same where tokens see those behind them, too."""
        return Around(self.contexts())


GPT_SIZES = {
    # bundled: lines of written dates, characters as tokens
    "dates-clm": GPTConfig(75, length=96, width=128, layers=3, heads=4, hidden=512),
}


class GPT(nn.Module):
    """Predict every token from those before it. `contexts` say where they stand, as `Sight` does."""

    def __init__(self, embed: Embedding, decoder: Stack, head: nn.Module, contexts: nn.Module) -> None:
        super().__init__()
        self.embed = embed
        self.contexts = contexts
        self.decoder = decoder
        self.head = head

    def forward(self, tokens: Tensor, recalls: Sequence[Recall] | None = None) -> tuple[Tensor, Maps]:
        """Return logits (batch, token, vocabulary) of the token after each of `tokens` (batch, token), and all maps.

        Padding stands on the right, where no earlier token can see it.
        """
        x, maps = self.states(tokens, recalls)
        logits: Tensor = self.head(x)
        return logits, maps

    def states(self, tokens: Tensor, recalls: Sequence[Recall] | None = None) -> tuple[Tensor, Maps]:
        """Return what the head reads of tokens (batch, token): states (batch, token, width); and all maps."""
        length = tokens.shape[1]
        index = torch.arange(length, device=tokens.device)
        contexts = self.contexts(causal(length, tokens.device), index)
        x, maps = self.decoder(self.embed(tokens, index), contexts, recalls)
        return x, under("decoder", maps)

    def remember(self, tokens: Tensor) -> list[KeyValue]:
        """Compute every block's keys and values of tokens (batch, token), to decode on from them."""
        remembered: list[KeyValue] = []
        self.states(tokens, [recording(remembered)] * len(self.decoder.blocks))
        return remembered

    def step(self, token: Tensor, position: Tensor, past: Sequence[KeyValue]) -> tuple[Tensor, list[KeyValue], Maps]:
        """Decode one token a row, every row at a position of its own: logits (batch, vocabulary), new cache, maps.

        token and position (batch); `past` as `Slots` takes it.
        """
        slots = Slots(past, position)
        at = position[:, None]
        x, maps = self.decoder(self.embed(token[:, None], at), self.contexts(slots.visible, at), slots.recalls)
        return self.head(x[:, 0]), slots.present, under("decoder", maps)


def gpt(config: GPTConfig, head: nn.Module | None = None) -> GPT:
    """Compose a GPT of the given sizes with freshly initialised weights.

    Embedding and output share one matrix, unless the output is given as `head`.
    """
    tokens = nn.Embedding(config.vocabulary, config.width)
    head = head or tied_linear(tokens)
    return GPT(config.embed(tokens), config.decoder(), head, config.contexts())


def text_reader(model: GPT, contexts: nn.Module) -> TextEncoder:
    """Return an encoder of texts of a GPT's parts, whose head takes states and which of them are visible."""
    return TextEncoder(model.embed, model.decoder, model.head, contexts)
