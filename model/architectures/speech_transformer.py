"""The Speech-Transformer (Dong et al. 2018): attention along time and along frequency, then an encoder-decoder."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.transformer import token_table
from model.architectures.whisper import Whisper
from model.parts.attention import Context, KeyValue, Maps, Recall, attend, only_these, under
from model.parts.blocks import Decoder, Stack
from model.parts.embedding import Embedding, tied_linear
from model.parts.positions import SinusoidalPositions
from model.parts.sound import MelSizes
from model.parts.stacks import PRE_NORM, StackSizes

REDUCED = 4
"""Frames and bands of the mel scale for each of those behind the two convolutions."""


@dataclass(frozen=True)
class SpeechTransformerConfig:
    """Sizes of a Speech-Transformer: `bands` of the mel scale, `frames` of the encoder, `length` of a target in tokens.

    `channels` are those of convolutions, `maps` those that each of the `planes`, two-dimensional attentions, makes
    along time, and again along frequency.
    """

    vocabulary: int
    bands: int
    frames: int
    length: int
    width: int
    channels: int
    maps: int
    planes: int
    encoder: StackSizes
    decoder: StackSizes
    activation: str = "relu"

    def __post_init__(self) -> None:
        if self.bands % REDUCED:
            raise ValueError(f"bands: must be a multiple of {REDUCED}, given {self.bands}")

    @property
    def rows(self) -> int:
        """The bands behind the convolutions."""
        return self.bands // REDUCED


SPEECH_TRANSFORMER_SIZES = {
    # bundled: spoken digits to words; 3 s of frames of 10 ms
    "spoken-digits": SpeechTransformerConfig(
        13, bands=40, frames=75, length=8, width=96, channels=32, maps=8, planes=2,
        encoder=StackSizes(2, 4, 384), decoder=StackSizes(2, 4, 384),
    ),
}  # fmt: skip

SPOKEN_MEL = MelSizes(rate=8000, window=200, hop=80, bands=40)
"""The frames of the bundled models that hear."""


class PlaneAttention(nn.Module):
    """2D-attention (Dong et al. 2018, section 3.1): every channel attends along time, and along frequency.

    Queries, keys and values are `maps` channels each, made by convolutions. Along time, a query is the frequencies of
    one frame; along frequency, the frames of one band. What both mix is joined by a convolution and added to x.
    """

    def __init__(self, channels: int, maps: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Conv2d(channels, maps, 3, padding=1) for _ in range(3))
        self.output = nn.Conv2d(2 * maps, channels, 3, padding=1)

    def forward(self, x: Tensor, recall: Recall = only_these) -> tuple[Tensor, Maps]:
        """Take x (batch, channel, frame, band) -> the same shape.

        The maps `time` are (batch, map, frame, frame) and `frequency` (batch, map, band, band). `recall` is given the
        keys and values of time, then those of frequency.
        """
        query, key, value = self.query(x), self.key(x), self.value(x)
        over_time, times = attend(query, *recall((key, value)))
        turned = recall((key.transpose(2, 3), value.transpose(2, 3)))
        over_bands, bands = attend(query.transpose(2, 3), *turned)
        mixed = torch.cat((over_time, over_bands.transpose(2, 3)), dim=1)
        return x + self.output(mixed), {"time": times, "frequency": bands}


class PlaneEmbedding(nn.Module):
    """Two convolutions, each of which halves time and frequency, 2D-attentions, and a linear layer plus sinusoids."""

    def __init__(self, config: SpeechTransformerConfig) -> None:
        super().__init__()
        channels = config.channels
        self.first = nn.Conv2d(1, channels, 3, stride=2, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.planes = nn.ModuleList(PlaneAttention(channels, config.maps) for _ in range(config.planes))
        self.output = nn.Linear(channels * config.rows, config.width)
        self.positions = SinusoidalPositions(config.frames, config.width)

    def forward(self, sound: Tensor, recall: Recall = only_these) -> tuple[Tensor, Maps]:
        """Take log-mel frames (batch, band, 4 x frame) -> (batch, frame, width), and the maps of the 2D-attentions."""
        x = F.relu(self.second(F.relu(self.first(sound.transpose(1, 2)[:, None]))))  # (batch, channel, frame, band)
        maps: Maps = {}
        for index, plane in enumerate(self.planes):
            x, found = plane(x, recall)
            maps |= under(f"planes.{index}", found)
        x = self.output(x.transpose(1, 2).flatten(2))
        return x + self.positions(torch.arange(x.shape[1], device=x.device)), maps


class SpeechTransformer(Whisper):
    """Encode frames of sound once, then predict every token from them and the tokens before it."""

    source: PlaneEmbedding  # type: ignore[assignment] # which returns maps

    def hear(
        self, sound: Tensor, recalls: Sequence[Recall] | None = None, recall: Recall = only_these
    ) -> tuple[list[KeyValue], Maps]:
        """Run the encoder and compute the cross keys and values of every decoder block, once for all steps.

        `recalls` are those of the encoder's blocks, `recall` is that of the 2D-attentions before them.
        """
        x, planes = self.source(sound, recall)
        memory, maps = self.encoder(x, Context(), recalls)
        return self.decoder.remember(memory), under("source", planes) | under("encoder", maps)


def speech_transformer(config: SpeechTransformerConfig) -> SpeechTransformer:
    """Compose a Speech-Transformer with norms before each branch, and one matrix for embedding and output."""
    own = config.encoder.within(config.width, config.activation)
    fed = config.decoder.within(config.width, config.activation)
    tokens = token_table(config.vocabulary, config.width)
    return SpeechTransformer(
        source=PlaneEmbedding(config),  # type: ignore[arg-type] # of frames, not of tokens
        target=Embedding(tokens, SinusoidalPositions(config.length, config.width), scale=config.width**0.5),
        encoder=Stack(own.blocks(PRE_NORM.encoder_block), nn.LayerNorm(config.width)),
        decoder=Decoder(
            fed.blocks(
                PRE_NORM.decoder_block, attention=fed.attention, cross=fed.attention, feed_forward=fed.feed_forward
            ),
            nn.LayerNorm(config.width),
        ),
        head=tied_linear(tokens),
    )
