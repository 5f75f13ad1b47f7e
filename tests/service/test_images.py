import io
import time

import numpy as np
import pytest
from PIL import Image, ImageDraw

from contract.manifest import ImageRule
from service.errors import TooLarge, Unacceptable, Unsupported
from service.images import _cover as locate_cover
from service.images import decode_image, open_image
from tests.conftest import ROOT

INK = ImageRule(height=28, width=28, channels=1, locate="ink", ink_box=20, mean=(0.5,), std=(0.5,))
LIMIT = 10**6


def encoded(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def rule(locate, height, width, channels=3):
    return ImageRule(
        height=height, width=width, channels=channels, locate=locate, mean=(0.5,) * channels, std=(0.5,) * channels
    )


def bar(width=200, height=100, left=90, top=30, right=110, bottom=70, ink=0, paper=255):
    pixels = np.full((height, width), paper, np.uint8)
    pixels[top:bottom, left:right] = ink
    return Image.fromarray(pixels)


@pytest.mark.parametrize(("ink", "paper"), [(0, 255), (255, 0), (90, 140), (200, 120)])
def test_ink_is_bright_on_black_whichever_way_it_was_written(ink, paper):
    pixels = decode_image(encoded(bar(ink=ink, paper=paper)), INK, LIMIT).pixels[:, :, 0]
    assert pixels[6:22, 10:18].min() > 200
    assert pixels[:, :8].max() == 0
    assert pixels[:, 20:].max() == 0


def test_the_box_is_the_square_round_the_ink_in_pixels_of_the_image():
    picture = decode_image(encoded(bar()), INK, LIMIT)
    assert (picture.width, picture.height) == (200, 100)
    side = 40 * 28 / 20  # the bar is 40 high, and its longer side becomes 20 of 28 pixels
    assert picture.box == pytest.approx((100 - side / 2, 50 - side / 2, 100 + side / 2, 50 + side / 2), abs=1)


def test_the_box_of_a_large_image_is_in_its_own_pixels():
    large = bar().resize((2000, 1000), Image.Resampling.NEAREST)
    small, big = (decode_image(encoded(image), INK, 10**7) for image in (bar(), large))
    assert np.array(big.box) / 10 == pytest.approx(small.box, abs=1.5)


def test_ink_that_touches_the_edge_gets_a_box_beyond_it():
    picture = decode_image(encoded(bar(left=0, right=10)), INK, LIMIT)
    assert picture.box[0] < 0
    assert picture.pixels[:, 14, 0].max() > 200


def test_ink_is_found_where_light_falls_from_one_side():
    lit = np.asarray(bar(ink=60, paper=230), np.float64) * np.linspace(1.0, 0.6, 200)
    pixels = decode_image(encoded(Image.fromarray(lit.astype(np.uint8))), INK, LIMIT).pixels[:, :, 0]
    assert pixels[6:22, 12:16].min() > 150
    assert pixels[:, :8].max() < 30


@pytest.mark.parametrize("image", [Image.new("L", (60, 40), 130), Image.new("L", (1, 1)), Image.new("RGBA", (9, 9))])
def test_an_image_without_ink_is_refused(image):
    with pytest.raises(Unacceptable, match="image: must hold a sign that stands out from its paper"):
        decode_image(encoded(image), INK, LIMIT)


def scattered(kind):
    """Pages of nothing but grain or dots, which no sign is in and thousands of pieces are."""
    rng = np.random.default_rng(0)
    page = np.full((512, 512), 255, np.uint8)
    if kind == "dots":
        page[::8, ::8] = page[1::8, ::8] = 0
    else:
        page[rng.random(page.shape) < {"sparse": 0.02, "dense": 0.5}[kind]] = 0
    return Image.fromarray(page)


@pytest.mark.parametrize("kind", ["dots", "sparse", "dense"])
def test_thousands_of_pieces_of_ink_are_no_reason_to_wait(kind):
    start = time.process_time()
    decode_image(encoded(scattered(kind)), INK, LIMIT)
    assert time.process_time() - start < 3, "it took minutes when every piece was weighed against every other"


def test_grain_alone_is_no_sign():
    page = np.random.default_rng(0).integers(0, 256, (400, 400), dtype=np.uint8)
    with pytest.raises(Unacceptable, match="image: must hold a sign"):
        decode_image(encoded(Image.fromarray(page)), INK, LIMIT)


def written(paper=235):
    """A seven with a bar of its own, on a page with room for disturbances."""
    page = Image.new("L", (400, 400), paper)
    pen = ImageDraw.Draw(page)
    pen.line([(140, 110), (260, 110), (180, 300)], fill=30, width=16, joint="curve")
    pen.line([(165, 205), (250, 205)], fill=30, width=12)
    return page


def disturbed(draw):
    page = written()
    draw(ImageDraw.Draw(page))
    return page


def noisy(page, spread):
    grain = np.random.default_rng(0).normal(0, spread, (400, 400))
    return Image.fromarray((np.asarray(page, float) + grain).clip(0, 255).astype(np.uint8))


def coloured(ink, paper):
    mask = np.asarray(written())[:, :, None] < 128
    return Image.fromarray(np.where(mask, ink, paper).astype(np.uint8))


def on_nothing(ink):
    alpha = Image.fromarray(255 - np.asarray(written(255)))
    return Image.merge("LA", (Image.new("L", (400, 400), ink), alpha)).convert("RGBA")


DISTURBANCES = {
    "a speck": disturbed(lambda pen: pen.rectangle((10, 10, 20, 20), fill=30)),
    "many specks": disturbed(
        lambda pen: [pen.rectangle((x, x // 3, x + 4, x // 3 + 4), fill=0) for x in range(5, 380, 60)]
    ),
    "a dot far away": disturbed(lambda pen: pen.ellipse((20, 350, 34, 364), fill=30)),
    "the scanner's edge": disturbed(lambda pen: pen.rectangle((0, 0, 0, 400), fill=0)),
    "a strip of the desk": disturbed(lambda pen: pen.rectangle((0, 0, 50, 400), fill=60)),
    "a border": disturbed(lambda pen: pen.rectangle((0, 0, 399, 399), outline=20, width=6)),
    "a frame": disturbed(lambda pen: pen.rectangle((30, 30, 369, 369), outline=20, width=3)),
    "a line under it": disturbed(lambda pen: pen.rectangle((110, 340, 290, 344), fill=30)),
    "grain": noisy(written(), 30),
    "red on green": coloured((220, 20, 60), (0, 128, 0)),
    "red on blue": coloured((200, 30, 30), (60, 60, 220)),
    "white on nothing": on_nothing(255),
    "black on nothing": on_nothing(0),
    "little contrast": coloured((185,) * 3, (200,) * 3),
}


@pytest.mark.parametrize("name", DISTURBANCES)
def test_a_sign_is_found_beside_what_is_none(name):
    plain = decode_image(encoded(written()), INK, LIMIT)
    found = decode_image(encoded(DISTURBANCES[name]), INK, LIMIT)
    assert found.box == pytest.approx(plain.box, abs=12)
    difference = np.abs(found.pixels.astype(float) - plain.pixels.astype(float))
    assert difference.mean() < 12, "of 255"


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "tests/data/digits").iterdir()))
def test_a_digit_that_a_person_sends_fills_the_middle(name):
    pixels = decode_image((ROOT / "tests/data/digits" / name).read_bytes(), INK, LIMIT).pixels[:, :, 0]
    ink = np.argwhere(pixels > 128)
    middle = (ink.min(0) + ink.max(0)) / 2
    assert middle == pytest.approx((13.5, 13.5), abs=1.5)
    assert (np.ptp(ink, axis=0) + 1).max() == pytest.approx(20, abs=3)


def test_stretch_takes_the_whole_image():
    image = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(2, 2, 3) * 20)
    picture = decode_image(encoded(image), rule("stretch", 2, 2), LIMIT)
    assert np.array_equal(picture.pixels, np.asarray(image))
    assert picture.box == (0, 0, 2, 2)


