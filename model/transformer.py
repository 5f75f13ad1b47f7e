"""The encoder-decoder Transformer (Vaswani et al. 2017, "Attention Is All You Need")."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.attention import KeyValue, Maps, MultiHeadAttention, causal, under
from model.blocks import (
    Decoder,
    Encoder,
    PostNormDecoderBlock,
    PostNormEncoderBlock,
    PreNormDecoderBlock,
    PreNormEncoderBlock,
    Recall,
)
from model.parts import Embedding, FeedForward, SinusoidalPositions


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of an encoder-decoder; `layers` of each, `length` the most tokens on either side.

    `tied` shares one matrix between source embedding, target embedding and output (section 3.4); `pre_norm` moves the
    normalisation from after each residual sum to before each branch.
    """

    vocabulary: int
    length: int
    width: int
    layers: int
    heads: int
    hidden: int
    tied: bool = True
    pre_norm: bool = False


TRANSFORMER_SIZES = {
    # Vaswani et al. 2017, table 3, with the shared English-German vocabulary of section 5.1
    "transformer_base": TransformerConfig(37000, length=512, width=512, layers=6, heads=8, hidden=2048),
    "transformer_big": TransformerConfig(37000, length=512, width=1024, layers=6, heads=16, hidden=4096),
    # bundled: written dates to ISO 8601, characters as tokens
    "dates": TransformerConfig(75, length=96, width=128, layers=3, heads=4, hidden=512, pre_norm=True),
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
        index = torch.arange(target.shape[1], device=target.device)
        x, decoder_maps = self.decoder(
            self.target(target, index), remembered, causal(target.shape[1], target.device), _keys(source_visible)
        )
        return self.head(x), encoder_maps | under("decoder", decoder_maps)

    def encode(self, source: Tensor, source_visible: Tensor) -> tuple[list[KeyValue], Maps]:
        """Run the encoder and compute the cross keys and values of every decoder block, once for all steps."""
        index = torch.arange(source.shape[1], device=source.device)
        memory, maps = self.encoder(self.source(source, index), _keys(source_visible))
        return self.decoder.remember(memory), under("encoder", maps)

    def step(
        self,
        token: Tensor,
        position: Tensor,
        past: Sequence[KeyValue],
        memory: Sequence[KeyValue],
        source_visible: Tensor,
    ) -> tuple[Tensor, list[KeyValue], Maps]:
        """Decode one token a row, every row at a position of its own: logits (batch, vocabulary), new cache, maps.

        token and position (batch); each tensor of `past` (batch, heads, capacity, width of a head) has room for
        `capacity` tokens, of which a row has filled its first `position`, so position < capacity. What lies behind them
        has no weight, but must be finite.
        """
        slot = torch.arange(past[0][0].shape[2], device=token.device)  # (capacity)
        here = (slot == position[:, None])[:, None, :, None]  # (batch, 1, capacity, 1)
        present: list[KeyValue] = []

        def recall_from(cache: KeyValue) -> Recall:
            def recall(new: KeyValue) -> KeyValue:
                key, value = (torch.where(here, fresh, old) for fresh, old in zip(new, cache, strict=True))
                present.append((key, value))
                return key, value

            return recall

        x, maps = self.decoder(
            self.target(token[:, None], position[:, None]),  # (batch, 1, width)
            memory,
            (slot <= position[:, None])[:, None, None, :],  # (batch, 1, 1, capacity)
            _keys(source_visible),
            [recall_from(cache) for cache in past],
        )
        return self.head(x)[:, 0], present, under("decoder", maps)


def _keys(visible: Tensor) -> Tensor:
    return visible[:, None, None, :]  # (batch, head, query, key)


def transformer(config: TransformerConfig) -> Transformer:
    """Compose an encoder-decoder of the given sizes with freshly initialised weights."""
    encoder_block, decoder_block = (
        (PreNormEncoderBlock, PreNormDecoderBlock) if config.pre_norm else (PostNormEncoderBlock, PostNormDecoderBlock)
    )

    def norm() -> nn.LayerNorm:
        return nn.LayerNorm(config.width)

    def attention() -> MultiHeadAttention:
        return MultiHeadAttention(config.width, config.heads)

    def feed_forward() -> FeedForward:
        return FeedForward(config.width, config.hidden, nn.ReLU())

    def last_norm() -> nn.Module:
        return norm() if config.pre_norm else nn.Identity()  # post-norm blocks end in one

    def tokens() -> nn.Embedding:
        table = nn.Embedding(config.vocabulary, config.width)
        nn.init.normal_(table.weight, std=config.width**-0.5)
        return table

    shared = SinusoidalPositions(config.length, config.width)
    source = Embedding(tokens(), shared)
    target = source if config.tied else Embedding(tokens(), shared)
    head = nn.Linear(config.width, config.vocabulary, bias=False)
    if config.tied:
        head.weight = target.tokens.weight
    return Transformer(
        source=source,
        target=target,
        encoder=Encoder([encoder_block(attention(), feed_forward(), norm) for _ in range(config.layers)], last_norm()),
        decoder=Decoder(
            [decoder_block(attention(), attention(), feed_forward(), norm) for _ in range(config.layers)], last_norm()
        ),
        head=head,
    )
