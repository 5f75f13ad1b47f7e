"""Images to words: convolutional annotations, and a recurrent decoder that attends to them (Xu et al. 2015)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.architectures.recurrent import Recurrent, RecurrentConfig, aligned
from model.parts.attention import Select, soft
from model.parts.embedding import CellSizes, halving_convolutions


class ImageAnnotations(nn.Module):
    """A vector for every cell of a grid over the image, and their mean (section 3.1.1).

    `layers` are convolutions that reduce the image to the grid; a learned position is added to every cell.
    """

    def __init__(self, image: tuple[int, int], layers: nn.Sequential, positions: nn.Embedding) -> None:
        super().__init__()
        self.image = image
        self.layers = layers
        self.positions = positions

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Take normalised pixels (batch, channels, height, width) -> cells in reading order (batch, cell, width), mean.

        Raises ValueError for an image of another size.
        """
        if pixels.shape[-2:] != self.image:
            height, width = pixels.shape[-2:]
            raise ValueError(f"image: must be {self.image[0]}x{self.image[1]} pixels, given {height}x{width}")
        cells = self.layers(pixels).flatten(2).transpose(1, 2)  # (batch, cell, width)
        cells = cells + self.positions(torch.arange(cells.shape[1], device=cells.device))
        return cells, cells.mean(dim=1)


@dataclass(frozen=True)
class CaptionerConfig(CellSizes):
    """Sizes of a captioner: those of its image, and those of its decoder."""

    decoder: RecurrentConfig


def captioner(config: CaptionerConfig, select: Select = soft) -> Recurrent:
    """Compose a captioner with freshly initialised weights; its attention is soft by default."""
    width = config.decoder.source
    layers = halving_convolutions(config.channels, config.cell, width)
    rows, columns = config.grid
    annotations = ImageAnnotations(config.image, layers, nn.Embedding(rows * columns, width))
    return aligned(config.decoder, annotations, width, select)


CAPTIONS_MEAN, CAPTIONS_STD = 0.07, 0.2  # of the pixels in [0, 1] of the bundled captioner's images

CAPTIONER_SIZES = {
    # bundled: several handwritten digits to their words
    "captions": CaptionerConfig(
        (64, 64),
        1,
        cell=8,
        decoder=RecurrentConfig(
            13, length=64, target_length=8, embedding=32, source=96, alignment=64, width=128, readout=48
        ),
    ),
}
