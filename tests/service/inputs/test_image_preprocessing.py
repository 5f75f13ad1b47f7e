"""Decoding images: formats, sizes, orientation, and images that are refused."""

import contextlib
import io
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageFile

from contract.input_rules import ImageRule
from service.errors import TooLarge, Unacceptable, Unsupported
from service.inputs import image_preprocessing
from service.inputs.image_header import check_pixels, read_size
from service.inputs.image_kinds import FORMATS
from service.inputs.image_preprocessing import MOST_SCANS, decode_image, open_image
from tests.samples.image_files import bmp, gif, tiff
from tests.samples.images import INK, bar, encoded, middle

LIMIT, LARGE = 10**6, 10**7


def colours(height, width):
    """Colours that change slowly, every place with its own."""
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.stack((255 * x / max(width - 1, 1), 255 * y / max(height - 1, 1), 127 + 127 * np.sin(x / 9 + y / 7)), 2)
    return Image.fromarray(pixels.astype(np.uint8))


def test_an_image_of_the_right_size_is_taken_as_it_is():
    image = colours(20, 30)
    for resize in (None, 20, (20, 30)):
        picture = decode_image(encoded(image), middle(20, 30, resize=resize), LIMIT)
        assert np.array_equal(picture.pixels, np.asarray(image))
        assert picture.box == (0, 0, 30, 20)


@pytest.mark.parametrize("resample", ["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"])
def test_resize_to_a_height_and_width_takes_the_whole_image_by_pillows_filter_of_that_name(resample):
    image = colours(50, 90)
    picture = decode_image(encoded(image), middle(20, 12, resize=(20, 12), resample=resample), LIMIT)
    assert np.array_equal(picture.pixels, np.asarray(image.resize((12, 20), Image.Resampling[resample.upper()])))
    assert picture.box == (0, 0, 90, 50)


@pytest.mark.parametrize(("width", "height", "resized"), [(100, 30, (66, 20)), (30, 100, (20, 66)), (31, 31, (20, 20))])
def test_the_shorter_side_is_resized_and_the_longer_one_follows_rounded_down(width, height, resized):
    image = colours(height, width)
    picture = decode_image(encoded(image), middle(20, 20, resize=20), LIMIT)
    left, top = (resized[0] - 20) // 2, (resized[1] - 20) // 2
    whole = image.resize(resized, Image.Resampling.BILINEAR)
    assert np.array_equal(picture.pixels, np.asarray(whole.crop((left, top, left + 20, top + 20))))
    across, down = width / resized[0], height / resized[1]
    assert picture.box == (left * across, top * down, (left + 20) * across, (top + 20) * down)


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_smaller_than_what_is_cut_is_framed_in_black(channels):
    image = Image.new("L", (5, 2), 200)
    picture = decode_image(encoded(image), middle(6, 8, channels), LIMIT)
    expected = np.zeros((6, 8, channels), np.uint8)
    expected[2:4, 2:7] = 200  # of an odd rest the larger half is left of it
    assert np.array_equal(picture.pixels, expected)
    assert picture.box == (-2, -2, 6, 4)


def test_grey_and_colour_become_what_the_graph_takes():
    colour, grey = Image.new("RGB", (4, 4), (250, 0, 0)), Image.new("L", (4, 4), 99)
    assert (decode_image(encoded(colour), middle(4, 4, 1), LIMIT).pixels == colour.convert("L").getpixel((0, 0))).all()
    assert (decode_image(encoded(grey), middle(4, 4, 3), LIMIT).pixels == 99).all()


