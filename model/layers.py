"""Layers without attention: activations, feed-forwards, scales, positions, embeddings, patches."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


class QuickGELU(nn.Module):
    """x sigmoid(1.702 x), an approximation of GELU (Hendrycks & Gimpel 2016)."""

    def forward(self, x: Tensor) -> Tensor:
        """Take and return any shape."""
        return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU("tanh"),
    "quick_gelu": QuickGELU,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}
"""What makes an activation, by the name that a configuration gives it."""


class FeedForward(nn.Sequential):
    """W₂ a(W₁x): two layers and an activation, the same at every position (Vaswani et al. 2017, equation 2)."""

    def __init__(self, width: int, hidden: int, activation: nn.Module) -> None:
        super().__init__(nn.Linear(width, hidden), activation, nn.Linear(hidden, width))


def perceptron(*widths: int) -> nn.Sequential:
    """Compose linear layers from each width to the next, with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class GatedFeedForward(nn.Module):
    """W₃(a(W₁x) ⊙ W₂x), by default SwiGLU, in which a is SiLU (Shazeer 2020, equations 5 and 6)."""

    def __init__(self, width: int, hidden: int, activation: nn.Module | None = None, *, bias: bool = True) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias)
        self.up = nn.Linear(width, hidden, bias)
        self.activation = activation or nn.SiLU()
        self.output = nn.Linear(hidden, width, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Take x (..., width) -> the same shape."""
        mixed: Tensor = self.output(self.activation(self.gate(x)) * self.up(x))
        return mixed


class RMSNorm(nn.Module):
    """x / √(mean(x²) + ε) ⊙ g (Zhang & Sennrich 2019, equation 4), step by step, so that each step has its rule."""

    def __init__(self, width: int, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Take x (..., width) -> the same shape."""
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon)
        return x * scale * self.weight


class DepthwiseConvolution(nn.Conv1d):
    """One filter for each channel, along the tokens, with zeros beyond their ends.

    Raises ValueError for an even kernel, which has no middle.
    """

    def __init__(self, width: int, kernel: int) -> None:
        if kernel % 2 == 0:
            raise ValueError(f"depth-wise convolution: kernel must be odd, given {kernel}")
        super().__init__(width, width, kernel, padding=kernel // 2, groups=width)

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, token, width) -> the same shape."""
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class ConvolutionalGate(nn.Module):
    """One half of the width gates the other: A ⊙ DwConv(Norm(B)) (Peng et al. 2022, section 2.3)."""

    def __init__(self, width: int, kernel: int) -> None:
        if width % 2:
            raise ValueError(f"convolutional gate: width must be even, to be split in halves, given {width}")
        super().__init__()
        self.width = width // 2
        self.norm = nn.LayerNorm(self.width)
        self.convolution = DepthwiseConvolution(self.width, kernel)

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, token, width) -> (batch, token, width / 2)."""
        gated: Tensor = x[..., : self.width] * self.convolution(self.norm(x[..., self.width :]))
        return gated


class ConvolutionalGatingMLP(nn.Sequential):
    """cgMLP: widen, GELU, convolutional gate, narrow (Peng et al. 2022, section 2.3)."""

    def __init__(self, width: int, hidden: int, kernel: int) -> None:
        super().__init__(
            nn.Linear(width, hidden), nn.GELU(), ConvolutionalGate(hidden, kernel), nn.Linear(hidden // 2, width)
        )


class DepthwiseMerge(nn.Module):
    """Merge two branches y: Wy', where y' = DwConv(y) + y (Kim et al. 2022, section 2.2).

    A Branchformer merges by W alone, without the convolution (Peng et al. 2022, section 2.4).
    """

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.convolution = DepthwiseConvolution(2 * width, kernel)
        self.output = nn.Linear(2 * width, width)

    def forward(self, y: Tensor) -> Tensor:
        """Take y (batch, token, twice the width) -> (batch, token, width)."""
        merged: Tensor = self.output(self.convolution(y) + y)
        return merged


class LayerScale(nn.Module):
    """diag(w) x, on the branch of a residual block (Touvron et al. 2021, equation 3).

    w begins at `initial`, a small number in the paper.
    """

    def __init__(self, width: int, initial: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), initial))

    def forward(self, x: Tensor) -> Tensor:
        """Take x (..., width) -> the same shape."""
        return x * self.weight


