"""Where tokens stand, told to attention: angles of queries and keys, a bias by distance, and windows of a text."""

import math
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from model.parts.attention import Context, Contexts, Rotation
from model.parts.stretch import Stretch

NO_STRETCH = Stretch()


class Rotary(nn.Module):
    """The angle m θ^(-2i/d) of the token at position m and pair i of a head d wide (Su et al. 2021, equation 15).

    `stretch` changes them for longer texts. They are single floats at least: half ones know no far position from its
    neighbour.
    """

    frequencies: Tensor

    def __init__(self, width: int, theta: float = 10_000.0, stretch: Stretch = NO_STRETCH) -> None:
        if width % 2:
            raise ValueError(f"rotary positions: width of a head must be even, given {width}")
        super().__init__()
        pairs = torch.arange(0, width, 2, dtype=torch.float64)
        self.register_buffer("frequencies", stretch(theta ** (-pairs / width), theta).float(), persistent=False)
        self.size = stretch.size

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        exact = self.frequencies
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call] # a module's, by which it is cast
        if self.frequencies.itemsize < torch.float32.itemsize:
            self.frequencies = exact.to(self.frequencies.device, torch.float32)
        return self

    def forward(self, positions: Tensor) -> Rotation:
        """Return the cosine and the sine of each angle of positions (token) or (batch, token), and a pair."""
        angles = positions[..., None] * self.frequencies
        cosine, sine = angles.cos(), angles.sin()
        return Rotation(cosine, sine) if self.size == 1 else Rotation(cosine * self.size, sine * self.size)


