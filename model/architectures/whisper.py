"""Whisper (Radford et al. 2023): an encoder-decoder that hears frames of sound and writes tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.transformer import Transformer
from model.parts.attention import Context, KeyValue, Maps, MultiHeadAttention, Recall, under
from model.parts.blocks import Decoder, Stack
from model.parts.cache import recording
from model.parts.embedding import Embedding, tied_linear
from model.parts.stacks import PRE_NORM, PlainSizes, StackSizes


@dataclass(frozen=True)
class WhisperConfig:
    """Sizes of a Whisper: `bands` of the mel scale, `frames` of the encoder, `length` of a target in tokens."""

    vocabulary: int
    bands: int
    frames: int
    length: int
    width: int
    encoder: StackSizes
    decoder: StackSizes
    activation: str = "gelu"


class FrameEmbedding(nn.Module):
    """Two convolutions along time, the second of which takes every other frame, plus positions (section 2.2)."""

    def __init__(self, bands: int, frames: int, width: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(bands, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.positions = nn.Embedding(frames, width)

    def forward(self, sound: Tensor) -> Tensor:
        """Take log-mel frames (batch, band, twice the frames) -> (batch, frame, width)."""
        x = F.gelu(self.second(F.gelu(self.first(sound)))).transpose(1, 2)
        return x + self.positions(torch.arange(x.shape[1], device=x.device))


class Whisper(Transformer):
    """Encode frames of sound once, then predict every token from them and the tokens before it."""

    source: FrameEmbedding  # type: ignore[assignment] # of frames, not of tokens

    def forward(self, sound: Tensor, target: Tensor) -> tuple[Tensor, Maps]:  # type: ignore[override] # frames have no padding
        """Teacher-forced pass: logits (batch, target, vocabulary) for the token after each target token, and all maps.

        sound (batch, band, twice the frames) are log-mel frames.
        """
        remembered, encoder_maps = self.hear(sound)
        logits, decoder_maps = self.write(target, remembered)
        return logits, encoder_maps | decoder_maps

    def hear(self, sound: Tensor, recalls: Sequence[Recall] | None = None) -> tuple[list[KeyValue], Maps]:
        """Run the encoder and compute the cross keys and values of every decoder block, once for all steps."""
        memory, maps = self.encoder(self.source(sound), Context(), recalls)
        return self.decoder.remember(memory), under("encoder", maps)

    def write(
        self, target: Tensor, memory: Sequence[KeyValue], recalls: Sequence[Recall] | None = None
    ) -> tuple[Tensor, Maps]:
        """Run the decoder on whole targets (batch, target) and what `hear` remembered."""
        return self.decode(target, memory, None, recalls)

    def prompt(self, target: Tensor, memory: Sequence[KeyValue]) -> list[KeyValue]:
        """Compute every decoder block's own keys and values of targets (batch, target), to write on from them."""
        recorded: list[KeyValue] = []
        self.states(target, memory, None, [recording(recorded)] * len(self.decoder.blocks))
        return recorded


def whisper(config: WhisperConfig, scale: float = 1.0) -> Whisper:
    """Compose a Whisper: norms before each branch, keys without a bias, one matrix for embedding and output.

    Embeddings of tokens are multiplied by `scale`.
    """

    def attention(sizes: PlainSizes) -> MultiHeadAttention:
        return sizes.attention(key_bias=False)

    own = config.encoder.within(config.width, config.activation)
    fed = config.decoder.within(config.width, config.activation)
    encoder = own.blocks(PRE_NORM.encoder_block, attention=lambda: attention(own), feed_forward=own.feed_forward)
    decoder = fed.blocks(
        PRE_NORM.decoder_block,
        attention=lambda: attention(fed),
        cross=lambda: attention(fed),
        feed_forward=fed.feed_forward,
    )
    tokens = nn.Embedding(config.vocabulary, config.width)
    return Whisper(
        source=FrameEmbedding(config.bands, config.frames, config.width),  # type: ignore[arg-type] # as above
        target=Embedding(tokens, nn.Embedding(config.length, config.width), scale=scale),
        encoder=Stack(encoder, nn.LayerNorm(config.width)),
        decoder=Decoder(decoder, nn.LayerNorm(config.width)),
        head=tied_linear(tokens),
    )