def sinusoids(length: int, width: int, *, interleaved: bool = True, inclusive: bool = False) -> Tensor:
    """Return (length, width): PE(pos, 2i) = sin(pos / 10000^(2i/width)), PE(pos, 2i+1) = cos of the same angle.

    Vaswani et al. 2017, section 3.5; not `interleaved`, all sines come before all cosines, as in Marian
    (Junczys-Dowmunt et al. 2018). If `inclusive`, the last angle is pos / 10000: the exponents are i / (width/2 - 1),
    as in M2M-100 (Fan et al. 2020) and the authors' own code. Computed in float64 and returned in the default type.
    """
    if width % 2 or (inclusive and width < 4):
        least = ", 4 or more" if inclusive else ""
        raise ValueError(f"sinusoidal positions: width must be even{least}, given {width}")
    position = torch.arange(length, dtype=torch.float64)[:, None]
    return _waves(position, width, interleaved=interleaved, inclusive=inclusive)


def grid_sinusoids(rows: int, columns: int, width: int) -> Tensor:
    """Return (rows x columns, width) in reading order: half of the width tells the row, the other half the column.

    Each half is as in `sinusoids`, of rows and columns that count from 1 and are scaled to end at 2π (Parmar et al.
    2018; Carion et al. 2020, section A.4).
    """
    if width % 4:
        raise ValueError(f"sinusoidal positions of a grid: width must be a multiple of 4, given {width}")
    down, across = (
        _waves((torch.arange(1, side + 1, dtype=torch.float64) / (side + 1e-6) * 2 * math.pi)[:, None], width // 2)
        for side in (rows, columns)
    )
    return torch.cat((down.repeat_interleave(columns, 0), across.repeat(rows, 1)), dim=1)


class PointSinusoids(nn.Module):
    """Sinusoids of points: half of the width tells how far down a point is, the other half how far across.

    sin(a / 10000^(2i/n)) and cos of the same, of an angle a for each coordinate, where n is half of the width.
    """

    periods: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 4:
            raise ValueError(f"sinusoidal positions of points: width must be a multiple of 4, given {width}")
        periods = 10000 ** (torch.arange(0, width // 2, 2, dtype=torch.float64) / (width // 2))
        self.register_buffer("periods", periods.to(torch.get_default_dtype()), persistent=False)

    def forward(self, down: Tensor, across: Tensor) -> Tensor:
        """Take two angles (...) of each point -> (..., width)."""
        angle = torch.stack((down, across), dim=-1)[..., None] / self.periods  # (..., 2, width / 4)
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-3)


class GridSinusoids(nn.Module):
    """Where the cells of a grid stand, of which some may be hidden: `grid_sinusoids` of what is visible of it."""

    table: Tensor

    def __init__(self, rows: int, columns: int, width: int) -> None:
        super().__init__()
        self.grid = (rows, columns)
        self.points = PointSinusoids(width)
        self.register_buffer("table", grid_sinusoids(rows, columns, width), persistent=False)

    def forward(self, visible: Tensor | None) -> Tensor:
        """Take visible (batch, cell) -> (batch, cell, width), or None where all is visible -> (cell, width)."""
        if visible is None:
            return self.table
        shown = visible.reshape(-1, *self.grid).to(self.table.dtype)
        down, across = shown.cumsum(1), shown.cumsum(2)  # only visible cells count
        down = down / (down[:, -1:] + 1e-6) * 2 * math.pi
        across = across / (across[:, :, -1:] + 1e-6) * 2 * math.pi
        return self.points(down.flatten(1), across.flatten(1))


class LearnedGrid(nn.Module):
    """Where the cells of a grid stand: half of the width is learned for each column, the other half for each row.

    (Parmar et al. 2018; Carion et al. 2020, section 4.2.) `most` is how many rows and columns were learned.
    """

    def __init__(self, rows: int, columns: int, width: int, most: int = 50) -> None:
        if max(rows, columns) > most:
            raise ValueError(f"learned positions of a grid: at most {most} rows and columns, given {rows}x{columns}")
        if width % 2:
            raise ValueError(f"learned positions of a grid: width must be even, given {width}")
        super().__init__()
        self.grid = (rows, columns)
        self.rows = nn.Embedding(most, width // 2)
        self.columns = nn.Embedding(most, width // 2)

    def forward(self, visible: Tensor | None) -> Tensor:
        """Return (cell, width), whatever is visible."""
        rows, columns = self.grid
        down = self.rows.weight[:rows, None].expand(-1, columns, -1)  # (rows, columns, width / 2)
        across = self.columns.weight[None, :columns].expand(rows, -1, -1)
        return torch.cat((across, down), dim=-1).flatten(0, 1)


def _waves(position: Tensor, width: int, *, interleaved: bool = True, inclusive: bool = False) -> Tensor:
    exponent = torch.arange(0, width, 2, dtype=torch.float64) / (width - 2 if inclusive else width)
    angle = position / 10000**exponent  # (length, width / 2)
    table = torch.stack((angle.sin(), angle.cos()), dim=-1 if interleaved else -2)
    return table.flatten(1).to(torch.get_default_dtype())


class SinusoidalPositions(nn.Module):
    """Sinusoids, looked up by index. Learned positions are an `nn.Embedding`, called the same way."""

    table: Tensor

    def __init__(self, length: int, width: int, *, interleaved: bool = True, inclusive: bool = False) -> None:
        super().__init__()
        table = sinusoids(length, width, interleaved=interleaved, inclusive=inclusive)
        self.register_buffer("table", table, persistent=False)

    def forward(self, index: Tensor) -> Tensor:
        """Take index (...) -> (..., width)."""
        return self.table[index]


class NoPositions(nn.Module):
    """Zeros for every position: tokens are a set."""

    zero: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("zero", torch.zeros(1), persistent=False)  # cast with the module

    def forward(self, index: Tensor) -> Tensor:
        """Take index (...) -> (..., 1), zeros."""
        return self.zero.expand(*index.shape, 1)


class Embedding(nn.Module):
    """Scaled embeddings of tokens plus those of positions (Vaswani et al. 2017, sections 3.4 and 3.5).

    The first token stands at position `offset`. `types` adds an embedding of the text that a token belongs to, and
    `norm` normalises the sum (Devlin et al. 2019, section 3.2).
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
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.scale = scale
        self.offset = offset
        self.types = types
        self.norm = norm or nn.Identity()

    def forward(self, tokens: Tensor, index: Tensor, types: Tensor | None = None) -> Tensor:
        """Embed tokens (batch, length) at positions index (length) or (batch, length) -> (batch, length, width)."""
        x = self.tokens(tokens) * self.scale + self.positions(index + self.offset)  # (batch, length, width)
        if self.types is not None:
            x = x + self.types(types)
        return self.norm(x)


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


class Patches(nn.Module):
    """Cut an image into patches (height, width) and project each one (Dosovitskiy et al. 2021, equation 1)."""

    def __init__(self, image: tuple[int, int], channels: int, patch: tuple[int, int], width: int) -> None:
        super().__init__()
        self.image = image
        self.projection = nn.Conv2d(channels, width, kernel_size=patch, stride=patch)

    def forward(self, pixels: Tensor) -> Tensor:
        """Take pixels (batch, channels, height, width of the image) -> (batch, patches in reading order, width)."""
        if pixels.shape[-2:] != self.image:
            height, width = pixels.shape[-2:]
            raise ValueError(f"image: must be {self.image[0]}x{self.image[1]} pixels, given {height}x{width}")
        return self.projection(pixels).flatten(2).transpose(1, 2)
