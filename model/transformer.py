"""The encoder-decoder Transformer (Vaswani et al. 2017, "Attention Is All You Need")."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from model.attention import KeyValue, Maps, MultiHeadAttention, Score, causal, scaled_dot_product, under
from model.blocks import (
    Decoder,
    Encoder,
    PostNormDecoderBlock,
    PostNormEncoderBlock,
    PreNormDecoderBlock,
    PreNormEncoderBlock,
    Recall,
)
from model.cache import Slots
from model.parts import ACTIVATIONS, Embedding, FeedForward, SinusoidalPositions

Positions: TypeAlias = Literal["interleaved", "halves", "learned"]
"""Sinusoids with sines and cosines interleaved, or all sines first; or a table that is learned."""


@dataclass(frozen=True)
class Stack:
    """Sizes of the encoder or the decoder; `hidden` is the width inside the feed-forward."""

    layers: int
    heads: int
    hidden: int


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of an encoder-decoder; `length` is the most tokens on either side.

    Source and target embedding are one matrix if `shared`, target embedding and output if `tied` (section 3.4 does
    both); `pre_norm` moves the normalisation from after each residual sum to before each branch; `scaled` multiplies
    embeddings by √width. BART (Lewis et al. 2020) and Marian (Junczys-Dowmunt et al. 2018) vary the rest: the first
    token stands at position `offset`, `embedding_norm` normalises the sum of token and position, and `bias` is added
    to the logits.
    """

    vocabulary: int
    length: int
    width: int
    encoder: Stack
    decoder: Stack
    shared: bool = True
    tied: bool = True
    pre_norm: bool = False
    positions: Positions = "interleaved"
    offset: int = 0
    scaled: bool = True
    embedding_norm: bool = False
    activation: str = "relu"
    bias: bool = False
    target_vocabulary: int | None = None
    """Where it is not the source's, with which no embedding can be shared then."""

    def __post_init__(self) -> None:
        if self.shared and self.target_vocabulary not in (None, self.vocabulary):
            raise ValueError(
                f"target_vocabulary: must be the source's, {self.vocabulary}, where embeddings are shared, "
                f"given {self.target_vocabulary}"
            )


TRANSFORMER_SIZES = {
    # Vaswani et al. 2017, table 3, with the shared English-German vocabulary of section 5.1
    "transformer_base": TransformerConfig(
        37000, length=512, width=512, encoder=Stack(6, 8, 2048), decoder=Stack(6, 8, 2048)
    ),
    "transformer_big": TransformerConfig(
        37000, length=512, width=1024, encoder=Stack(6, 16, 4096), decoder=Stack(6, 16, 4096)
    ),
    # bundled: written dates to ISO 8601, characters as tokens
    "dates": TransformerConfig(
        75, length=96, width=128, encoder=Stack(3, 4, 512), decoder=Stack(3, 4, 512), pre_norm=True
    ),
    # the same work with bilinear scores (`model.scores.Bilinear`), and half the weights
    "dates-bilinear": TransformerConfig(
        75, length=96, width=112, encoder=Stack(2, 4, 448), decoder=Stack(2, 4, 448), pre_norm=True
    ),
}