@pytest.mark.parametrize("size", [(300, 200), (200, 300), (1601, 90), (70, 50)])
@pytest.mark.parametrize("rule", [middle(64, 64, resize=73), middle(48, 96, resize=(60, 100)), middle(128, 128)])
def test_the_box_tells_where_in_the_image_the_pixels_are(size, rule):
    marked = 0.5 * size[0] - 12, 0.5 * size[1] - 9, 0.5 * size[0] + 20, 0.5 * size[1] + 15
    image = Image.new("L", size, 60)
    image.paste(255, tuple(map(int, marked)))
    picture = decode_image(encoded(image), rule, LIMIT)
    rows, columns = np.nonzero(picture.pixels[:, :, 0] > 157)
    left, top, right, bottom = picture.box
    across, down = (right - left) / rule.width, (bottom - top) / rule.height  # pixels of the image a pixel
    found = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]) * [across, down, across, down]
    error = np.abs(found + np.array([left, top, left, top]) - marked)
    assert (error < np.array([across, down, across, down]) / 2 + 0.6).all()


IMAGENET = (0.485, 0.456, 0.406)
BESIDE = (124, 116, 104)
"""These means as bytes, rounded."""


def fitting(height, width, channels=3, mean=IMAGENET, **more):
    mean = mean[:channels]
    return ImageRule(
        height=height, width=width, channels=channels, locate="fit", mean=mean, std=(0.2,) * channels, **more
    )


@pytest.mark.parametrize(
    ("width", "height", "fitted"),
    [(90, 50, (30, 16)), (50, 90, (11, 20)), (30, 20, (30, 20)), (15, 10, (30, 20)), (7, 3, (30, 12)), (3, 7, (8, 20))],
)
@pytest.mark.parametrize("resample", ["bilinear", "bicubic"])
def test_an_image_that_is_fitted_keeps_its_shape_and_stands_at_the_upper_left(width, height, fitted, resample):
    image = colours(height, width)
    picture = decode_image(encoded(image), fitting(20, 30, resample=resample), LIMIT)
    across, down = fitted
    resized = image.resize(fitted, Image.Resampling[resample.upper()])
    assert np.array_equal(picture.pixels[:down, :across], np.asarray(resized))
    assert (picture.pixels[down:] == BESIDE).all()
    assert (picture.pixels[:, across:] == BESIDE).all()
    assert picture.box == (0, 0, 30 * width / across, 20 * height / down)
    cells = picture.visible_cells((5, 6))  # of 4 x 5 pixels
    assert cells.dtype == bool
    expected = np.outer(np.arange(0, 20, 4) < down, np.arange(0, 30, 5) < across)
    assert np.array_equal(cells.reshape(5, 6), expected)


@pytest.mark.parametrize("size", [(1, 300), (300, 1), (1, 60_000), (60_000, 1)])
def test_of_a_line_of_pixels_that_is_fitted_a_line_is_left(size):
    picture = decode_image(encoded(Image.new("L", size, 255)), fitting(20, 30, 1), LIMIT)
    line = np.nonzero(picture.pixels[:, :, 0] == 255)
    assert [len(set(each)) for each in line] == ([20, 1] if size[0] == 1 else [1, 30])
    assert picture.visible_cells((4, 6)).sum() == (4 if size[0] == 1 else 6)


def test_pixels_beside_an_image_are_bytes_whatever_the_mean():
    for mean, byte in ((0.0, 0), (1.3, 255), (-0.2, 0)):
        picture = decode_image(encoded(Image.new("L", (4, 8), 9)), fitting(8, 8, 1, (mean,)), LIMIT)
        assert (picture.pixels[:, 4:] == byte).all()


def test_an_image_that_is_turned_is_fitted_upright():
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    picture = decode_image(encoded(colours(20, 30), exif=exif), fitting(30, 30), LIMIT)
    assert (picture.width, picture.height) == (20, 30)
    assert (picture.pixels[:, 20:] == BESIDE).all()


def test_a_large_jpeg_that_is_fitted_is_decoded_at_a_reduced_scale_where_its_rule_allows_it():
    image = colours(1600, 2400)
    data = encoded(image, "JPEG", quality=95)
    whole, quick = (decode_image(data, fitting(100, 160, fast_jpeg=fast), LARGE) for fast in (False, True))
    assert quick.box == pytest.approx(whole.box)
    assert np.array_equal(quick.visible_cells((10, 16)), whole.visible_cells((10, 16)))
    assert np.abs(quick.pixels.astype(int) - whole.pixels).max() <= 8


