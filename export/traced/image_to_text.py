"""Models that write of pictures: their maps, and what is encoded of a picture."""

from collections.abc import Sequence
from itertools import chain

from torch import Tensor, nn

from contract.manifest import Kind
from export.traced.base import Observed, Traced, values_of
from export.traced.generation import answers_of
from export.traced.images import Normalize
from model.architectures.vision_encoder_decoder import VisionEncoderDecoder
from model.parts.attention import KeyValue
from model.parts.cache import recording


class TracedVisionEncoderDecoder(Traced):
    """Pixels (batch, height, width, channels), target, and the tokens answered -> logits of the token after each."""

    model: VisionEncoderDecoder
    stacks = ("vision.encoder", "decoder")

    def __init__(self, model: VisionEncoderDecoder, kinds: Sequence[Kind], normalize: Normalize) -> None:
        super().__init__(model, kinds)
        self.normalize = normalize

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        pixels, target, *answered = inputs
        own: list[KeyValue] = []
        fed: list[KeyValue] = []
        encoder, decoder, _ = self.kinds
        memory, maps = self.model.encode(self.normalize(pixels), [recording(own)] * len(encoder.maps))
        x, others = self.model.states(target, memory, None, [recording(fed)] * len(decoder.maps))
        logits = answers_of(self.model.head, x, answered)
        return Observed(logits, self.by_kind(maps | others), [values_of(own), values_of(fed), values_of(memory)])


class VisionEncode(nn.Module):
    """Pixels (batch, height, width, channels) -> the keys and values of every decoder block's cross-attention."""

    def __init__(self, model: VisionEncoderDecoder, normalize: Normalize) -> None:
        super().__init__()
        self.model = model
        self.normalize = normalize

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """Return key, value, key, value, ... each (batch, heads, patch, head width)."""
        return tuple(chain(*self.model.encode(self.normalize(pixels))[0]))
