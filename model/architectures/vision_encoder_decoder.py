"""An encoder of pictures whose patches a decoder of texts looks at, such as TrOCR (Li et al. 2021)."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from model.architectures.transformer import AutoregressiveDecoder
from model.architectures.vit import ViT, ViTConfig
from model.parts.attention import KeyValue, Maps, Recall, under
from model.parts.blocks import Decoder
from model.parts.contexts import SeenAlone
from model.parts.embedding import Embedding
from model.parts.stacks import PlainSizes


@dataclass(frozen=True)
class VisionEncoderDecoderConfig:
    """Sizes of the encoder of pictures and of the decoder, and the most tokens of a target."""

    image: ViTConfig
    decoder: PlainSizes
    vocabulary: int
    length: int


class VisionEncoderDecoder(AutoregressiveDecoder):
    """Encode a picture once, then predict every token from it and the tokens before it.

    `vision` has a head that returns all states; `bridge` leads from their width to what the decoder looks at.
    """

    def __init__(self, vision: ViT, bridge: nn.Module, target: Embedding, decoder: Decoder, head: nn.Module) -> None:
        super().__init__()
        self.vision = vision
        self.bridge = bridge
        self.target = target
        self.decoder = decoder
        self.head = head
        self.target_contexts = SeenAlone()

    def forward(self, pixels: Tensor, target: Tensor) -> tuple[Tensor, Maps]:
        """Teacher-forced pass: logits (batch, target, vocabulary) for the token after each target token, and all maps.

        pixels (batch, channels, height, width) are normalised; target (batch, target) are token indices.
        """
        remembered, vision_maps = self.encode(pixels)
        logits, decoder_maps = self.decode(target, remembered, None)
        return logits, vision_maps | decoder_maps

    def encode(self, pixels: Tensor, recalls: Sequence[Recall] | None = None) -> tuple[list[KeyValue], Maps]:
        """Run the encoder and compute the cross keys and values of every decoder block, once for all steps."""
        states, maps = self.vision(pixels, recalls)
        return self.decoder.remember(self.bridge(states)), under("vision", maps)