@pytest.mark.parametrize("resize", [28, 224, 336])
def test_images_of_every_size_are_taken(resize):
    rule = middle(224, 224, 1, resize=resize)
    for length in [1, 2, 3, *range(4, 700, 41), 3456]:
        for size in ((length, 60), (60, length)):
            box, pixels = image_preprocessing._cut_middle(Image.new("L", size, 255), rule)
            assert pixels.shape == (224, 224, 1)
            assert (box[0] + box[2]) / 2 == pytest.approx(size[0] / 2, abs=size[0] / 200 + 1)


@pytest.mark.parametrize("size", [(1, 300), (1, 16000), (16000, 1), (2, 400_000), (400_000, 2), (7, 100_003)])
@pytest.mark.parametrize("resample", ["nearest", "bilinear", "lanczos"])
def test_an_image_one_pixel_wide_is_not_resized_to_billions_of_pixels(size, resample, monkeypatch):
    made = []
    resize = Image.Image.resize
    monkeypatch.setattr(Image.Image, "resize", lambda self, to, *a, **k: made.append(to) or resize(self, to, *a, **k))
    picture = decode_image(encoded(Image.new("L", size, 255)), middle(224, 224, resize=256, resample=resample), LIMIT)
    assert made == [(224, 224)], "256 pixels wide it would have millions or billions of pixels"
    assert picture.pixels.min() == 255
    assert (picture.box[0] + picture.box[2]) / 2 == pytest.approx(size[0] / 2, abs=1)
    assert (picture.box[1] + picture.box[3]) / 2 == pytest.approx(size[1] / 2, abs=1)


@pytest.mark.parametrize("resample", ["nearest", "bilinear"])
def test_the_middle_of_a_long_line_of_pixels_is_found(resample):
    pixels = np.zeros((1, 60_000_001), np.uint8)
    pixels[0, 30_000_000] = 255
    rule = middle(224, 224, 1, resize=80, resample=resample)
    box, found = image_preprocessing._cut_middle(Image.fromarray(pixels), rule)
    assert (box[0] + box[2]) / 2 == pytest.approx(30_000_000.5, abs=0.01)
    assert found[112, 112, 0] > 250
    assert found[112, 20] == found[112, 204] == 0


@pytest.mark.parametrize("rule", [middle(64, 64, resize=73), middle(64, 64, resize=(50, 90)), middle(90, 400)])
@pytest.mark.parametrize("size", [(300, 200), (90, 331)])
def test_resizing_only_what_is_cropped_gives_the_same_pixels(rule, size, monkeypatch):
    whole = decode_image(encoded(colours(*size)), rule, LIMIT)
    monkeypatch.setattr(image_preprocessing, "MOST_RESIZED_PIXELS", 0)
    part = decode_image(encoded(colours(*size)), rule, LIMIT)
    assert part.box == whole.box
    assert np.abs(part.pixels.astype(int) - whole.pixels).max() <= 1


@pytest.mark.parametrize(
    ("image", "pixel"),
    [
        (Image.new("1", (2, 2), 1), 255),
        (Image.new("L", (2, 2), 77), 77),
        (Image.new("LA", (2, 2), (10, 0)), (255, 255, 255)),
        (Image.new("RGBA", (2, 2), (10, 20, 30, 255)), (10, 20, 30)),
        (Image.new("RGBA", (2, 2), (0, 0, 0, 0)), (255, 255, 255)),
        (Image.new("RGB", (2, 2), (1, 2, 3)).quantize(), (1, 2, 3)),
        (Image.fromarray(np.full((2, 2), 257 * 100, np.uint16)), 100),
    ],
    ids=["1-bit", "gray", "gray-alpha", "opaque", "transparent", "palette", "16-bit"],
)
def test_every_mode_gives_the_right_pixels_and_transparency_is_white(image, pixel):
    assert open_image(encoded(image), LIMIT).getpixel((1, 1)) == pixel


