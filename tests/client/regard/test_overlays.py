import numpy as np
import pytest
import regard
from PIL import Image
from regard.overlays import laid_over, side_by_side
from regard.reading import read_attention

from service.explanations.drawing import Panel, Style, overlay
from tests.client.conftest import looked, mapped

RNG = np.random.default_rng(0)
BOX = (2.0, 1.0, 35.0, 28.0)
MOST = 10**9


def picture():
    return Image.fromarray(RNG.integers(0, 256, (30, 40, 3), dtype=np.uint8))


def attention(values, method, **changed):
    """Attention of a picture of 40 x 30 pixels, whose patches cover a part of it."""
    box = dict(zip(("left", "top", "right", "bottom"), BOX, strict=True))
    image = {"width": 40, "height": 30, "orientation": 1, "box": box}
    return read_attention({**looked(mapped(values, "encoder", **changed), method=method), "image": image})


@pytest.mark.parametrize(("signed", "ground"), [(True, "grey"), (False, "grey"), (False, "photo")])
def test_a_picture_under_heat_is_that_of_the_service(signed, ground):
    values = RNG.standard_normal((1, 1, 6)) if signed else RNG.random((1, 1, 6))
    found = attention(values, "libra", signed=signed)
    own, sent = found.overlay(ours := picture(), ground=ground), Style(ground=ground)
    (theirs,) = [overlay(ours, BOX, [Panel("", values.reshape(2, 3), signed)], sent, MOST)]
    difference = np.abs(np.asarray(own, int) - np.asarray(theirs, int))
    assert difference.max() <= 4, "a step between two colours of a table"
    assert (difference <= 1).mean() > 0.97
    assert np.asarray(own).std() > 10


def test_parts_are_colours():
    values = RNG.random((3, 1, 6))
    ours = picture()
    found = attention(values, "parts").overlay(ours)
    theirs = overlay(ours, BOX, [Panel("", values[:, 0].T.reshape(2, 3, 3))], Style(), MOST)
    assert np.abs(np.asarray(found, int) - np.asarray(theirs, int)).max() <= 1


def test_heat_of_another_size_is_refused():
    with pytest.raises(regard.BadInput, match="picture: must be as large as its heat, 4 x 3, given 2 x 2"):
        laid_over(Image.new("RGB", (2, 2)), np.zeros((3, 4), np.float32))


def test_pictures_stand_side_by_side_under_their_titles():
    red, blue = Image.new("RGB", (10, 20), "red"), np.full((8, 12, 3), (0, 0, 255), np.uint8)
    found = side_by_side([red, blue])
    assert found.size == (10 + 8 + 12, 20)
    assert (found.getpixel((9, 19)), found.getpixel((18, 7))) == ((255, 0, 0), (0, 0, 255))
    assert found.getpixel((18, 8)) == (255, 255, 255)
    titled = side_by_side([red, blue], ["one", "two"])
    assert titled.size == (30, 42)
    assert titled.getpixel((0, 22)) == (255, 0, 0)
    assert np.asarray(titled)[:22, :10].min() < 128, "the title is written"
    with pytest.raises(regard.BadInput, match="pictures: must be at least one"):
        side_by_side([])
    with pytest.raises(regard.BadInput, match="titles: must be as many as pictures, 2, given 1"):
        side_by_side([red, blue], ["one"])
