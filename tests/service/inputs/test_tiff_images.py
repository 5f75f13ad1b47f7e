"""A TIFF of every usual form has the pixels that its samples say (TIFF 6.0), and others are refused by name."""

import numpy as np
import pytest
from PIL import Image

from service.errors import TooLarge, Unacceptable
from service.inputs.image_preprocessing import open_image
from tests.samples.image_files import tiff
from tests.samples.images import encoded

RANDOM = np.random.default_rng(3)
ROWS, COLUMNS, LIMIT = 20, 23, 10**6
GREY, WHITE_IS_ZERO, RGB, PALETTE, CMYK, YCBCR, LAB = 1, 0, 2, 3, 5, 6, 8  # photometric interpretations
ALPHA, PREMULTIPLIED = 2, 1


def samples(bits, *each):
    """Return random samples, the least and the largest among them."""
    found = RANDOM.integers(0, 1 << bits, (ROWS, COLUMNS, *each))
    found[0, 0], found[0, 1] = 0, (1 << bits) - 1
    return found


def shown(data):
    return np.asarray(open_image(data, LIMIT).convert("RGB")).astype(int)


def on_white(colours, alpha):
    """Return colours from 0 to 1 that are in front of white, as bytes."""
    return np.rint(255 * (colours * alpha + 1 - alpha))


forms = pytest.mark.parametrize("form", [{}, {"order": ">"}, {"deflate": True}, {"order": ">", "deflate": True}])


@forms
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_greys(form, bits):
    found = samples(bits)
    wanted = (found * 255 // ((1 << bits) - 1))[..., None]
    assert np.array_equal(shown(tiff(found, GREY, bits, **form)), wanted.repeat(3, 2))
    if (bits, form.get("order")) != (16, ">"):  # Pillow knows none, which is refused
        assert np.array_equal(shown(tiff(found, WHITE_IS_ZERO, bits, **form)), 255 - wanted.repeat(3, 2))


def test_greys_of_twelve_bits_are_as_bright_as_others():
    found = samples(12)
    assert np.array_equal(shown(tiff(found, GREY, 12)), (found * 255 // 4095)[..., None].repeat(3, 2))


@forms
@pytest.mark.parametrize("bits", [8, 16])
def test_colours(form, bits):
    most, tolerance = (1 << bits) - 1, 0 if bits == 8 else 3
    found = samples(bits, 3)
    assert np.abs(shown(tiff(found, RGB, bits, **form)) - found * 255 // most).max() <= tolerance
    inks = samples(bits, 4)
    left = 1 - inks / most
    assert np.abs(shown(tiff(inks, CMYK, bits, **form)) - 255 * left[..., :3] * left[..., 3:]).max() <= tolerance + 1


@forms
@pytest.mark.parametrize("bits", [8, 16])
def test_transparency_becomes_white(form, bits):
    most = (1 << bits) - 1
    layers = samples(bits, 4)
    layers[..., :3] //= 2
    colours, alpha = layers[..., :3] / most, layers[..., 3:] / most
    extra = [(338, 3, [ALPHA])]
    assert np.abs(shown(tiff(layers, RGB, bits, more=extra, **form)) - on_white(colours, alpha)).max() <= 3
    layers[..., :3] = np.rint(layers[..., :3] * alpha)
    extra = [(338, 3, [PREMULTIPLIED])]
    assert np.abs(shown(tiff(layers, RGB, bits, more=extra, **form)) - on_white(colours, alpha)).max() <= 3
    if bits == 8:
        two = np.stack([layers[..., 0], layers[..., 3]], 2)
        wanted = on_white(two[..., :1] / 255, 1.0) - 255 * (alpha - 1)
        assert np.abs(shown(tiff(two, GREY, more=extra, **form)) - wanted).max() <= 2


@forms
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_palettes(form, bits):
    colours, indices = RANDOM.integers(0, 256, (1 << bits, 3)), samples(bits)
    table = [(320, 3, (colours.T * 257).ravel().tolist())]
    assert np.array_equal(shown(tiff(indices, PALETTE, bits, more=table, **form)), colours[indices])


@forms
def test_brightness_and_its_colours(form):
    """ITU-R BT.601, as TIFF 6.0, section 21, has it by default."""
    found = samples(8, 3)
    y, blue, red = found[..., 0], found[..., 1] - 128, found[..., 2] - 128
    wanted = np.stack([y + 1.402 * red, y - 0.344136 * blue - 0.714136 * red, y + 1.772 * blue], 2).clip(0, 255)
    assert np.abs(shown(tiff(found, YCBCR, more=[(530, 3, [1, 1])], **form)) - wanted).max() <= 1.5


@forms
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(form, orientation):
    found = samples(8, 3)
    wanted = {
        1: found, 2: found[:, ::-1], 3: found[::-1, ::-1], 4: found[::-1], 5: found.swapaxes(0, 1),
        6: np.rot90(found, -1), 7: np.rot90(found.swapaxes(0, 1), 2), 8: np.rot90(found),
    }[orientation]  # fmt: skip
    image = open_image(tiff(found, RGB, more=[(274, 3, [orientation])], **form), LIMIT)
    assert np.array_equal(np.asarray(image), wanted)
    assert image.info == {**image.info, "orientation": orientation, "size": wanted.shape[1::-1]}


@pytest.mark.parametrize("compression", ["tiff_lzw", "packbits", "zstd", "jpeg", "tiff_deflate", "lzma"])
def test_compressions(compression):
    page = Image.fromarray(np.add.outer(np.arange(48), np.arange(64)).astype(np.uint8)).convert("RGB")
    options = {"quality": 95} if compression == "jpeg" else {}
    data = encoded(page, "TIFF", compression=compression, **options)
    assert np.abs(shown(data) - np.asarray(page)).max() <= (8 if compression == "jpeg" else 0)


@pytest.mark.parametrize("compression", ["group3", "group4", "tiff_ccitt"])
def test_compressions_of_facsimiles(compression):
    page = Image.fromarray(np.add.outer(np.arange(48), np.arange(64)) % 9 > 4)
    assert np.array_equal(shown(encoded(page, "TIFF", compression=compression))[..., 0], np.asarray(page) * 255)


REFUSED = {
    "floats": (encoded(Image.new("F", (9, 7), 0.5), "TIFF"), "samples without a sign"),
    "32 bits": (encoded(Image.new("I", (9, 7), 70_000), "TIFF"), "samples without a sign"),
    "signed": (tiff(samples(16), GREY, 16, more=[(339, 3, [2])]), "samples without a sign"),
    "lab": (tiff(samples(8, 3), LAB), "samples without a sign"),
    "a text for a number": (tiff(samples(8), GREY, more=[(254, 2, [65, 0])]), "whole numbers as sides of its tiles"),
    "a smaller copy": (tiff(samples(8, 3), RGB, more=[(254, 4, [1])]), "given one that begins with a smaller copy"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_said(name):
    data, words = REFUSED[name]
    with pytest.raises(Unacceptable, match=f"^image: a TIFF must .*{words}"):
        open_image(data, LIMIT)


def test_tiles_count_as_what_is_decoded():
    """A tile is decoded whole, however small the image in it is."""
    tiles = [(322, 4, [512]), (323, 4, [256]), (324, 4, [400]), (325, 4, [9])]
    data = tiff(samples(8), GREY, more=tiles)
    with pytest.raises(TooLarge, match="image: at most 99999 pixels, given 512 x 256"):
        open_image(data, 99_999)
    with pytest.raises(Unacceptable, match="must have the size that its header announces"):
        open_image(data, LIMIT, announced_pixels=512 * 256 - 1)
