"""What stands out in a picture, whatever a model makes of it: bottom-up attention, which has no weights.

Itti, Koch & Niebur 1998 (IEEE TPAMI 20(11), "A model of saliency-based visual attention for rapid scene analysis").
Intensity, two opponent colours and four orientations are seen at several scales; what differs from its surround
stands out, and more so where few places of the picture do.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.parts.embedding import within

CENTRES, DELTAS = (2, 3, 4), (3, 4)
"""The scales of centres, and how many octaves larger their surrounds are (section 2.1)."""
LEAST_SIDE = 17
"""Pixels of the shorter side: of a smaller picture, the smallest centre has no surround."""
BINOMIAL = (1 / 32, 5 / 32, 10 / 32, 10 / 32, 5 / 32, 1 / 32)
"""What two pixels of a scale, and those around them, become one of the next by (Walther & Koch 2006, appendix A)."""
ANGLES = (0, 45, 90, 135)
"""Of the waves of Gabor filters, in degrees."""
GABOR_SIDE, GABOR_WAVE, GABOR_DEVIATION = 19, 7.0, 7 / 3
"""Pixels of a scale (Walther & Koch 2006, Neural Networks 19, appendix A)."""
LIT = 10
"""Hues are seen where this multiple of a pixel's intensity is above the largest one (section 2.1)."""
FAINT = 1 / 64
"""Of a byte: a difference is less by so much. It is what single floats cannot tell from none."""
RISE = 1e-4
"""By this share of its map's range a local maximum rises above what is before it: rounding makes none."""
LEAST_RANGES = 1.0, 0.01
"""Maps whose values differ by less are not stretched to a range of 1: of bytes, and of sums of such maps."""
BYTE = 255.0


def scales_of(height: int, width: int) -> list[tuple[int, int]]:
    """Return the centres and surrounds (c, s) that a picture of that size has, and none of a picture too small.

    Each scale has half of the sides of the one before, rounded up, until the shorter one is a pixel. Pictures of 640 x
    480 pixels have all six pairs, as in the paper; of 64 x 64 there are three.
    """
    last = math.ceil(math.log2(min(height, width)))
    return [(centre, centre + delta) for centre in CENTRES for delta in DELTAS if centre + delta <= last]


