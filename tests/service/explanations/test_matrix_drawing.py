"""Matrices in a picture of a given width; those of their own size are in test_drawing.py."""

import numpy as np
import pytest
from PIL import Image

from service.errors import TooLarge
from service.explanations.colormaps import COLORMAPS, SIGNED
from service.explanations.drawing import Panel, Style
from service.explanations.lettering import font_of, label
from service.explanations.matrix_drawing import LEAST_TEXT, lay_out, matrix, matrix_size

LIMIT = 10**8
WORDS = ["the", "internationalization", "of", "", "12", "W" * 30, " a", "漢字"]


def words(count):
    return [WORDS[index % len(WORDS)] for index in range(count)]


def maps(count, rows, columns, *, signed=False):
    random = np.random.default_rng(0)
    return [Panel(f"layer {n}", random.uniform(-1 if signed else 0, 1, (rows, columns)), signed) for n in range(count)]


@pytest.mark.parametrize("width", [64, 65, 211, 300, 777, 1000, 4096])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 7), (1, 40), (40, 1), (50, 178), (0, 3)])
@pytest.mark.parametrize("count", [1, 2, 13])
def test_a_layout_is_as_wide_as_asked_and_no_larger_than_announced(width, rows, columns, count):
    announced = matrix_size(rows, columns, count, width)
    layout = lay_out(words(rows), words(columns), count, width)
    assert layout.tiles.size[0] == announced[0] == width
    assert layout.tiles.size[1] <= announced[1]
    assert layout.text >= LEAST_TEXT


@pytest.mark.parametrize(
    ("width", "rows", "columns", "count"),
    [(64, 1, 1, 1), (65, 0, 3, 2), (211, 7, 7, 2), (300, 1, 40, 13), (300, 40, 1, 1), (777, 50, 178, 2),
     (1000, 7, 7, 1), (1000, 1, 40, 2), (4096, 7, 7, 1), (4096, 50, 178, 1)],
)  # fmt: skip
def test_a_picture_has_the_size_of_its_layout_and_nothing_is_cut_off(width, rows, columns, count):
    picture = matrix(maps(count, rows, columns), words(rows), words(columns), Style(), LIMIT, width)
    assert picture.size == lay_out(words(rows), words(columns), count, width).tiles.size
    edges = np.asarray(picture)[:, [0, -1]]
    assert width < 200 or (edges == 255).all(), "nothing is cut off at the sides"


@pytest.mark.parametrize("width", [300, 640, 1500])
@pytest.mark.parametrize(("count", "signed"), [(1, False), (3, True)])
def test_cells_that_are_larger_than_pixels_have_the_colours_of_their_values(width, count, signed):
    panels = maps(count, 9, 12, signed=signed)
    picture = np.asarray(matrix(panels, words(9), words(12), Style("magma"), LIMIT, width))
    layout = lay_out(words(9), words(12), count, width)
    assert layout.cell >= 3
    for index, panel in enumerate(panels):
        most, table = np.abs(panel.values).max(), SIGNED if signed else COLORMAPS["magma"]
        shares = (panel.values / most + 1) / 2 if signed else panel.values / most
        for (row, column), share in np.ndenumerate(shares):
            x, y = layout.centre(index, row, column)
            assert (picture[y, x] == table[int(share * (len(table) - 1) + 0.5)]).all()


def test_cells_that_are_smaller_than_pixels_are_averaged():
    values = np.zeros((600, 600))
    values[::2] = 1
    picture = np.asarray(matrix([Panel("", values)], words(600), words(600), Style("gray"), LIMIT, 300))
    layout = lay_out(words(600), words(600), 1, 300)
    left, top = layout.corner(0)
    width, height = layout.size
    assert layout.cell < 0.5
    assert 110 < picture[top : top + height, left : left + width].mean() < 145


@pytest.mark.parametrize("width", [200, 350, 600, 1200])
@pytest.mark.parametrize("count", [5, 30, 100, 300])
def test_labels_never_overlap_and_the_first_one_is_whole(width, count, monkeypatch):
    monkeypatch.setattr("service.explanations.matrix_drawing.label", lambda text: text)
    layout = lay_out(["X"] * count, ["X"] * count, 1, width)
    assert layout.step * layout.cell >= layout.text, "of one line and the next"
    picture = matrix([Panel("", np.zeros((count, count)))], ["X"] * count, ["X"] * count, Style("gray"), LIMIT, width)
    left, top = layout.corner(0)
    rows = slice(top - layout.beyond, top + layout.size[1] + layout.beyond)
    beside = np.asarray(picture.convert("L"))[rows, : left - 1 - layout.beyond] < 128
    lines = np.flatnonzero(np.diff(beside.any(axis=1).astype(int)) == 1)
    assert len(lines) == len(range(0, count, layout.step))
    ends = np.flatnonzero(np.diff(beside.any(axis=1).astype(int)) == -1)
    heights = ends - lines
    assert heights.max() - heights.min() <= 2, "of letters, which may be between two pixels"


def test_a_wider_picture_has_larger_cells_and_texts():
    small, large = (lay_out(words(7), words(7), 1, width) for width in (300, 1200))
    assert large.cell > 3 * small.cell
    assert large.text > 3 * small.text


def test_a_label_that_has_no_room_ends_with_an_ellipsis(monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "service.explanations.matrix_drawing.fitting", lambda text, font, room: drawn.append(room) or ""
    )
    matrix(maps(1, 3, 3), words(3), words(3), Style(), LIMIT, 200)
    layout = lay_out(words(3), words(3), 1, 200)
    assert set(drawn) == {layout.left - -(-layout.text // 2)}
    assert font_of(layout.text).getlength(label(WORDS[1])) > drawn[0]


def test_too_large_a_picture_is_refused_before_anything_is_made_of_it(monkeypatch):
    monkeypatch.setattr(Image, "new", lambda *_, **__: pytest.fail("it was"))
    with pytest.raises(
        TooLarge, match=r"^png: at most 100000 pixels, this one would have 1000 x \d+; ask for a smaller"
    ):
        matrix(maps(1, 9, 9), words(9), words(9), Style(), 10**5, 1000)
