"""The convolutional encoder-decoder with attention in every layer (Gehring et al. 2017)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from model.parts.attention import KeyValue, Maps, attend, under, visible_keys
from model.parts.attention_variants import dot_product
from model.parts.cache import before, put
from model.parts.embedding import Embedding

ROOT_HALF = 0.5**0.5
"""A sum of two terms times this keeps the variance of one (section 3.4)."""

Memory: TypeAlias = tuple[Tensor, ...]
"""Keys and values of the source, which every layer reads, (batch, 1, source, width) each."""


class GatedConvolution(nn.Module):
    """A convolution and a gate beside it: A ⊙ sigmoid(B) (section 3.2; Dauphin et al. 2017).

    What it reads for one token lies `dilation` tokens apart (Kalchbrenner et al. 2016, "ByteNet", section 3.5), and
    spans `earlier` tokens beside it.
    """

    def __init__(self, width: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.earlier = (kernel - 1) * dilation
        self.convolution = nn.Conv1d(width, 2 * width, kernel, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, earlier + token, width) -> (batch, token, width)."""
        both = self.convolution(x.transpose(1, 2)).transpose(1, 2)  # (batch, token, twice the width)
        half = both.shape[-1] // 2
        return both[..., :half] * torch.sigmoid(both[..., half:])


class StepAttention(nn.Module):
    """A layer's attention to the source: queries d = Wh + b + g, dot products, and a projection (section 3.3).

    Keys and values are the same for all layers. The factor m√(1/m) of what is mixed of m keys (section 3.4) is left
    out.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def read(self, x: Tensor, embedded: Tensor, remembered: KeyValue, visible: Tensor | None) -> tuple[Tensor, Maps]:
        """Let x (batch, query, width), the states of tokens `embedded` (the same shape), look at remembered keys."""
        query = self.query(x) + embedded  # (batch, query, width)
        mixed, weights = attend(query[:, None], *remembered, visible, dot_product)
        return self.output(mixed[:, 0]), {"": weights}  # (batch, query, width)


class ConvolutionalEncoder(nn.Module):
    """Gated convolutions, each over a token and equally many tokens on either side (section 3.2)."""

    def __init__(self, layers: Sequence[GatedConvolution]) -> None:
        super().__init__()
        self.side = layers[0].earlier // 2
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """Take x (batch, token, width) and visible (batch, token) -> the shape of x. Padding counts as zeros."""
        shown = visible[:, :, None]
        for layer in self.layers:
            padded = nn.functional.pad(torch.where(shown, x, 0), (0, 0, self.side, self.side))
            x = (x + layer(padded)) * ROOT_HALF
        return x


class DecoderLayer(nn.Module):
    """A gated convolution of the tokens so far, then attention (section 3.3)."""

    def __init__(self, convolution: GatedConvolution, attention: StepAttention) -> None:
        super().__init__()
        self.convolution = convolution
        self.attention = attention

    def forward(
        self, x: Tensor, earlier: Tensor, embedded: Tensor, memory: KeyValue, visible: Tensor | None
    ) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) and what the convolution reads before it -> the same shape."""
        h = self.convolution(torch.cat((earlier, x), dim=1))
        mixed, maps = self.attention.read(h, embedded, memory, visible)
        return (x + (h + mixed) * ROOT_HALF) * ROOT_HALF, under("attention", maps)


