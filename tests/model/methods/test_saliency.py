"""Saliency against Itti, Koch & Niebur 1998, written in numpy with scipy's filters; and what must stand out."""

import math

import numpy as np
import pytest
import torch
from scipy import ndimage

from model.methods.saliency import LEAST_SIDE, Saliency, scales_of


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
        if one[row, column] > max(around[:4]) and one[row, column] >= max(around[5:]):
            maxima.append(one[row, column])
    others = sorted(maxima)[:-1]
    return one * (one.max() - (np.mean(others) if others else 0)) ** 2


def drawn(seed, height, width):
    """A picture with something in it: blurred noise in colours, with a few rectangles."""
    generator = np.random.default_rng(seed)
    picture = ndimage.gaussian_filter(generator.random((3, height, width)), (0, 3, 3))
    picture = (picture - picture.min()) / np.ptp(picture)
    for _ in range(4):
        y, x = generator.integers(0, height - 8), generator.integers(0, width - 8)
        picture[:, y : y + generator.integers(3, 9), x : x + generator.integers(3, 9)] = generator.random((3, 1, 1))
    return (picture * 255).round()


@pytest.mark.parametrize(
    ("height", "width", "grid", "shown"),
    [
        (64, 64, (8, 8), None),
        (48, 67, (6, 5), None),
        (17, 40, (2, 5), None),
        (140, 129, (10, 9), None),
        (96, 80, (6, 5), (50, 71)),
    ],
)
def test_saliency_is_that_of_the_paper(height, width, grid, shown):
    pictures = np.stack([drawn(seed, height, width) for seed in (0, 1)])
    given = None if shown is None else torch.tensor([shown, (height, width)])
    found = Saliency(height, width, grid)(torch.from_numpy(pictures), given).numpy()
    for one, own, picture in zip(found, (shown, None), pictures, strict=True):
        wanted = reference(picture, grid, own)
        assert wanted.max() > 0.01
        np.testing.assert_allclose(one.reshape(grid), wanted, rtol=0, atol=1e-9)


def test_a_picture_has_the_scales_that_its_shorter_side_has():
    every = [(2, 5), (2, 6), (3, 6), (3, 7), (4, 7), (4, 8)]
    assert scales_of(480, 640) == every
    assert scales_of(129, 4000) == every
    assert scales_of(64, 64) == every[:3]
    assert scales_of(LEAST_SIDE, 64) == [(2, 5)]
    assert scales_of(LEAST_SIDE - 1, 64) == []
    with pytest.raises(ValueError, match="saliency: needs pictures of 17 pixels a side, given 16 x 64"):
        Saliency(LEAST_SIDE - 1, 64, (1, 1))


def hottest(picture, cells):
    return divmod(int(Saliency(*picture.shape[1:], (cells, cells))(torch.from_numpy(picture)[None])[0].argmax()), cells)


@pytest.mark.parametrize(("side", "count"), [(128, 4), (256, 8)])
@pytest.mark.parametrize("odd", [(1, 2), (0, 3), (2, 0)])
def test_a_red_dot_among_green_ones_stands_out(side, count, odd):
    picture = np.zeros((3, side, side))
    for cell in np.ndindex(count, count):
        y, x = (side // count * place + side // (2 * count) for place in cell)
        picture[0 if cell == odd else 1, y - 6 : y + 6, x - 6 : x + 6] = 255
    assert hottest(picture, count) == odd


@pytest.mark.parametrize(("side", "count"), [(256, 4), (512, 8)])
@pytest.mark.parametrize("odd", [(1, 2), (0, 3), (2, 0)])
def test_a_tilted_bar_among_upright_ones_stands_out(side, count, odd):
    rows, columns = np.mgrid[:side, :side]
    picture = np.zeros((3, side, side))
    for cell in np.ndindex(count, count):
        y, x = (side / count * (place + 0.5) for place in cell)
        turned = math.radians(45 if cell == odd else 90)
        along = (columns - x) * math.cos(turned) + (rows - y) * math.sin(turned)
        across = (rows - y) * math.cos(turned) - (columns - x) * math.sin(turned)
        picture[:, (abs(along) < 0.3 * side / count) & (abs(across) < 0.075 * side / count)] = 255
    assert hottest(picture, count) == odd


@pytest.mark.parametrize("colour", [(0, 0, 0), (255, 255, 255), (37, 201, 99)])
def test_nothing_stands_out_of_a_uniform_picture(colour):
    picture = torch.tensor(colour, dtype=torch.float64)[None, :, None, None].expand(1, 3, 70, 64)
    shown = torch.tensor([[40, 64]])
    assert torch.equal(Saliency(70, 64, (8, 8))(picture), torch.zeros(1, 64, dtype=torch.float64))
    fitted = picture.clone()
    fitted[:, :, 40:] = 124
    assert torch.equal(Saliency(70, 64, (8, 8))(fitted, shown), torch.zeros(1, 64, dtype=torch.float64))


def test_neither_a_grey_level_nor_the_sides_of_a_picture_change_what_stands_out():
    picture, saliency = torch.from_numpy(drawn(3, 64, 64))[None], Saliency(64, 64, (8, 8))
    found = saliency(picture).reshape(8, 8)
    mirrored = saliency(picture.flip(3)).reshape(8, 8)
    torch.testing.assert_close(mirrored.flip(1), found, rtol=0, atol=1e-9)
    grey = picture.mean(1, keepdim=True).expand(1, 3, 64, 64)
    torch.testing.assert_close(saliency(grey * 0.5 + 60), saliency(grey * 0.5), rtol=0, atol=1e-9)
