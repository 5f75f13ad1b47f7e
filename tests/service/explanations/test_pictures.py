import io

import numpy as np
import pytest
from PIL import Image

from service.errors import TooLarge
from service.explanations.pictures import STRIP, Space, png

SIZES = [(300, 200), (120, 80), (200, 50)]
COLOURS = ["#102030", "#405060", "#708090"]


def pictures():
    return [(f"text {n}: of {n}", Image.new("RGB", *one)) for n, one in enumerate(zip(SIZES, COLOURS, strict=True))]


def opened(data):
    image = Image.open(io.BytesIO(data))
    assert (image.format, image.mode) == ("PNG", "RGB")
    return np.asarray(image)


def test_one_picture_is_as_it_is():
    (_, picture), *_ = pictures()
    assert (opened(png([("never shown", picture)])) == np.asarray(picture)).all()


def test_several_stand_below_one_another_each_under_its_title():
    whole = opened(png(pictures()))
    assert whole.shape[1::-1] == (300, sum(height + STRIP for _, height in SIZES))
    top = 0
    for (_, picture), (width, height) in zip(pictures(), SIZES, strict=True):
        strip, top = whole[top : top + STRIP], top + STRIP
        assert strip.min() < 128, "its letters"
        assert (whole[top : top + height, :width] == np.asarray(picture)).all()
        assert (whole[top : top + height, width:] == 255).all()
        top += height
    other = opened(png([("another title", picture) for _, picture in pictures()]))
    assert (other[:STRIP] != whole[:STRIP]).any()


@pytest.mark.parametrize("title", ["x" * 1_000_000, "漢" * 300, "a\nb\tc", "", "\u202e \ud800"])
def test_a_title_of_any_text_stays_in_its_line(title):
    whole = opened(png([(title, picture) for _, picture in pictures()]))
    assert (whole[:STRIP, -8:] == 255).all()
    assert (whole[STRIP : STRIP + 200] == np.asarray(pictures()[0][1])).all()


def test_the_space_of_a_png_is_that_of_all_its_inputs():
    size = opened(png(pictures())).shape
    space = Space(size[0] * size[1], len(SIZES))
    for taken in SIZES:
        space.take(taken)
    with pytest.raises(
        TooLarge, match=r"^png: at most \d+ pixels, this one would have 300 x 427; ask for a smaller wid"
    ):
        space.take((1, 1 - STRIP))
    tight = Space(size[0] * size[1] - 1, len(SIZES))
    for taken in SIZES[:-1]:
        tight.take(taken)
    with pytest.raises(TooLarge):
        tight.take(SIZES[-1])
    Space(300 * 200).take((300, 200))
    with pytest.raises(TooLarge):
        Space(300 * 200 - 1).take((300, 200))
