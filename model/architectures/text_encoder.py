"""Encoders of text: BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019), DistilBERT (Sanh et al. 2019), MPNet."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.parts.attention import Maps, Recall, under
from model.parts.blocks import PostNormBlock, Stack
from model.parts.contexts import Biased, Unplaced
from model.parts.embedding import Embedding
from model.parts.feed_forward import ACTIVATIONS
from model.parts.heads import EachLinear, FirstClassifier, MaskedWords, head_width, word_parts
from model.parts.positions import RelativeBias
from model.parts.stacks import BlockSizes


@dataclass(frozen=True)
class TextEncoderConfig(BlockSizes):
    """Sizes of a text encoder; `length` is the most tokens, `types` the number of texts that one input may hold.

    The first token stands at position `offset` of a table of offset + length. With `buckets`, a bias by distance, which
    all layers share, is added to scores (Song et al. 2020, section 3.2). Embeddings are `embedding` wide, by default as
    wide as states, to which they are projected (Lan et al. 2020, section 3.1).
    """

    vocabulary: int
    length: int
    width: int
    layers: int
    heads: int
    hidden: int
    activation: str = "gelu"
    epsilon: float = 1e-12
    types: int = 0
    offset: int = 0
    buckets: int = 0
    embedding: int | None = None

    def embed(self) -> Embedding:
        """Compose what makes vectors of tokens."""
        width = self.embedding or self.width
        return Embedding(
            nn.Embedding(self.vocabulary, width),
            self.positions(width),
            offset=self.offset,
            types=nn.Embedding(self.types, width) if self.types else None,
            norm=self.embedding_norm(width),
            projection=nn.Linear(width, self.width) if self.embedding else None,
        )

    def positions(self, width: int) -> nn.Module:
        """Compose what is added to embeddings of tokens."""
        return nn.Embedding(self.offset + self.length, width)

    def embedding_norm(self, width: int) -> nn.Module:
        """Compose the norm of embeddings."""
        return nn.LayerNorm(width, eps=self.epsilon)

    def encoder(self) -> Stack:
        """Compose the stack: a norm behind each residual sum (Vaswani et al. 2017, section 3.1)."""
        return Stack(self.blocks(PostNormBlock), nn.Identity())

    def contexts(self) -> nn.Module:
        """Compose what says in each layer what tokens look at, and where they stand."""
        return Biased(RelativeBias(self.heads, self.buckets)) if self.buckets else Unplaced()


TEXT_ENCODER_SIZES = {
    # bundled: lines of written dates, characters as tokens, one of which is the mask
    "dates-mlm": TextEncoderConfig(76, length=96, width=128, layers=3, heads=4, hidden=512),
    # bundled: texts with dates, the same characters, each of which is in a part of a date or in none
    "dates-tags": TextEncoderConfig(75, length=96, width=96, layers=3, heads=4, hidden=384),
    # bundled: a written date and an ISO date, as the two texts of a pair
    "dates-rank": TextEncoderConfig(76, length=96, width=128, layers=3, heads=4, hidden=512, types=2),
}


class TextEncoder(nn.Module):
    """Embed tokens, let each look at all others, and pass the last states to a head."""

    def __init__(self, embed: Embedding, encoder: Stack, head: nn.Module, contexts: nn.Module) -> None:
        super().__init__()
        self.embed = embed
        self.contexts = contexts
        self.encoder = encoder
        self.head = head

    @property
    def width(self) -> int:
        """How many numbers the head returns a text, or a masked place."""
        return head_width(self.head, self.embed.width)

    def forward(
        self,
        source: Tensor,
        visible: Tensor,
        types: Tensor | None = None,
        *asked: Tensor,
        recalls: Sequence[Recall] | None = None,
    ) -> tuple[Tensor, Maps]:
        """Return the head's answer for the tokens source (batch, length), and the encoder's maps.

        visible (batch, length) is False on padding; types (batch, length) says which text of a pair a token is in, 0 or
        1. The head is given `asked`: the positions of masked tokens, where the task has them.
        """
        index = torch.arange(source.shape[1], device=source.device)
        x, maps = self.encoder(self.embed(source, index, types), self.contexts(visible), recalls)
        return self.head(x, visible, *asked), under("encoder", maps)


def text_encoder(config: TextEncoderConfig, head: nn.Module) -> TextEncoder:
    """Compose a text encoder of the given sizes with freshly initialised weights."""
    return TextEncoder(config.embed(), config.encoder(), head, config.contexts())


def text_ranker(config: TextEncoderConfig) -> TextEncoder:
    """Compose a cross-encoder: one score of a pair of texts, by the first token (Nogueira and Cho 2019)."""
    return text_encoder(config, FirstClassifier(config.width, 1, nn.Tanh()))


def word_filler(config: TextEncoderConfig) -> TextEncoder:
    """Compose a masked language model, with one matrix for embedding and output (Devlin et al. 2019)."""
    head = MaskedWords(word_parts(config.width, config.vocabulary, ACTIVATIONS[config.activation](), config.norm()))
    module = text_encoder(config, head)
    head.output.weight = module.embed.tokens.weight
    return module


def tagger(config: TextEncoderConfig, tags: int) -> TextEncoder:
    """Compose a classifier of tokens (Devlin et al. 2019)."""
    return text_encoder(config, EachLinear(config.width, tags))