class RelativeBias(nn.Module):
    """A learned number for each head and each bucket of distances (Raffel et al. 2020, section 2.1).

    Where queries look both ways, half of the buckets are of later keys; else a later key is as far as the query itself.
    Of the buckets of one direction, the first half holds a distance each, and the others grow by a ratio up to the
    distance `farthest`; the last holds all beyond.
    """

    bucket: Tensor

    def __init__(self, heads: int, buckets: int, farthest: int = 128, *, both_ways: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        self.farthest = farthest
        self.register_buffer("bucket", bucket_of_each(buckets, farthest, both_ways=both_ways), persistent=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Take positions of queries and of keys, (token) or (batch, token) -> (..., heads, query, key)."""
        distance = key[..., None, :] - query[..., :, None]
        bucket = self.bucket[distance.clamp(-self.farthest, self.farthest) + self.farthest]
        bias: Tensor = self.table(bucket).movedim(-1, -3)
        return bias


def bucket_of_each(buckets: int, farthest: int, *, both_ways: bool) -> Tensor:
    """Return the bucket of each distance from -farthest to farthest, the key's position less the query's.

    Raises ValueError for fewer than two buckets of a direction, or a distance that the exact ones reach.
    """
    own = buckets // 2 if both_ways else buckets
    exact = own // 2
    if not exact:
        raise ValueError(f"buckets of distances: must be at least 2 for each direction, given {own}")
    if farthest <= exact:
        raise ValueError(f"farthest distance: must be beyond the {exact} that have a bucket each, given {farthest}")
    distances = torch.arange(-farthest, farthest + 1)
    away = distances.abs() if both_ways else (-distances).clamp(min=0)
    ratio = torch.log(away.clamp(min=1).float() / exact) / math.log(farthest / exact)
    grown = (exact + (ratio * (own - exact)).long()).clamp(max=own - 1)
    found = torch.where(away < exact, away, grown)
    return found + (distances > 0).long() * own if both_ways else found


def offsets(rows: int, columns: int) -> Tensor:
    """Return (cell, cell), which of the (2 rows - 1)(2 columns - 1) differences of places lies between query and key.

    Liu et al. 2021, equation 4: differences count in reading order, from the key below and right of the query onwards.
    """
    cell = torch.arange(rows * columns)
    row, column = cell // columns, cell % columns
    down, across = row[:, None] - row + rows - 1, column[:, None] - column + columns - 1
    return down * (2 * columns - 1) + across


class GridBiases(nn.Module):
    """A learned number for each head and each difference of two cells of a grid, before which stands a class token.

    `own` layers have a table each, or all look up one that is `shared`; of both, the sum is taken. The last three rows
    of a table are of the class token: as a query, as a key, and as both (Bao et al. 2022, BEiT, in the authors' code).
    """

    index: Tensor

    def __init__(self, heads: int, rows: int, columns: int, *, own: int, shared: bool) -> None:
        super().__init__()
        differences = (2 * rows - 1) * (2 * columns - 1)
        self.own, self.shared = (
            nn.ModuleList(nn.Embedding(differences + 3, heads) for _ in range(count)) for count in (own, shared)
        )
        index = torch.full((1 + rows * columns,) * 2, differences)
        index[1:, 1:] = offsets(rows, columns)
        index[1:, 0], index[0, 0] = differences + 1, differences + 2
        self.register_buffer("index", index, persistent=False)

    def forward(self) -> Contexts:
        """Return the context of each layer, or that of all, whose bias is (heads, query, key)."""
        common = [table(self.index).movedim(-1, 0) for table in self.shared]
        if not self.own:
            return Context(bias=common[0])
        return [Context(bias=sum(common, table(self.index).movedim(-1, 0))) for table in self.own]


class GridRotary(nn.Module):
    """The angles of the cells of a grid: those of rows turn half of the pairs of a head, those of columns the other.

    Row or column i of n stands at 2π(2i + 1 - n)/n, however many there are (Siméoni et al. 2025, DINOv3, section 3.2).
    The first `prefix` tokens are no cells, and are not turned.
    """

    cosine: Tensor
    sine: Tensor

    def __init__(self, width: int, rows: int, columns: int, *, prefix: int, theta: float) -> None:
        if width % 4:
            raise ValueError(f"rotary positions of a grid: width of a head must be a multiple of 4, given {width}")
        super().__init__()
        rotary = Rotary(width // 2, theta)
        down, across = (rotary(2 * math.pi * (2 * (torch.arange(0.5, side) / side) - 1)) for side in (rows, columns))
        for name, still, row, column in zip(("cosine", "sine"), (1.0, 0.0), down, across, strict=True):
            cells = torch.cat((row.repeat_interleave(columns, 0), column.repeat(rows, 1)), dim=1)
            before = torch.full((prefix, width // 2), still)
            self.register_buffer(name, torch.cat((before, cells)), persistent=False)

    def forward(self) -> Context:
        """Return the context of all layers."""
        return Context(rotation=Rotation(self.cosine, self.sine))


def near(query: Tensor, key: Tensor, reach: int) -> Tensor:
    """Return (..., query, key) of positions (..., token), True where a key is at most `reach` tokens away.

    Beltagy et al. 2020, section 3.1: a window of twice the reach and the token itself.
    """
    return (key[..., None, :] - query[..., :, None]).abs() <= reach


def sinusoids(length: int, width: int, *, interleaved: bool = True, inclusive: bool = False) -> Tensor:
    """Return (length, width): PE(pos, 2i) = sin(pos / 10000^(2i/width)), PE(pos, 2i+1) = cos of the same angle.

    Vaswani et al. 2017, section 3.5; not `interleaved`, all sines come before all cosines, as in Marian
    (Junczys-Dowmunt et al. 2018). If `inclusive`, the last angle is pos / 10000: the exponents are i / (width/2 - 1),
    as in M2M-100 (Fan et al. 2020) and the authors' own code. Computed in float64 and returned in the default type.

    The first five numbers of the token at position 1, in a model 512 wide:

    >>> sinusoids(2, 512)[1, :5]
    tensor([0.8415, 0.5403, 0.8219, 0.5697, 0.8020])
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