class Saliency(nn.Module):
    """The saliency of the cells of a grid, of pictures of one size.

    Its constants are in float64, as pictures must be. Raises ValueError for less than 17 pixels a side.
    """

    def __init__(self, height: int, width: int, grid: tuple[int, int]) -> None:
        super().__init__()
        self.pairs = scales_of(height, width)
        if not self.pairs:
            raise ValueError(f"saliency: needs pictures of {LEAST_SIDE} pixels a side, given {height} x {width}")
        self.sides = [(height, width)]
        while len(self.sides) <= max(surround for _, surround in self.pairs):
            self.sides.append((math.ceil(self.sides[-1][0] / 2), math.ceil(self.sides[-1][1] / 2)))
        self.base = max(centre for centre, _ in self.pairs)
        """The scale at which maps are added: 4, as in the paper, if the picture has it."""
        self.grid, self.cell = grid, (height // grid[0], width // grid[1])
        row = torch.tensor(BINOMIAL, dtype=torch.float64)
        self.register_buffer("smooth", (row[:, None] * row)[None, None])
        self.register_buffer("gabors", gabors())
        for centre, surround in self.pairs:
            for axis, name in enumerate(("down", "across")):
                grown = enlarging(self.sides[centre][axis], self.sides[surround][axis], surround - centre)
                self.register_buffer(f"{name}_{centre}_{surround}", grown)
        for axis, name in enumerate(("down", "across")):
            whole = enlarging(self.sides[0][axis], self.sides[self.base][axis], self.base)
            cells = whole[: grid[axis] * self.cell[axis]].reshape(grid[axis], self.cell[axis], -1).mean(1)
            self.register_buffer(f"{name}_cells", cells)

    def forward(self, pixels: Tensor, shown: Tensor | None = None) -> Tensor:
        """Take pictures (batch, 3, height, width), red, green and blue from 0 to 255; return (batch, cell), 0 to 1.

        A cell has the mean of its pixels. Of a picture that was fitted in, `shown` (batch, 2) are the rows and columns
        that it fills: what is beside it is as its edge, and stands out nowhere.
        """
        if shown is not None:
            pixels = with_edges_beside(pixels, shown)
        scales = self.seen(pixels)
        total: Tensor | None = None
        for centre in sorted({centre for centre, _ in self.pairs}):
            contrasts = [self.contrast(scales, pair) for pair in self.pairs if pair[0] == centre]
            promoted = [promote(self.within_picture(one, shown, centre), LEAST_RANGES[0]) for one in contrasts]
            own = torch.stack(promoted).sum(0)
            total = own if total is None else self.halved(total) + own  # at this scale: (batch, feature, row, column)
        assert total is not None  # noqa: S101 # there are pairs
        salient = conspicuity(self.within_picture(total, shown, self.base)).mean(1)
        cells = self.get_buffer("down_cells") @ salient @ self.get_buffer("across_cells").T
        if shown is not None:
            begun = [-(-shown[:, axis] // self.cell[axis]) for axis in (0, 1)]
            cells = cells * within(torch.stack(begun, 1), self.grid)[:, 0]
        return cells.flatten(1)

    def seen(self, pixels: Tensor) -> list[Tensor]:
        """Return the seven features at each scale, (batch, feature, row, column); of scales above centres three."""
        scales = [opponents(pixels)]
        for _ in self.sides[1:]:
            scales.append(self.halved(scales[-1]))
        return [
            torch.cat([one, self.oriented(one[:, :1])], 1) if scale >= CENTRES[0] else one
            for scale, one in enumerate(scales)
        ]

    def halved(self, maps: Tensor) -> Tensor:
        """Return maps at the next scale."""
        channels = maps.shape[1]
        kernel = self.get_buffer("smooth").expand(channels, 1, len(BINOMIAL), len(BINOMIAL))
        return F.conv2d(mirrored(maps, len(BINOMIAL) // 2 - 1, even=True), kernel, stride=2, groups=channels)

    def oriented(self, intensity: Tensor) -> Tensor:
        """Return how much of an intensity (batch, 1, row, column) lies along each angle, (batch, angle, row, column).

        It is |I * G_0| + |I * G_90|, of both phases of a Gabor filter (Walther & Koch 2006).
        """
        found = F.conv2d(mirrored(intensity, GABOR_SIDE // 2), self.get_buffer("gabors")).abs()
        even, odd = found.chunk(2, 1)
        return even + odd

    def contrast(self, scales: Sequence[Tensor], pair: tuple[int, int]) -> Tensor:
        """Return |c - s|, how a centre differs from its surround, which is enlarged to its size (equations 1 to 4).

        Equations 2 and 3 have the surround with the other sign, by which red among green would be as none. What is
        said of them there, and implementations, have it as here.
        """
        centre, surround = (scales[scale] for scale in pair)
        down, across = (self.get_buffer(f"{name}_{pair[0]}_{pair[1]}") for name in ("down", "across"))
        return ((centre - down @ surround @ across.T).abs() - FAINT).clamp(min=0)

    def within_picture(self, maps: Tensor, shown: Tensor | None, scale: int) -> Tensor:
        """Return maps at a scale, 0 beside the picture."""
        return maps if shown is None else maps * within(-(-shown // 2**scale), maps.shape[-2:])


def opponents(pixels: Tensor) -> Tensor:
    """Return intensity, red less green, and blue less yellow of pixels (batch, 3, ...), in this order, as bytes.

    Intensity is less its mean, of which nothing that follows depends: single floats are more exact so. Hues are of red,
    green and blue as shares of their sum (section 2.1; a share of 1 is 255).
    """
    total = pixels.sum(1, keepdim=True)
    lit = LIT * total > total.amax((2, 3), keepdim=True)
    red, green, blue = (torch.where(lit, pixels / total.clamp(min=1), 0) * BYTE).chunk(3, 1)
    broad = [red - (green + blue) / 2, green - (red + blue) / 2, blue - (red + green) / 2]
    broad.append((red + green) / 2 - (red - green).abs() / 2 - blue)
    r, g, b, y = (one.clamp(min=0) for one in broad)
    return torch.cat([(total - total.mean((2, 3), keepdim=True)) / 3, r - g, b - y], 1)


def conspicuity(features: Tensor) -> Tensor:
    """Return the conspicuity of intensity, colour and orientation, (batch, 3, ...), each promoted (equations 5 to 9).

    Features (batch, 7, ...) are sums of promoted maps; those of angles are promoted before they are added.
    """
    intensity, red_green, blue_yellow = features[:, :3].chunk(3, 1)
    oriented = promote(features[:, 3:], LEAST_RANGES[1]).sum(1, keepdim=True)
    return promote(torch.cat([intensity, red_green + blue_yellow, oriented], 1), LEAST_RANGES[1])


def promote(maps: Tensor, least_range: float) -> Tensor:
    """Return N(maps) (section 2.2): from 0 to M = 1, times (M - m)², where m is the mean of all other local maxima.

    Maps are (..., row, column). A map whose values differ by less than `least_range` has a smaller M.
    """
    low, high = (maps.flatten(-2).amin(-1), maps.flatten(-2).amax(-1))
    span = (high - low).clamp(min=least_range)[..., None, None]
    scaled = (maps - low[..., None, None]) / span
    most = scaled.flatten(-2).amax(-1)
    peaks = local_maxima(scaled)
    count = peaks.to(maps.dtype).flatten(-2).sum(-1)
    heights = (scaled * peaks).flatten(-2)
    others = (heights.sum(-1) - heights.amax(-1)) / (count - 1).clamp(min=1)
    return scaled * ((most - others) ** 2)[..., None, None]


def local_maxima(maps: Tensor) -> Tensor:
    """Return which pixels rise above the four neighbours before them, and not the four behind above them.

    So a plateau or a straight edge is one maximum, however its pixels are rounded.
    """
    rows, columns = maps.shape[-2:]
    around = F.pad(maps, [1] * 4, value=-1)
    shifted = [around[..., y : y + rows, x : x + columns] for y in range(3) for x in range(3)]
    before, behind = (torch.stack(some).amax(0) for some in (shifted[:4], shifted[5:]))
    return (maps > before + RISE) & (maps >= behind - RISE)


def with_edges_beside(pixels: Tensor, shown: Tensor) -> Tensor:
    """Return pictures (batch, 3, height, width) that go on beside what is `shown` (batch, 2) as they end there."""
    for axis in (0, 1):
        places = torch.arange(pixels.shape[2 + axis], device=pixels.device)
        nearest = torch.minimum(places[None], shown[:, axis, None] - 1)  # (batch, place)
        spread = nearest[:, None, :, None] if axis == 0 else nearest[:, None, None, :]
        pixels = pixels.gather(2 + axis, spread.expand(pixels.shape))
    return pixels


def mirrored(maps: Tensor, margin: int, *, even: bool = False) -> Tensor:
    """Return maps (batch, channel, row, column) with a margin in which they go on as in mirrors at their edges.

    With `even` sides there is a pixel more behind a side that is odd. Else each would end in an edge, or in streaks,
    which stand out.
    """
    for axis in (2, 3):
        side = maps.shape[axis]
        places = torch.tensor(mirrored_places(side, margin, even=even), device=maps.device)
        maps = maps.index_select(axis, places)
    return maps


def mirrored_places(side: int, margin: int, *, even: bool) -> list[int]:
    """Return which pixel of a side stands at each place of `mirrored`."""
    turns = (place % (2 * side) for place in range(-margin, side + margin + (side % 2 if even else 0)))
    return [min(place, 2 * side - 1 - place) for place in turns]


def enlarging(fine: int, coarse: int, octaves: int) -> Tensor:
    """Return what enlarges a side linearly, (fine, coarse): each pixel of a scale is of 2**octaves of a finer one."""
    places = ((torch.arange(fine, dtype=torch.float64) + 0.5) / 2**octaves - 0.5).clamp(0, coarse - 1)
    return (1 - (places[:, None] - torch.arange(coarse)).abs()).clamp(min=0)


def gabors() -> Tensor:
    """Return the filters (phase x angle, 1, side, side), first all even ones; the sum of their sizes is 1.

    The even ones are less so much of their envelope that their sum is 0, so that they see nothing in what is uniform.
    """
    places = torch.arange(GABOR_SIDE, dtype=torch.float64) - GABOR_SIDE // 2
    y, x = torch.meshgrid(places, places, indexing="ij")
    envelope = torch.exp(-(x**2 + y**2) / (2 * GABOR_DEVIATION**2))
    along = torch.stack([x * math.cos(math.radians(angle)) + y * math.sin(math.radians(angle)) for angle in ANGLES])
    even, odd = (envelope * wave(2 * math.pi * along / GABOR_WAVE) for wave in (torch.cos, torch.sin))
    even = even - envelope * (even.sum((1, 2), keepdim=True) / envelope.sum())
    filters = torch.cat([even, odd])[:, None]
    return filters / filters.abs().sum((2, 3), keepdim=True)
