"""The base of decoders of texts that stand behind an encoder of another family: what one `model_type` has in common."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from torch import Tensor

from export.checkpoints.building.tensor_names import Names
from export.checkpoints.reading.config import Config
from model.parts.attention import MultiHeadAttention
from model.parts.blocks import Decoder
from model.parts.embedding import Embedding
from model.parts.stacks import PlainSizes, Wiring


class CrossAttentionConfig(Config):
    """What the configurations of such decoders have in common."""

    is_decoder: Literal[True] = True  # type: ignore[assignment] # the other of two
    add_cross_attention: Literal[True] = True  # type: ignore[assignment] # likewise
    cross_attention_hidden_size: int | None = None
    """The width of the states that are looked at; where it is not said, they are brought to the decoder's."""


class Parts(NamedTuple):
    """A decoder, not yet filled, and its sizes."""

    sizes: PlainSizes
    length: int
    target: Embedding
    decoder: Decoder


C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class TextDecoder(ABC, Generic[C]):
    """A kind of decoder: its configuration, its parts, and the names of its tensors."""

    model_type: str
    config: type[C]
    names: Names
    prefix: str
    """What stands before these names."""
    output: str
    """The layer that makes logits, without the prefix. Its matrix is the embedding, or one of its own."""

    @abstractmethod
    def compose(self, config: C, source: int | None) -> Parts:
        """Compose the decoder of states `source` wide, by default as wide as its own."""

    def adapt(self, config: C, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors by our names, with the changes that the parts need; by default none."""
        return tensors


def cross_stack(sizes: PlainSizes, source: int | None, wiring: Wiring) -> Decoder:
    """Compose the blocks of a decoder that looks at states `source` wide, by default as wide as its own."""

    def cross() -> MultiHeadAttention:
        return sizes.attention(source=source)

    blocks = sizes.blocks(wiring.decoder_block, attention=sizes.attention, cross=cross, feed_forward=sizes.feed_forward)
    return Decoder(blocks, wiring.last_norm(sizes.width))
