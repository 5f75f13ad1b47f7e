"""Saliency against Itti, Koch & Niebur 1998 in numpy; and what must stand out."""

import math

import numpy as np
import pytest
import torch

from model.methods.saliency import LEAST_SIDE, Saliency, scales_of
from tests.samples.saliency_reference import drawn, reference


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
    torch.testing.assert_close(mirrored.flip(1), found, rtol=0, atol=2e-3 * found.max().item())  # peaks have an order
    grey = picture.mean(1, keepdim=True).expand(1, 3, 64, 64)
    torch.testing.assert_close(saliency(grey * 0.5 + 60), saliency(grey * 0.5), rtol=0, atol=1e-9)