@pytest.mark.parametrize(("level", "background"), [(200, 255), (201, 0), (255, 0)])
def test_transparency_is_black_where_the_rest_is_nearly_white(level, background):
    image = Image.new("LA", (4, 4), (0, 0))
    image.paste((level, 255), (0, 0, 2, 4))
    opened = open_image(encoded(image), LIMIT)
    assert (opened.getpixel((0, 0)), opened.getpixel((3, 3))) == ((level,) * 3, (background,) * 3)


RANDOM = np.random.default_rng(5)
COLOURS = RANDOM.integers(0, 256, (256, 3))
GREYS = np.repeat(np.arange(256)[:, None], 3, 1)
INDICES = RANDOM.integers(0, 256, (21, 35))


def rgb(data):
    """Return the pixels of an image as colours, (height, width, 3)."""
    return np.asarray(open_image(data, LIMIT).convert("RGB"))


@pytest.mark.parametrize("palette", [COLOURS, GREYS], ids=["colours", "greys"])
@pytest.mark.parametrize(
    "form", [{}, {"interlaced": True}, {"local": True}, {"extensions": b"!\xfe\x03a,b\0!\xff\x01c\0"}]
)
def test_a_gif_has_the_colours_of_its_palette(palette, form):
    assert np.array_equal(rgb(gif(INDICES, palette, **form)), palette[INDICES])


@pytest.mark.parametrize("palette", [COLOURS, GREYS], ids=["colours", "greys"])
@pytest.mark.parametrize("transparent", [None, 0, 7])
def test_of_a_gif_an_index_is_transparent_and_so_is_the_screen_around_its_image(palette, transparent):
    shown = palette[INDICES].copy()
    if transparent is not None:
        shown[transparent == INDICES] = 255
    assert np.array_equal(rgb(gif(INDICES, palette, transparent=transparent)), shown)
    around = np.full((50, 60, 3), 255)
    around[7:28, 9:44] = shown
    assert np.array_equal(rgb(gif(INDICES, palette, screen=(60, 50), at=(9, 7), transparent=transparent)), around)


@pytest.mark.parametrize("screen", [(0, 0), (10, 8)])
def test_a_gif_whose_image_is_larger_than_its_screen_is_shown_whole(screen):
    assert np.array_equal(rgb(gif(INDICES, COLOURS, screen=screen)), COLOURS[INDICES])


