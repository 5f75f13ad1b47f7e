"""Finding the sign that a person wrote: its box, and what is not part of it."""

import time

import numpy as np
import pytest
from PIL import Image, ImageDraw

from service.errors import Unacceptable
from service.inputs.image_preprocessing import decode_image
from tests.conftest import ROOT
from tests.samples.images import INK, bar, encoded, written

LIMIT = 10**6


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
def test_thousands_of_pieces_of_ink_are_decoded_quickly(kind):
    start = time.process_time()
    decode_image(encoded(scattered(kind)), INK, LIMIT)
    assert time.process_time() - start < 3, "it took minutes when every piece was weighed against every other"


def test_grain_alone_is_refused_as_no_ink():
    page = np.random.default_rng(0).integers(0, 256, (400, 400), dtype=np.uint8)
    with pytest.raises(Unacceptable, match="image: must hold a sign"):
        decode_image(encoded(Image.fromarray(page)), INK, LIMIT)


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
def test_a_sign_is_found_beside_lines_specks_and_shadows(name):
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
