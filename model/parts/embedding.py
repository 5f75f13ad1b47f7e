"""Tokens and patches become vectors."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


class Embedding(nn.Module):
    """Scaled embeddings of tokens plus those of positions (Vaswani et al. 2017, sections 3.4 and 3.5).

    The first token stands at position `offset`. `types` adds an embedding of the text that a token belongs to, and
    `norm` normalises the sum (Devlin et al. 2019, section 3.2). `projection` leads from their width to the model's
    (Lan et al. 2020, section 3.1).
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        positions: nn.Module,
        *,
        scale: float = 1.0,
        offset: int = 0,
        types: nn.Embedding | None = None,
        norm: nn.Module | None = None,
        projection: nn.Linear | None = None,
    ) -> None:
        super().__init__()
        self.width = projection.out_features if projection else tokens.embedding_dim
        self.tokens = tokens
        self.positions = positions
        self.scale = scale
        self.offset = offset
        self.types = types
        self.norm = norm or nn.Identity()
        self.projection = projection or nn.Identity()

    def forward(self, tokens: Tensor, index: Tensor, types: Tensor | None = None) -> Tensor:
        """Embed tokens (batch, length) at positions index (length) or (batch, length) -> (batch, length, width)."""
        x = self.tokens(tokens) * self.scale + self.positions(index + self.offset)  # (batch, length, width)
        if self.types is not None:
            x = x + self.types(types)
        return self.projection(self.norm(x))


def tied_linear(tokens: nn.Embedding, *, bias: bool = False) -> nn.Linear:
    """Return the layer from states to logits whose matrix is that of the embedding (Press & Wolf 2017)."""
    layer = nn.Linear(tokens.embedding_dim, tokens.num_embeddings, bias)
    layer.weight = tokens.weight
    return layer


@dataclass(frozen=True)
class CellSizes:
    """Sizes of a grid of cells: image (height, width) and the side of a cell, in pixels."""

    image: tuple[int, int]
    channels: int
    cell: int

    def __post_init__(self) -> None:
        if self.cell < 1 or self.cell & (self.cell - 1) or any(side % self.cell for side in self.image):
            height, width = self.image
            raise ValueError(
                f"image: sides must be multiples of the cell's {self.cell}, a power of two, given {height}x{width}"
            )

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return self.image[0] // self.cell, self.image[1] // self.cell


def halving_convolutions(channels: int, cell: int, width: int) -> nn.Sequential:
    """Compose convolutions that reduce every `cell` x `cell` pixels, a power of two, to a cell of a width.

    Each halves the sides and widens; a last one does neither.
    """
    halvings = cell.bit_length() - 1
    widths = [channels, *(max(1, width >> halvings - 1 - step) for step in range(halvings))]
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    layers += [nn.Conv2d(widths[-1], width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers)


def within(shown: Tensor, sides: Sequence[int], step: int = 1) -> Tensor:
    """Return which cells of images begin in their first rows and columns of pixels: (batch, 1, rows, columns) of bool.

    `shown` (batch, 2) are the numbers of these rows and columns; `sides` those of cells, each of `step` pixels a side.
    """
    down, across = (
        torch.arange(0, side * step, step, device=shown.device) < shown[:, axis, None]
        for axis, side in enumerate(sides)
    )
    return (down[:, :, None] & across[:, None])[:, None]


@contextlib.contextmanager
def alone(backbone: nn.Module, shown: Tensor, height: int) -> Iterator[None]:
    """Let convolutions compute of images in the upper left of a canvas of this height what they would of these alone.

    What stands beside an image becomes 0 wherever it is read beside the image, as convolutions have it at the edges; to
    pooling, whose inputs are no less, it is then nothing. `shown` is as in `within`.
    """

    def trim(_: nn.Module, given: tuple[Tensor]) -> Tensor:
        (x,) = given
        return x * within(shown, x.shape[-2:], height // x.shape[-2])

    with contextlib.ExitStack() as hooks:
        for part in backbone.modules():
            if isinstance(part, nn.Conv2d | nn.MaxPool2d) and part.kernel_size not in (1, (1, 1)):
                hooks.enter_context(part.register_forward_pre_hook(trim))
        yield


class Patches(nn.Module):
    """Cut an image into patches (height, width) and project each one (Dosovitskiy et al. 2021, equation 1).

    They lie side by side unless `stride` says how far apart they begin.
    """

    def __init__(
        self,
        image: tuple[int, int],
        channels: int,
        patch: tuple[int, int],
        width: int,
        stride: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.image = image
        self.projection = nn.Conv2d(channels, width, kernel_size=patch, stride=stride or patch)

    def forward(self, pixels: Tensor) -> Tensor:
        """Take pixels (batch, channels, height, width of the image) -> (batch, patches in reading order, width)."""
        if pixels.shape[-2:] != self.image:
            height, width = pixels.shape[-2:]
            raise ValueError(f"image: must be {self.image[0]}x{self.image[1]} pixels, given {height}x{width}")
        return self.projection(pixels).flatten(2).transpose(1, 2)