@pytest.mark.parametrize("upwards", [True, False])
def test_a_bitmap_is_read_at_every_depth(upwards):
    for bits in (1, 4, 8):
        indices = INDICES % (1 << bits)
        for palette in (COLOURS[: 1 << bits], GREYS[:: 255 // ((1 << bits) - 1)]):
            assert np.array_equal(rgb(bmp(indices, bits, palette, upwards=upwards)), palette[indices]), bits
    pixels = COLOURS[INDICES]
    assert np.array_equal(rgb(bmp(pixels, upwards=upwards)), pixels)
    assert np.array_equal(rgb(bmp(np.dstack([pixels, INDICES]), 32, upwards=upwards)), pixels)  # the fourth is unused
    assert np.array_equal(rgb(bmp(pixels, 16, upwards=upwards)), pixels // 8 * 255 // 31)


def test_a_bitmap_that_says_which_bits_are_alpha_is_transparent():
    pixels = np.dstack([COLOURS[INDICES] // 2, INDICES])
    shown = (pixels[..., :3] * (INDICES / 255)[..., None] + (255 - INDICES)[..., None]).round()
    found = rgb(bmp(pixels, 32, masks=(0xFF0000, 0xFF00, 0xFF, 0xFF000000)))
    assert np.abs(found - shown).max() <= 1


def test_a_bitmap_of_runs_is_read():
    plain = bmp(np.array([[3, 3, 3, 7, 9], [5, 5, 0, 0, 0]]), 8, COLOURS)
    runs = b"\2\5\0\0" + b"\3\3\0\2\0\0" + b"\1\7\1\x09\0\1"  # the lower row first; a step of none
    start = 14 + 40 + 1024
    data = plain[:30] + struct.pack("<I", 1) + plain[34:start] + runs
    assert np.array_equal(rgb(data), rgb(plain))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_an_avif_is_read_upright(mode, orientation):
    drawn = colours(60, 90).convert(mode)
    if mode == "RGBA":
        drawn.putalpha(Image.fromarray(np.arange(90, dtype=np.uint8)[None].repeat(60, 0) * 2))
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    data = encoded(drawn, "AVIF", quality=100, subsampling="4:4:4", exif=exif)
    assert b"Orientation" not in data
    pixels = np.asarray(drawn.convert("RGBA"), float)
    alpha = pixels[..., 3:] / 255
    shown = np.rot90(pixels[..., :3] * alpha + 255 * (1 - alpha), {1: 0, 3: 2, 6: -1}[orientation])
    picture = open_image(data, LIMIT)
    assert picture.info["orientation"] == orientation
    assert picture.info["size"] == picture.size == shown.shape[1::-1]
    assert np.abs(np.asarray(picture.convert("RGB")) - shown).max() <= 4


def test_an_avif_whose_picture_is_larger_than_it_was_announced_is_refused():
    """A decoder scales AV1 to the size that the boxes have: the service announces that of the AV1 before."""
    data = encoded(Image.new("L", (1000, 700)), "AVIF", speed=10)
    place = data.index(b"ispe") + 8
    lies = data[:place] + struct.pack(">II", 64, 48) + data[place + 8 :]
    assert open_image(lies, LIMIT).size == (64, 48)
    assert read_size(lies) == (1000, 700)
    with pytest.raises(Unacceptable, match="image: must have the size that its header announces, given a larger one"):
        decode_image(data, INK, LIMIT, 64 * 48)


def test_cmyk_becomes_rgb():
    image = open_image(encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=100), LIMIT)
    assert image.mode == "RGB"
    assert np.asarray(image)[4, 4] == pytest.approx((255, 0, 0), abs=12)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_image_is_turned_as_its_exif_says(orientation):
    upright = np.zeros((20, 40), np.uint8)
    upright[:10, :10] = 255  # a light corner, top left
    turned = {
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1],
        5: upright.T, 6: upright.T[:, ::-1][::-1, ::-1], 7: upright.T[::-1, ::-1], 8: upright.T[:, ::-1],
    }[orientation]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = open_image(encoded(Image.fromarray(np.ascontiguousarray(turned)), "JPEG", exif=exif, quality=95), LIMIT)
    assert image.size == (40, 20)
    assert np.asarray(image)[5, 5] > 200
    assert np.asarray(image)[15, 35] < 50


def test_too_many_pixels_are_refused_by_the_header():
    with pytest.raises(TooLarge, match="image: at most 1000000 pixels, given 20000 x 20000"):
        decode_image(encoded(Image.new("1", (20000, 20000))), INK, LIMIT)


@pytest.mark.parametrize("data", [b"", b"hello", b"secret words", bytes(1000)])
def test_bytes_that_are_no_image_are_refused_without_saying_what_they_are(data):
    known = "JPEG, PNG, WEBP, GIF, BMP, TIFF, AVIF"
    with pytest.raises(
        Unsupported, match=f"^image: must be one of {known}, given {len(data)} bytes that are none of them$"
    ):
        decode_image(data, INK, LIMIT)


@pytest.mark.parametrize(("kind", "data"), [
    ("PNG", b"\x89PNG\r\n\x1a\n"), ("PNG", b"\x89PNG\r\n\x1a\n" + bytes(100)), ("JPEG", b"\xff\xd8\xff"),
    ("GIF", b"GIF89a" + bytes(100)), ("BMP", b"BM" + bytes(12) + b"\x28" + bytes(100)), ("TIFF", b"II*\0" + bytes(100)),
    ("TIFF", tiff(np.zeros((9, 9), int), 0, 16, ">")), ("AVIF", b"\0\0\0\x14ftypavif" + bytes(100)),
])  # fmt: skip
def test_what_cannot_be_read_is_said_to_be_what_it_begins_like(kind, data):
    words = f"^image: must be a whole {kind} of a usual form, given {len(data)} bytes that cannot be read as one$"
    with pytest.raises(Unacceptable, match=words):
        decode_image(data, INK, LIMIT)


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
def test_a_grey_that_is_transparent_is_hidden_at_every_depth(depth):
    """PNG specification, section 11.3.1: samples are compared with the key in the image's own depth."""
    shown, hidden = 0, (1 << depth) - 1 if depth < 16 else 300
    samples = np.full((20, 24), hidden)
    samples[5:15, 8:16] = shown
    bits = np.unpackbits(samples.astype(">u2").view(np.uint8).reshape(20, 24, 2), axis=2)[..., -depth:]
    lines = b"".join(b"\0" + line.tobytes() for line in np.packbits(bits.reshape(20, -1), axis=1))
    header = struct.pack(">IIBBBBB", 24, 20, depth, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"tRNS", struct.pack(">H", hidden)), chunk(b"IDAT", zlib.compress(lines))]
    image = open_image(b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b""), LIMIT)
    pixels = np.asarray(image.convert("L"))
    assert (pixels[samples == hidden] == 255).all()  # the ground that ink is put on
    assert (pixels[samples == shown] == 0).all()


def entry(tag, kind, count, value):
    """An entry of EXIF (TIFF 6.0, section 2)."""
    return struct.pack("<HHI", tag, kind, count) + value


@pytest.mark.parametrize(
    "odd",
    [
        entry(0x128, 2, 2, b"2\0\0\0"),  # a unit as a text
        entry(0x11A, 2, 3, b"72\0\0"),  # a resolution as a text
        entry(0x128, 9, 1, struct.pack("<i", -1)),
    ],
)
def test_an_image_is_turned_though_its_exif_could_not_be_written_again(odd):
    turn = entry(0x112, 3, 1, struct.pack("<HH", 6, 0))
    exif = b"II*\0\x08\0\0\0" + struct.pack("<H", 2) + turn + odd + bytes(4)
    image = colours(20, 30)
    whole = encoded(image, "JPEG", quality=95)
    data = whole[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 8) + b"Exif\0\0" + exif + whole[2:]
    picture = open_image(data, LIMIT)
    assert picture.size == (20, 30)
    turned = np.asarray(image.transpose(Image.Transpose.ROTATE_270)).astype(int)
    assert np.abs(np.asarray(picture).astype(int) - turned).mean() < 6


@pytest.mark.parametrize("kind", FORMATS)
def test_a_truncated_image_is_refused_wherever_it_ends(kind):
    whole = encoded(bar(), kind)
    for length in range(0, len(whole) - 20, max(1, len(whole) // 40)):
        with pytest.raises((Unsupported, Unacceptable)) as refused:
            decode_image(whole[:length], INK, LIMIT)
        assert "0x" not in str(refused.value)


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_header(width, height, depth=8, colour=2):
    """A PNG that announces a size, and holds a line of it at most."""
    announced = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + announced + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def jpeg_header(width, height):
    """A JPEG whose frame says it is of another size than it is."""
    data = bytearray(encoded(bar(), "JPEG"))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def webp_header(width, height):
    """A lossless WebP that announces a size, and holds nothing of it."""
    announced = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + bytes(99)
    return (
        b"RIFF" + struct.pack("<I", len(announced) + 12) + b"WEBPVP8L" + struct.pack("<I", len(announced)) + announced
    )


def avif_announcing(width, height):
    """An AVIF whose boxes announce a size, and whose AV1 is smaller."""
    data = bytearray(encoded(bar(), "AVIF"))
    place = data.index(b"ispe") + 8
    data[place : place + 8] = struct.pack(">II", width, height)
    return bytes(data)


BOMBS = {
    "a bit a pixel": png_header(20000, 20000, 1, 0),
    "the widest line": png_header(2**31 - 1, 1),
    "the largest": png_header(2**31 - 1, 2**31 - 1, 16, 6),
    "the largest JPEG": jpeg_header(65500, 65500),
    "the largest WebP": webp_header(16383, 16383),
    "the largest GIF": gif(np.zeros((1, 1), int), [(0, 0, 0)], screen=(65535, 65535)),
    "a GIF whose image reaches far": gif(np.zeros((1, 1), int), [(0, 0, 0)], at=(65000, 65000)),
    "the largest bitmap": bmp(np.zeros((1, 1), int), 8, [(0, 0, 0)]).replace(
        struct.pack("<ii", 1, 1), struct.pack("<ii", 2**31 - 1, -(2**31 - 1))
    ),
    "the largest TIFF": tiff(np.zeros((1, 1), int), 1, more=[(256, 4, [2**31]), (257, 4, [2**31])]),
    "large tiles of a small TIFF": tiff(np.zeros((9, 9), int), 1, more=[(322, 4, [2**12]), (323, 4, [2**12])]),
    "a large AVIF": avif_announcing(16000, 16000),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_by_its_header_and_takes_no_memory(name, monkeypatch):
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("its pixels were decoded"))
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="image: at most 1000000 pixels, given "):
            decode_image(BOMBS[name], INK, LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_a_decoder_is_given_it(name):
    size = read_size(BOMBS[name])
    with pytest.raises(TooLarge, match="image: at most 1000000 pixels, given "):
        check_pixels(*size, LIMIT)


@pytest.mark.parametrize("data", [png_header(0, 5), png_header(5, 0), png_header(0, 0)])
def test_an_image_without_pixels_is_refused(data):
    with pytest.raises((Unsupported, Unacceptable)):
        decode_image(data, INK, LIMIT)


def test_a_compressed_text_chunk_is_not_inflated():
    data = encoded(bar())
    text = chunk(b"zTXt", b"title\0\0" + zlib.compress(bytes(80 << 20), 9))
    profile = chunk(b"iCCP", b"profile\0\0" + zlib.compress(bytes(80 << 20), 9))
    for bomb in (text, profile):
        tracemalloc.start()
        try:
            with contextlib.suppress(Unsupported, Unacceptable):
                decode_image(data[:33] + bomb + data[33:], INK, LIMIT)
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()


def test_scans_are_counted_in_a_jpeg_alone():
    """The two bytes that begin a scan of a JPEG occur by chance in other formats."""
    many = b"\xff\xda" * MOST_SCANS
    for kind in {*FORMATS} - {"JPEG"}:
        whole = encoded(bar(), kind)
        np.testing.assert_array_equal(open_image(whole + many + many, LIMIT), open_image(whole, LIMIT))
    with pytest.raises(Unacceptable, match=r"^image: at most 200 scans, given more$"):
        open_image(encoded(bar(), "JPEG") + many, LIMIT)


@pytest.mark.parametrize("kind", FORMATS)
def test_flipped_bits_are_refused_or_decoded(kind):
    whole, random = encoded(bar(60, 40, 20, 10, 30, 30), kind), np.random.default_rng(0)
    for _ in range(300):
        data = bytearray(whole)
        for place in random.integers(0, len(data) * 8, random.integers(1, 4)):
            data[place // 8] ^= 1 << place % 8
        with contextlib.suppress(TooLarge, Unsupported, Unacceptable):
            assert decode_image(bytes(data), INK, LIMIT).pixels.shape == (28, 28, 1)


@pytest.mark.parametrize(("kind", "given"), [
    ("ICO", "ICO; send one of its pictures as PNG"), ("JPEG2000", "JPEG 2000; send it as PNG or JPEG"),
    ("PDF", "PDF; send a page of it as PNG or JPEG"),
    *((kind, r"\d+ bytes that are none of them") for kind in ("PPM", "EPS", "TGA", "PCX", "ICNS", "SGI")),
])  # fmt: skip
def test_other_formats_are_refused_whether_or_not_pillow_knows_them(kind, given):
    data = encoded(bar(64, 64, 20, 20, 40, 40).convert("RGB"), kind)
    with pytest.raises(Unsupported, match=f"^image: must be one of JPEG, PNG, .*, AVIF, given {given}$"):
        decode_image(data, INK, LIMIT)


@pytest.mark.parametrize("kind", FORMATS)
def test_bytes_after_an_image_are_ignored(kind):
    whole = encoded(bar(), kind)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("page.html", "<script>")
    plain = decode_image(whole, INK, LIMIT)
    for more in (archive.getvalue(), b"<?php", encoded(bar(left=0), kind)):
        assert np.array_equal(decode_image(whole + more, INK, LIMIT).pixels, plain.pixels)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF", "TIFF", "AVIF"])
def test_the_first_frame_of_an_animation_is_taken(kind):
    first, second = bar(), bar(left=20, right=40)
    moving = encoded(first, kind, save_all=True, append_images=[second] * 20)
    assert Image.open(io.BytesIO(moving)).n_frames > 1
    found = decode_image(moving, INK, LIMIT)
    assert found.box == pytest.approx(decode_image(encoded(first), INK, LIMIT).box, abs=1)


def photograph(size, *, exif=None):
    """A JPEG of that size with edges and grain."""
    rng = np.random.default_rng(0)
    page = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize(size, Image.Resampling.BICUBIC)
    grain = np.asarray(page, np.int16) + rng.integers(-12, 13, (size[1], size[0], 3))
    return encoded(
        Image.fromarray(grain.clip(0, 255).astype(np.uint8)), "JPEG", quality=90, **({"exif": exif} if exif else {})
    )


@pytest.mark.parametrize("rule", [middle(40, 40, resize=48, resample="bicubic"), middle(40, 40, resize=(40, 60))])
def test_a_large_photograph_is_decoded_exactly(rule):
    data = photograph((2000, 1496))
    whole = Image.open(io.BytesIO(data))
    size = (int(48 * 2000 / 1496), 48) if rule.resize == 48 else (60, 40)
    resized = whole.resize(size, Image.Resampling[rule.resample.upper()])
    left, top = (size[0] - 40) // 2, (size[1] - 40) // 2
    expected = np.asarray(resized.crop((left, top, left + 40, top + 40)))
    assert np.array_equal(decode_image(data, rule, LARGE).pixels, expected)


@pytest.mark.parametrize("resize", [48, (40, 60)])
@pytest.mark.parametrize("turned", [1, 6])
def test_with_fast_jpeg_a_large_photograph_is_decoded_small_and_hardly_differs(resize, turned, monkeypatch):
    rule = middle(40, 40, resize=resize, resample="bicubic", fast_jpeg=True)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = turned
    data = photograph((2000, 1496), exif=exif)
    small = decode_image(data, rule, LARGE)
    loaded = open_image(data, LARGE, 60)
    monkeypatch.setattr(image_preprocessing, "DRAFT_PIXELS", LARGE)
    whole = decode_image(data, rule, LARGE)
    assert max(loaded.size) < 600
    assert (small.width, small.height) == (whole.width, whole.height) == ((1496, 2000) if turned == 6 else (2000, 1496))
    assert small.box == pytest.approx(whole.box)
    difference = np.abs(small.pixels.astype(int) - whole.pixels)
    assert 0 < difference.mean() < 1
    assert difference.max() < 16
