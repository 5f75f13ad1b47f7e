"""The encoder-decoder Transformer (Vaswani et al. 2017, "Attention Is All You Need"); of BART, Marian and M2M-100."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.parts.attention import (
    Context,
    KeyValue,
    Maps,
    MultiHeadAttention,
    Recall,
    Score,
    causal,
    scaled_dot_product,
    under,
    visible_keys,
)
from model.parts.blocks import Decoder, Stack
from model.parts.cache import Slots
from model.parts.contexts import SeenAlone
from model.parts.embedding import Embedding, tied_linear
from model.parts.positions import SinusoidalPositions
from model.parts.stacks import POST_NORM, PlainSizes, StackSizes, Wiring


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of an encoder-decoder; `length` is the most tokens on either side.

    Source and target share one vocabulary and one embedding, unless `target_vocabulary` gives the target its own.
    """

    vocabulary: int
    length: int
    width: int
    encoder: StackSizes
    decoder: StackSizes
    activation: str = "relu"
    target_vocabulary: int | None = None

    @property
    def head_width(self) -> int:
        """How wide a head of the decoder is."""
        return self.own_head_width or self.width // self.decoder.heads

    @property
    def own_head_width(self) -> int | None:
        """How wide every head is, where that is not its share of the width."""
        return None


TRANSFORMER_SIZES = {
    # Vaswani et al. 2017, table 3, with the shared English-German vocabulary of section 5.1
    "transformer_base": TransformerConfig(
        37000, length=512, width=512, encoder=StackSizes(6, 8, 2048), decoder=StackSizes(6, 8, 2048)
    ),
    "transformer_big": TransformerConfig(
        37000, length=512, width=1024, encoder=StackSizes(6, 16, 4096), decoder=StackSizes(6, 16, 4096)
    ),
    # bundled: written dates to ISO 8601, characters as tokens
    "dates": TransformerConfig(75, length=96, width=128, encoder=StackSizes(3, 4, 512), decoder=StackSizes(3, 4, 512)),
    # bundled: the same task with bilinear scores and half the weights
    "dates-bilinear": TransformerConfig(
        75, length=96, width=112, encoder=StackSizes(2, 4, 448), decoder=StackSizes(2, 4, 448)
    ),
}


class AutoregressiveDecoder(nn.Module):
    """Predict every token of a target from what is remembered of a source and the tokens before it."""

    target: Embedding
    decoder: Decoder
    head: nn.Module
    target_contexts: nn.Module

    def decode(
        self,
        target: Tensor,
        memory: Sequence[KeyValue],
        source_visible: Tensor | None,
        recalls: Sequence[Recall] | None = None,
    ) -> tuple[Tensor, Maps]:
        """Run the decoder on whole targets (batch, target) and what is remembered of a source: logits, and maps."""
        x, maps = self.states(target, memory, source_visible, recalls)
        return self.head(x), maps

    def states(
        self,
        target: Tensor,
        memory: Sequence[KeyValue],
        source_visible: Tensor | None,
        recalls: Sequence[Recall] | None = None,
    ) -> tuple[Tensor, Maps]:
        """Return what the head reads of whole targets (batch, target): states (batch, target, width); and the maps."""
        index = torch.arange(target.shape[1], device=target.device)
        contexts = self.target_contexts(causal(target.shape[1], target.device), index, index)
        embedded = self.target(target, index)
        x, maps = self.decoder(embedded, contexts, memory, _over(source_visible), recalls)
        return x, under("decoder", maps)

    def step(
        self,
        token: Tensor,
        position: Tensor,
        past: Sequence[KeyValue],
        memory: Sequence[KeyValue],
        source_visible: Tensor | None,
    ) -> tuple[Tensor, list[KeyValue], Maps]:
        """Decode one token a row, every row at a position of its own: logits (batch, vocabulary), new cache, maps.

        token and position (batch); `past` as `Slots` takes it.
        """
        slots = Slots(past, position)
        row, at = token[:, None], position[:, None]
        embedded = self.target(row, at)  # (batch, 1, width)
        contexts = self.target_contexts(slots.visible, at, slots.index)
        x, maps = self.decoder(embedded, contexts, memory, _over(source_visible), slots.recalls)
        return self.head(x[:, 0]), slots.present, under("decoder", maps)


