import io

import numpy as np
import pytest
from PIL import Image, ImageOps
from regard.heat import STORED, scaled, spread

from service.explanations.scale import overlay_range


def reference(grid, size, box, smooth):
    """Heat at each pixel by its definition, in float64: the value of the patch at its middle, or linear between."""
    heat = np.full((size[1], size[0]), np.nan)
    rows, columns = grid.shape
    for y in range(size[1]):
        for x in range(size[0]):
            if not (box[0] <= x + 0.5 < box[2] and box[1] <= y + 0.5 < box[3]):
                continue
            across = (x + 0.5 - box[0]) / (box[2] - box[0]) * columns
            down = (y + 0.5 - box[1]) / (box[3] - box[1]) * rows
            if not smooth:
                heat[y, x] = grid[int(down), int(across)]
                continue
            across, down = np.clip(across - 0.5, 0, columns - 1), np.clip(down - 0.5, 0, rows - 1)
            left, top = min(int(across), columns - 2), min(int(down), rows - 2)
            right, below = across - left, down - top
            upper = grid[top, left] * (1 - right) + grid[top, left + 1] * right
            lower = grid[top + 1, left] * (1 - right) + grid[top + 1, left + 1] * right
            heat[y, x] = upper * (1 - below) + lower * below
    return heat


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("box", [(0, 0, 40, 30), (5.5, 3.0, 33.25, 26.5), (-6.0, -4.0, 44.0, 41.0)])
def test_a_pixel_has_the_value_of_its_patch(box, smooth):
    grid = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    heat = spread(grid, (40, 30), box, smooth=smooth, outside=np.nan)
    assert heat.shape == (30, 40)
    assert heat.dtype == np.float32
    np.testing.assert_allclose(heat, reference(grid, (40, 30), box, smooth), atol=1e-5)


def test_pixels_that_were_not_seen_have_the_given_value():
    heat = spread(np.ones((2, 2), np.float32), (10, 8), (2, 2, 8, 6), smooth=True, outside=-1)
    assert (heat[:2] == -1).all()
    assert (heat[:, 8:] == -1).all()
    assert (heat[2:6, 2:8] == 1).all()


def test_patches_smaller_than_a_pixel_are_averaged():
    grid = np.arange(64, dtype=np.float32).reshape(8, 8)
    heat = spread(grid, (2, 2), (0, 0, 2, 2), smooth=True, outside=np.nan)
    smaller = Image.fromarray(grid).resize((2, 2), Image.Resampling.BILINEAR)
    np.testing.assert_allclose(heat, np.asarray(smaller), rtol=1e-5)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_stored_pixels_are_turned_as_exif_says(orientation):
    """What a file stores is what the reader turns upright: Pillow's own turning of it gives the upright array back."""
    upright = np.arange(12, dtype=np.uint8).reshape(3, 4)
    stored = np.ascontiguousarray(STORED[orientation](upright))
    image, exif, file = Image.fromarray(stored), Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    image.save(file, "PNG", exif=exif)
    np.testing.assert_array_equal(np.asarray(ImageOps.exif_transpose(Image.open(file))), upright)
    assert len({values(upright).tobytes() + bytes(values(upright).shape) for values in STORED.values()}) == 8


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("kind", ["attention", "one hot cell", "even", "nothing", "both signs", "below zero"])
def test_a_scale_is_that_of_the_pictures_of_the_service(kind, signed):
    rng = np.random.default_rng(0)
    values = {
        "attention": rng.exponential(size=(16, 16)) ** 3,
        "one hot cell": np.eye(1, 256).reshape(16, 16),
        "even": np.full((16, 16), 0.25),
        "nothing": np.zeros((16, 16)),
        "both signs": rng.normal(size=(16, 16)),
        "below zero": -rng.random((16, 16)),
    }[kind]
    shares = overlay_range(values, signed=signed).shares(values)
    wanted = 2 * shares - 1 if signed else shares
    np.testing.assert_allclose(scaled(values.astype(np.float32), signed=signed), wanted, atol=1e-6)