class ConvolutionalDecoder(nn.Module):
    """Layers one after the other; in each a token sees itself and `earlier` ones of that layer (section 3.3)."""

    def __init__(self, blocks: Sequence[DecoderLayer]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.earlier = [block.convolution.earlier for block in blocks]

    def forward(
        self, embedded: Tensor, earlier: Sequence[Tensor], memory: Memory, visible: Tensor
    ) -> tuple[Tensor, list[Tensor], Maps]:
        """Take embedded tokens (batch, token, width), and each layer's inputs for the tokens before them.

        Returns states of the same shape, each layer's inputs for these tokens, and maps.
        """
        x = embedded
        given = list[Tensor]()
        maps = Maps()
        for index, (block, before_x) in enumerate(zip(self.blocks, earlier, strict=True)):
            given.append(x)
            x, found = block(x, before_x, embedded, (memory[0], memory[1]), visible_keys(visible))
            maps |= under(f"blocks.{index}", found)
        return x, given, maps


class Convolutional(nn.Module):
    """Encode a source once, then predict every target token from the source and the tokens before it."""

    def __init__(
        self,
        source: Embedding,
        target: Embedding,
        encoder: ConvolutionalEncoder,
        decoder: ConvolutionalDecoder,
        head: nn.Linear,
    ) -> None:
        super().__init__()
        self.source = source
        self.target = target
        self.encoder = encoder
        self.decoder = decoder
        self.head = head

    def forward(self, source: Tensor, visible: Tensor, target: Tensor) -> tuple[Tensor, Maps]:
        """Teacher-forced pass: logits (batch, target, vocabulary) of the token after each, and all maps."""
        return self.decode(target, self.encode(source, visible), visible)

    def encode(self, source: Tensor, visible: Tensor) -> Memory:
        """Return the keys z, and the values z + e, e the embedded source, once for all steps (section 3.3)."""
        embedded = self.source(source, torch.arange(source.shape[1], device=source.device))
        z = self.encoder(embedded, visible)
        return z[:, None], (z + embedded)[:, None]

    def decode(self, target: Tensor, memory: Memory, visible: Tensor) -> tuple[Tensor, Maps]:
        """Run the decoder on whole targets (batch, target)."""
        embedded = self.target(target, torch.arange(target.shape[1], device=target.device))
        nothing = [embedded.new_zeros(target.shape[0], count, embedded.shape[2]) for count in self.decoder.earlier]
        x, _, maps = self.decoder(embedded, nothing, memory, visible)
        return self.head(x), under("decoder", maps)

    def step(
        self, token: Tensor, position: Tensor, past: Sequence[Tensor], memory: Memory, visible: Tensor
    ) -> tuple[Tensor, list[Tensor], Maps]:
        """Decode one token a row, every row at a position of its own: logits (batch, vocabulary), new cache, maps.

        token and position (batch); past holds each layer's inputs (batch, 1, capacity, width).
        """
        embedded = self.target(token[:, None], position[:, None])  # (batch, 1, width)
        earlier = [before(cache, position, count) for cache, count in zip(past, self.decoder.earlier, strict=True)]
        x, given, maps = self.decoder(embedded, earlier, memory, visible)
        present = [put(cache, position, one[:, 0]) for cache, one in zip(past, given, strict=True)]
        return self.head(x)[:, 0], present, under("decoder", maps)


@dataclass(frozen=True)
class ConvolutionalConfig:
    """Sizes of a convolutional encoder-decoder; `length` is the most tokens on either side.

    `dilations` are those of the decoder's layers, if they are not all 1: doubled from layer to layer, they let a token
    see ever more of those before it (Kalchbrenner et al. 2016, section 3.5).
    """

    vocabulary: int
    length: int
    width: int
    encoder: int
    decoder: int
    kernel: int
    dilations: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise ValueError(f"convolutional encoder: kernel must be odd, given {self.kernel}")
        if len(self.dilations or ()) not in (0, self.decoder):
            raise ValueError(
                f"convolutional decoder: must have a dilation for each of {self.decoder} layers, given {self.dilations}"
            )


def convolutional(config: ConvolutionalConfig) -> Convolutional:
    """Compose a convolutional encoder-decoder of the given sizes with freshly initialised weights."""

    def embedding() -> Embedding:
        table = Embedding(nn.Embedding(config.vocabulary, config.width), nn.Embedding(config.length, config.width))
        nn.init.normal_(table.tokens.weight, std=0.1)  # section 3.5
        nn.init.normal_(table.positions.weight, std=0.1)  # type: ignore[arg-type] # a module's attribute
        return table

    return Convolutional(
        embedding(),
        embedding(),
        ConvolutionalEncoder([GatedConvolution(config.width, config.kernel) for _ in range(config.encoder)]),
        ConvolutionalDecoder(
            [
                DecoderLayer(GatedConvolution(config.width, config.kernel, dilation), StepAttention(config.width))
                for dilation in config.dilations or [1] * config.decoder
            ]
        ),
        nn.Linear(config.width, config.vocabulary),
    )


CONVOLUTIONAL_SIZES = {
    # bundled: written dates to ISO 8601, characters as tokens
    "dates-convolutional": ConvolutionalConfig(75, length=96, width=96, encoder=4, decoder=3, kernel=5),
}
