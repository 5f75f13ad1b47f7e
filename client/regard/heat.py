"""A grid of values as heat over a picture: resizing, cropping and the EXIF rotation undone."""

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.float32]

RANK, MOST_ABOVE = 0.98, 0.5
"""A scale ends at the value of this rank among the sizes that are not 0, and at most this share of their sum is above:
the rule of the service's pictures."""

STORED = {
    1: lambda upright: upright,
    2: lambda upright: upright[:, ::-1],
    3: lambda upright: upright[::-1, ::-1],
    4: lambda upright: upright[::-1],
    5: lambda upright: upright.T,
    6: lambda upright: upright.T[::-1],
    7: lambda upright: upright[::-1, ::-1].T,
    8: lambda upright: upright.T[:, ::-1],
}
"""How an upright array is turned back to stored pixels, by the EXIF orientation (Exif 2.32, tag 0x0112)."""


class Box(NamedTuple):
    """A rectangle in pixels, left, top, right, bottom; it may reach beyond the picture."""

    left: float
    top: float
    right: float
    bottom: float


def scaled(grid: Values, *, signed: bool) -> Values:
    """Return values from 0 at the least to 1 at the end of their scale; signed ones from -1, with 0 where they were 0.

    Attention has few large values: the scale ends where most of it is seen, and what is larger is 1.
    """
    low = 0.0 if signed else float(grid.min())
    end = _end_of_scale(np.abs(grid) if signed else grid.clip(min=0))
    high = max(end, low) if end else float(grid.max())
    if high == low:
        return np.zeros_like(grid)
    found: Values = ((grid - low) / (high - low)).clip(-1 if signed else 0, 1)
    return found


def _end_of_scale(values: Values) -> float:
    """Return the size at which a scale ends; 0 if all are 0."""
    sizes = np.sort(values[values > 0].astype(np.float64))
    if not len(sizes):
        return 0.0
    sums = np.cumsum(sizes)
    enough = int(np.argmax(sums[-1] - sums <= MOST_ABOVE * sums[-1]))
    return float(sizes[max(math.ceil(RANK * len(sizes)) - 1, enough)])


def spread(
    grid: Values,
    size: tuple[int, int],
    box: tuple[float, float, float, float],
    *,
    smooth: bool,
    outside: float,
    orientation: int = 1,
) -> Values:
    """Return the values (rows, columns) of a grid over a picture of a size (width, height), as (height, width).

    The grid covers the box. `smooth` is linear between the middles of patches. Pixels out of the box are `outside`.
    With an EXIF `orientation`, the array is turned as the file stores its pixels.
    """
    width, height = size
    left, top, right, bottom = box
    across = _weights(left, right, width, grid.shape[1], smooth=smooth)  # (pixels across, columns)
    down = _weights(top, bottom, height, grid.shape[0], smooth=smooth)  # (pixels down, rows)
    heat = (down @ grid @ across.T).astype(np.float32)
    heat[down.sum(1) == 0] = outside
    heat[:, across.sum(1) == 0] = outside
    turned: Values = np.ascontiguousarray(STORED[orientation](heat))
    return turned


def _weights(low: float, high: float, pixels: int, cells: int, *, smooth: bool) -> Values:
    """Return the weight of each cell at each pixel, (pixels, cells); zeros where a pixel's middle is out of the range.

    `smooth` averages the cells where they are smaller than a pixel.
    """
    middles = np.arange(pixels) + 0.5
    inside = (middles >= low) & (middles < high)
    scale = cells / (high - low)  # cells per pixel
    place = (middles - low) * scale - 0.5  # 0 at the middle of the first cell
    place = place if smooth else np.floor(place + 0.5)
    distance = np.abs(place.clip(0, cells - 1)[:, None] - np.arange(cells))
    weights = (1 - distance / max(scale if smooth else 1, 1)).clip(0)
    weights *= inside[:, None] / weights.sum(axis=1, keepdims=True)
    found: Values = weights.astype(np.float32)
    return found