class Transformer(nn.Module):
    """Encode a source once, then predict every target token from the source and the tokens before it."""

    def __init__(
        self, source: Embedding, target: Embedding, encoder: Encoder, decoder: Decoder, head: nn.Linear
    ) -> None:
        super().__init__()
        self.source = source
        self.target = target
        self.encoder = encoder
        self.decoder = decoder
        self.head = head

    def forward(self, source: Tensor, source_visible: Tensor, target: Tensor) -> tuple[Tensor, Maps]:
        """Teacher-forced pass: logits (batch, target, vocabulary) for the token after each target token, and all maps.

        source and target (batch, length) are token indices; source_visible (batch, source) is False on padding.
        Targets are padded on the right, where no earlier token can see them.
        """
        remembered, encoder_maps = self.encode(source, source_visible)
        logits, decoder_maps = self.decode(target, remembered, source_visible)
        return logits, encoder_maps | decoder_maps

    def encode(
        self, source: Tensor, source_visible: Tensor, recalls: Sequence[Recall] | None = None
    ) -> tuple[list[KeyValue], Maps]:
        """Run the encoder and compute the cross keys and values of every decoder block, once for all steps."""
        index = torch.arange(source.shape[1], device=source.device)
        memory, maps = self.encoder(self.source(source, index), _keys(source_visible), recalls)
        return self.decoder.remember(memory), under("encoder", maps)

    def decode(
        self,
        target: Tensor,
        memory: Sequence[KeyValue],
        source_visible: Tensor,
        recalls: Sequence[Recall] | None = None,
    ) -> tuple[Tensor, Maps]:
        """Run the decoder on whole targets (batch, target) and what `encode` remembered."""
        index = torch.arange(target.shape[1], device=target.device)
        visible = causal(target.shape[1], target.device)
        x, maps = self.decoder(self.target(target, index), memory, visible, _keys(source_visible), recalls)
        return self.head(x), under("decoder", maps)

    def step(
        self,
        token: Tensor,
        position: Tensor,
        past: Sequence[KeyValue],
        memory: Sequence[KeyValue],
        source_visible: Tensor,
    ) -> tuple[Tensor, list[KeyValue], Maps]:
        """Decode one token a row, every row at a position of its own: logits (batch, vocabulary), new cache, maps.

        token and position (batch); `past` as `Slots` takes it.
        """
        slots = Slots(past, position)
        embedded = self.target(token[:, None], position[:, None])  # (batch, 1, width)
        x, maps = self.decoder(embedded, memory, slots.visible, _keys(source_visible), slots.recalls)
        return self.head(x)[:, 0], slots.present, under("decoder", maps)


def _keys(visible: Tensor) -> Tensor:
    return visible[:, None, None, :]  # (batch, head, query, key)


def transformer(
    config: TransformerConfig, score: Callable[[int, int], Score] = lambda heads, width: scaled_dot_product
) -> Transformer:
    """Compose an encoder-decoder of the given sizes with freshly initialised weights.

    `score` makes what scores, of so many heads, each so wide.
    """
    encoder_block, decoder_block = (
        (PreNormEncoderBlock, PreNormDecoderBlock) if config.pre_norm else (PostNormEncoderBlock, PostNormDecoderBlock)
    )
    targets = config.target_vocabulary or config.vocabulary

    def norm() -> nn.LayerNorm:
        return nn.LayerNorm(config.width)

    def attention(stack: Stack) -> MultiHeadAttention:
        return MultiHeadAttention(config.width, stack.heads, score=score(stack.heads, config.width // stack.heads))

    def feed_forward(stack: Stack) -> FeedForward:
        return FeedForward(config.width, stack.hidden, ACTIVATIONS[config.activation]())

    def last_norm() -> nn.Module:
        return norm() if config.pre_norm else nn.Identity()  # post-norm blocks end in one

    def tokens(vocabulary: int) -> nn.Embedding:
        table = nn.Embedding(vocabulary, config.width)
        nn.init.normal_(table.weight, std=config.width**-0.5)
        return table

    def positions() -> nn.Module:
        if config.positions == "learned":
            return nn.Embedding(config.offset + config.length, config.width)
        return SinusoidalPositions(config.length, config.width, interleaved=config.positions == "interleaved")

    def embedding(table: nn.Embedding) -> Embedding:
        return Embedding(
            table,
            positions(),
            scale=config.width**0.5 if config.scaled else 1.0,
            offset=config.offset,
            norm=norm() if config.embedding_norm else None,
        )

    source = embedding(tokens(config.vocabulary))
    # what is learned a side, positions and norm, is not shared; where nothing of it is, one embedding serves both
    alike = config.shared and config.positions != "learned" and not config.embedding_norm
    target = source if alike else embedding(source.tokens if config.shared else tokens(targets))
    head = nn.Linear(config.width, targets, bias=config.bias)
    if config.tied:
        head.weight = target.tokens.weight
    encoder, decoder = config.encoder, config.decoder
    return Transformer(
        source=source,
        target=target,
        encoder=Encoder(
            [encoder_block(attention(encoder), feed_forward(encoder), norm) for _ in range(encoder.layers)], last_norm()
        ),
        decoder=Decoder(
            [
                decoder_block(attention(decoder), attention(decoder), feed_forward(decoder), norm)
                for _ in range(decoder.layers)
            ],
            last_norm(),
        ),
        head=head,
    )
