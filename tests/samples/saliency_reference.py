"""The saliency of Itti, Koch & Niebur 1998 in numpy, with scipy's filters, and pictures with something in them."""

import math

import numpy as np
from scipy import ndimage


def reference(picture, grid, shown=None):
    """The saliency (rows, columns) of the cells of a picture (3, height, width) in float64."""
    height, width = picture.shape[1:]
    down, across = shown or (height, width)
    picture = np.pad(
        picture[:, :down, :across].astype(np.float64), ((0, 0), (0, height - down), (0, width - across)), "edge"
    )
    pairs = [(c, c + delta) for c in (2, 3, 4) for delta in (3, 4) if 2 ** (c + delta - 1) < min(height, width)]
    base = max(c for c, _ in pairs)

    def visible(scale, shape):
        rows, columns = np.indices(shape) * 2**scale
        return (rows < down) & (columns < across)

    pyramids = [pyramid(one, max(s for _, s in pairs)) for one in features(picture)]
    angles = [[gabor_energy(one, angle) for one in pyramids[0]] for angle in (0, 45, 90, 135)]
    totals = []
    for scales in (*pyramids, *angles):
        total = np.zeros(1)
        for centre in range(2, base + 1):
            found = 0
            for c, s in pairs:
                if c == centre:
                    apart = np.abs(scales[c] - enlarged(scales[s], scales[c].shape, s - c))
                    contrast = np.maximum(apart - 1 / 64, 0) * visible(c, scales[c].shape)
                    found = found + promoted(contrast, 1)
            total = found if centre == 2 else halved(total) + found
        totals.append(total * visible(base, total.shape))
    intensity, red_green, blue_yellow, *oriented = totals
    oriented = sum(promoted(one, 0.01) for one in oriented)
    parts = (intensity, red_green + blue_yellow, oriented)
    whole = enlarged(sum(promoted(one, 0.01) for one in parts) / 3, (height, width), base)
    side, other = height // grid[0], width // grid[1]
    cells = [
        [
            whole[y * side : (y + 1) * side, x * other : (x + 1) * other].mean()
            * (y * side < down and x * other < across)
            for x in range(grid[1])
        ]
        for y in range(grid[0])
    ]
    return np.array(cells)


def features(picture):
    total = picture.sum(0)
    lit = total * 10 > total.max()
    red, green, blue = np.where(lit, picture / np.maximum(total, 1), 0) * 255
    r, g, b, y = (
        np.maximum(one, 0)
        for one in (
            red - (green + blue) / 2,
            green - (red + blue) / 2,
            blue - (red + green) / 2,
            (red + green) / 2 - np.abs(red - green) / 2 - blue,
        )
    )
    return total / 3, r - g, b - y


def halved(one):
    # what lies halfway between two pixels is a filter of six, and every second of it is left
    padded = np.pad(one, [(2, 3 + side % 2) for side in one.shape], "symmetric")
    for axis in (0, 1):
        padded = ndimage.correlate1d(padded, np.array([1, 5, 10, 10, 5, 1]) / 32, axis, mode="constant", origin=-1)
    rows, columns = (math.ceil(side / 2) for side in one.shape)
    return padded[2::2, 2::2][:rows, :columns]


def pyramid(one, last):
    found = [one]
    for _ in range(last):
        found.append(halved(found[-1]))
    return found


def gabor_energy(one, angle):
    y, x = np.mgrid[-9:10, -9:10].astype(np.float64)
    envelope = np.exp(-(x**2 + y**2) / (2 * (7 / 3) ** 2))
    phase = 2 * np.pi * (x * np.cos(np.radians(angle)) + y * np.sin(np.radians(angle))) / 7
    even, odd = envelope * np.cos(phase), envelope * np.sin(phase)
    even -= envelope * even.sum() / envelope.sum()
    around = np.lib.stride_tricks.sliding_window_view(np.pad(one, 9, "symmetric"), (19, 19))
    return sum(np.abs(np.tensordot(around, part / np.abs(part).sum(), 2)) for part in (even, odd))


def enlarged(one, shape, octaves):
    places = [(np.arange(side) + 0.5) / 2**octaves - 0.5 for side in shape]
    return ndimage.map_coordinates(one, np.meshgrid(*places, indexing="ij"), order=1, mode="nearest")


def promoted(one, least_range):
    """N of section 2.2, pixel by pixel."""
    one = (one - one.min()) / max(one.max() - one.min(), least_range)
    maxima = []
    for row, column in np.ndindex(one.shape):
        around = [
            one[row + y, column + x] if 0 <= row + y < one.shape[0] and 0 <= column + x < one.shape[1] else -1
            for y in (-1, 0, 1)
            for x in (-1, 0, 1)
        ]
        if one[row, column] > max(around[:4]) + 1e-4 and one[row, column] >= max(around[5:]) - 1e-4:
            maxima.append(one[row, column])
    others = sorted(maxima)[:-1]
    return one * (one.max() - (np.mean(others) if others else 0)) ** 2


def drawn(seed, height, width):
    """A picture with something in it: blurred noise in colours, darker to one side, with a few rectangles."""
    generator = np.random.default_rng(seed)
    picture = ndimage.gaussian_filter(generator.random((3, height, width)), (0, 3, 3))
    picture = (picture - picture.min()) / np.ptp(picture) * np.linspace(0.02, 1, width)
    for _ in range(4):
        y, x = generator.integers(0, height - 8), generator.integers(0, width - 8)
        picture[:, y : y + generator.integers(3, 9), x : x + generator.integers(3, 9)] = generator.random((3, 1, 1))
    return (picture * 255).round()
