"""T5 (Raffel et al. 2020): an encoder-decoder that is told distances, not positions, and adds no bias anywhere."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from model.architectures.transformer import Transformer, TransformerConfig
from model.parts.attention import MultiHeadAttention
from model.parts.attention_variants import dot_product
from model.parts.blocks import Decoder, PreNormBlock, PreNormDecoderBlock, Stack
from model.parts.contexts import Apart
from model.parts.embedding import Embedding, tied_linear
from model.parts.feed_forward import ACTIVATIONS, FeedForward, GatedFeedForward
from model.parts.norms import RMSNorm
from model.parts.positions import NoPositions, RelativeBias
from model.parts.stacks import BlockSizes, StackSizes


@dataclass(frozen=True)
class T5Config(TransformerConfig):
    """Sizes of a T5; a head is `key_width` wide, whatever the width and the heads are.

    Distances fall into `buckets`, the last of which begins before `farthest`. All layers of a stack look up one table
    of theirs, unless each has its `own` (umT5). Feed-forwards may be `gated` (Shazeer 2020). States are multiplied by
    1/√width before the matrix of the embedding makes logits of them, where they are `rescaled` (section 2.1).
    """

    key_width: int = 64
    buckets: int = 32
    farthest: int = 128
    own: bool = False
    gated: bool = False
    rescaled: bool = True
    epsilon: float = 1e-6

    @property
    def own_head_width(self) -> int:
        """How wide every head is."""
        return self.key_width

    def stack(self, sizes: StackSizes) -> "T5StackSizes":
        """Return the sizes of the blocks of a stack."""
        return T5StackSizes(
            self.width,
            sizes.layers,
            sizes.heads,
            sizes.hidden,
            self.activation,
            self.epsilon,
            self.key_width,
            self.gated,
        )

    def contexts(self, sizes: StackSizes, *, both_ways: bool) -> Apart:
        """Compose what tells the layers of a stack how far apart tokens are."""
        tables = sizes.layers if self.own else 1
        return Apart(
            [RelativeBias(sizes.heads, self.buckets, self.farthest, both_ways=both_ways) for _ in range(tables)]
        )


@dataclass(frozen=True)
class T5StackSizes(BlockSizes):
    """Sizes of the blocks of a stack, and what makes their parts."""

    width: int
    layers: int
    heads: int
    hidden: int
    activation: str
    epsilon: float
    key_width: int
    gated: bool

    def norm(self) -> nn.Module:
        """Compose a norm, of a scale alone (section 2.1)."""
        return RMSNorm(self.width, self.epsilon)

    def attention(self, **options: Any) -> MultiHeadAttention:  # noqa: ANN401 # those of MultiHeadAttention
        """Compose an attention, whose scores are not divided by √d: its weights begin smaller, in the authors' code."""
        return super().attention(bias=False, output_bias=False, head_width=self.key_width, score=dot_product, **options)

    def feed_forward(self) -> nn.Module:
        """Compose a feed-forward."""
        make = GatedFeedForward if self.gated else FeedForward
        return make(self.width, self.hidden, ACTIVATIONS[self.activation](), bias=False)


class RescaledLinear(nn.Linear):
    """W(x/√width), the layer from states to logits whose matrix is that of the embedding (section 2.1)."""

    def __init__(self, tokens: nn.Embedding) -> None:
        super().__init__(tokens.embedding_dim, tokens.num_embeddings, bias=False)
        self.weight = tokens.weight

    def forward(self, x: Tensor) -> Tensor:
        """Take x (..., width) -> (..., vocabulary)."""
        return super().forward(x * self.in_features**-0.5)


def t5(config: T5Config, head: nn.Linear | None = None) -> Transformer:
    """Compose a T5. Embedding and output share one matrix, unless the output is given as `head`, as in version 1.1."""
    embedding = Embedding(nn.Embedding(config.vocabulary, config.width), NoPositions())
    tied = RescaledLinear if config.rescaled else tied_linear
    read, written = config.stack(config.encoder), config.stack(config.decoder)
    decoder = written.blocks(
        PreNormDecoderBlock, attention=written.attention, cross=written.attention, feed_forward=written.feed_forward
    )
    return Transformer(
        source=embedding,
        target=embedding,
        encoder=Stack(read.blocks(PreNormBlock), read.norm()),
        decoder=Decoder(decoder, written.norm()),
        head=head or tied(embedding.tokens),
        source_contexts=config.contexts(config.encoder, both_ways=True),
        target_contexts=config.contexts(config.decoder, both_ways=False),
    )