class Transformer(AutoregressiveDecoder):
    """Encode a source once, then predict every target token from the source and the tokens before it.

    `source_contexts` and `target_contexts` tell attention where the tokens of a side stand, as `Apart` does.
    """

    def __init__(
        self,
        source: Embedding,
        target: Embedding,
        encoder: Stack,
        decoder: Decoder,
        head: nn.Module,
        source_contexts: nn.Module | None = None,
        target_contexts: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.source = source
        self.target = target
        self.encoder = encoder
        self.decoder = decoder
        self.head = head
        self.source_contexts = source_contexts or SeenAlone()
        self.target_contexts = target_contexts or SeenAlone()

    def forward(self, source: Tensor, source_visible: Tensor, target: Tensor) -> tuple[Tensor, Maps]:
        """Teacher-forced pass: logits (batch, target, vocabulary) for the token after each target token, and all maps.

        source and target (batch, length) are token indices; source_visible (batch, source) is False on padding.
        Targets are padded on the right: each token sees itself and earlier ones, so none sees the padding behind it.
        """
        remembered, encoder_maps = self.encode(source, source_visible)
        logits, decoder_maps = self.decode(target, remembered, source_visible)
        return logits, encoder_maps | decoder_maps

    def encode(
        self, source: Tensor, source_visible: Tensor, recalls: Sequence[Recall] | None = None
    ) -> tuple[list[KeyValue], Maps]:
        """Run the encoder and compute the cross keys and values of every decoder block, once for all steps."""
        index = torch.arange(source.shape[1], device=source.device)
        embedded = self.source(source, index)
        contexts = self.source_contexts(visible_keys(source_visible), index, index)
        memory, maps = self.encoder(embedded, contexts, recalls)
        return self.decoder.remember(memory), under("encoder", maps)


def _over(source_visible: Tensor | None) -> Context:
    """Return the context of what reads a source (batch, source), of which None is all visible."""
    return Context() if source_visible is None else Context(visible_keys(source_visible))


def vaswani(
    config: TransformerConfig,
    wiring: Wiring = POST_NORM,
    score: Callable[[int, int], Score] = lambda heads, width: scaled_dot_product,
) -> Transformer:
    """Compose the Transformer of the paper: sinusoids, one matrix for embeddings and output (sections 3.4 and 3.5).

    `score` makes a score for a number of heads and the width of a head.
    """
    embedding = Embedding(
        token_table(config.vocabulary, config.width),
        SinusoidalPositions(config.length, config.width),
        scale=config.width**0.5,
    )
    return transformer(config, embedding, embedding, tied_linear(embedding.tokens), wiring, score)


PADDING_OFFSET = 2
"""Position of the first token of BART and M2M-100: the first two rows of their tables stand for padding."""


def bart(config: TransformerConfig, wiring: Wiring, *, scale: float, head: nn.Module | None = None) -> Transformer:
    """Compose a BART (Lewis et al. 2020): learned positions and a norm of embeddings on each side.

    Embeddings are multiplied by `scale`. Embedding and output share one matrix, unless the output is given as `head`:
    that of a classifier reads the last token of a text that both sides are given (section 3.1).
    """

    def embedding(tokens: nn.Embedding) -> Embedding:
        positions = nn.Embedding(PADDING_OFFSET + config.length, config.width)
        return Embedding(tokens, positions, scale=scale, offset=PADDING_OFFSET, norm=nn.LayerNorm(config.width))

    tokens = token_table(config.vocabulary, config.width)
    source, target = embedding(tokens), embedding(tokens)
    return transformer(config, source, target, head or tied_linear(tokens, bias=True), wiring)


def marian(config: TransformerConfig, wiring: Wiring, *, scale: float, head: nn.Linear | None = None) -> Transformer:
    """Compose a Marian (Junczys-Dowmunt et al. 2018): sinusoids, all sines before all cosines, and a bias of logits.

    Embeddings are multiplied by `scale`. Embedding and output share one matrix, unless the output is given as `head`.
    """

    def embedding(vocabulary: int) -> Embedding:
        positions = SinusoidalPositions(config.length, config.width, interleaved=False)
        return Embedding(token_table(vocabulary, config.width), positions, scale=scale)

    source = embedding(config.vocabulary)
    target = source if config.target_vocabulary is None else embedding(config.target_vocabulary)
    return transformer(config, source, target, head or tied_linear(target.tokens, bias=True), wiring)


def m2m_100(config: TransformerConfig, wiring: Wiring, *, scale: float, head: nn.Linear | None = None) -> Transformer:
    """Compose an M2M-100 (Fan et al. 2020): sinusoids up to pos / 10000, all sines before all cosines, an offset.

    Embeddings are multiplied by `scale`. Embedding and output share one matrix, unless the output is given as `head`.
    """
    positions = SinusoidalPositions(PADDING_OFFSET + config.length, config.width, interleaved=False, inclusive=True)
    tokens = token_table(config.vocabulary, config.width)
    embedding = Embedding(tokens, positions, scale=scale, offset=PADDING_OFFSET)
    return transformer(config, embedding, embedding, head or tied_linear(tokens), wiring)


def token_table(vocabulary: int, width: int) -> nn.Embedding:
    """Return a fresh embedding whose rows have unit variance once they are multiplied by √width."""
    table = nn.Embedding(vocabulary, width)
    nn.init.normal_(table.weight, std=width**-0.5)
    return table


def transformer(
    config: TransformerConfig,
    source: Embedding,
    target: Embedding,
    head: nn.Module,
    wiring: Wiring,
    score: Callable[[int, int], Score] = lambda heads, width: scaled_dot_product,
) -> Transformer:
    """Compose an encoder-decoder of two embeddings, which may be one, and an output layer.

    Raises ValueError for a vocabulary of the target's own where both sides share an embedding.
    """
    if source.tokens is target.tokens and config.target_vocabulary not in (None, config.vocabulary):
        raise ValueError(
            f"target_vocabulary: must be None, since both sides share one, given {config.target_vocabulary}"
        )

    def attention(sizes: PlainSizes) -> Callable[[], MultiHeadAttention]:
        return lambda: sizes.attention(score=score(sizes.heads, sizes.width // sizes.heads))

    own = config.encoder.within(config.width, config.activation)
    fed = config.decoder.within(config.width, config.activation)
    encoder = own.blocks(wiring.encoder_block, attention=attention(own), feed_forward=own.feed_forward)
    decoder = fed.blocks(
        wiring.decoder_block, attention=attention(fed), cross=attention(fed), feed_forward=fed.feed_forward
    )
    return Transformer(
        source=source,
        target=target,
        encoder=Stack(encoder, wiring.last_norm(config.width)),
        decoder=Decoder(decoder, wiring.last_norm(config.width)),
        head=head,
    )