def test_cover_takes_the_middle_of_the_longer_side():
    pixels = np.zeros((10, 30, 3), np.uint8)
    pixels[:, 10:20] = 200
    picture = decode_image(encoded(Image.fromarray(pixels)), rule("cover", 10, 10), LIMIT)
    assert picture.box == (10, 0, 20, 10)
    assert picture.pixels.min() == 200


@pytest.mark.parametrize("side", [224, 28, 336])
def test_cover_takes_images_of_every_size(side):
    for length in [*range(1, 700, 3), 928, 3456]:
        for size in ((length, 600), (600, length)):
            box = locate_cover(Image.new("L", size), rule("cover", side, side, 1))[0]
            assert 0 <= box[0] < box[2] <= size[0]
            assert 0 <= box[1] < box[3] <= size[1]


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


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"\x89PNG\r\n\x1a\n", b"GIF89a" + bytes(100), b"%PDF-1.7", bytes(1000)]
)
def test_bytes_that_are_no_image_are_refused_without_saying_what_they_are(data):
    with pytest.raises(Unsupported, match=f"image: must be one of JPEG, PNG, WEBP, given {len(data)} bytes"):
        decode_image(data, INK, LIMIT)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_truncated_image_is_refused_wherever_it_ends(kind):
    whole = encoded(bar(), kind)
    for length in range(0, len(whole) - 20, max(1, len(whole) // 40)):
        with pytest.raises((Unsupported, Unacceptable)) as refused:
            decode_image(whole[:length], INK, LIMIT)
        assert "0x" not in str(refused.value)
