import itertools

import numpy as np
import pytest
import regard
from PIL import Image
from regard.colours import HEAT, SIGNED
from regard.figures import Cell, Picture, Words
from regard.layouts import alone, figure_of
from regard.reading import read_attention

from tests.client.conftest import looked, mapped

LETTERS = "the cat"
TOKENS = [{"text": letter, "span": [at, at + 1], "special": False} for at, letter in enumerate(LETTERS)]
RNG = np.random.default_rng(0)
PICTURE = Image.new("RGB", (12, 8), "white")


def text_look(*maps, method="raw"):
    return read_attention({"method": method, "maps": list(maps), "tokens": {"source": TOKENS}})


def shapes(figure, kind):
    return [shape for shape in figure.shapes if isinstance(shape, kind)]


def hexed(colour):
    return "#" + bytes(colour).hex()


def test_tokens_of_one_row_stand_in_order_on_their_colours():
    values = np.array([1, -2, 0, 4, 0.5, 0, 0])
    figure = text_look(mapped(values[None, None], "encoder", signed=True), method="libra").figure()
    words = [shape.text for shape in shapes(figure, Words)]
    assert words == [*"the␣cat", "-4", "4"]
    tokens = shapes(figure, Cell)[:7]
    assert [token.fill for token in tokens] == [hexed(SIGNED[round(254 * (value / 4 + 1) / 2)]) for value in values]
    assert all(one.left + one.width <= other.left for one, other in itertools.pairwise(tokens))


def test_a_long_text_breaks_into_lines_that_fit():
    tokens = [{"text": "word", "span": [0, 4], "special": False}] * 100
    values = mapped(RNG.random((1, 1, 100)), "encoder")
    figure = figure_of(read_attention({"method": "raw", "maps": [values], "tokens": {"source": tokens}}))
    cells = shapes(figure, Cell)[:100]
    assert max(cell.left + cell.width for cell in cells) <= figure.width
    assert 5 < len({cell.top for cell in cells}) < 10
    assert max(shape.top for shape in figure.shapes) < figure.height


@pytest.mark.parametrize("signed", [True, False])
def test_several_rows_are_a_matrix_whose_cells_have_the_colours_of_their_values(signed):
    values = RNG.standard_normal((7, 7)) if signed else RNG.random((7, 7))
    figure = text_look(mapped(values[None], "encoder", signed=signed)).figure()
    cells = [cell for cell in shapes(figure, Cell) if cell.edge == "none"][:49]
    share = values / np.abs(values).max()
    levels = np.round((share + 1) / 2 * 254) if signed else np.floor(share * 255 + 0.5)
    table = SIGNED if signed else HEAT
    assert [cell.fill for cell in cells] == [hexed(table[int(level)]) for level in levels.ravel()]
    names = [shape.text for shape in shapes(figure, Words)][:14]
    assert "".join(names) == 2 * "the␣cat"


def test_heads_are_panels_with_titles():
    figure = text_look(mapped(RNG.random((2, 7, 7)), "encoder", heads=[0, 3])).figure()
    titles = [shape for shape in shapes(figure, Words) if shape.text.startswith("raw")]
    assert [title.text for title in titles] == ["raw, layer 1, head 0", "raw, layer 1, head 3"]
    assert titles[0].left < titles[1].left
    assert titles[0].top == titles[1].top


def test_objects_of_a_picture_are_panels_with_their_boxes():
    look = read_attention(looked(mapped(RNG.random((1, 2, 6)), objects=[3, 1])))
    figure = look.figure(PICTURE)
    pictures, boxes = shapes(figure, Picture), shapes(figure, Cell)
    assert len(pictures) == 2
    scale = pictures[0].width / PICTURE.width
    black, white = boxes[:2]
    assert black.line == 2 * white.line
    assert white.left - pictures[0].left == pytest.approx(3 * scale)
    assert white.width == pytest.approx(2.5 * scale)
    assert [words.text for words in shapes(figure, Words)] == ["cat, raw, cross, layer 1"] * 2


def test_a_large_picture_is_smaller_within_a_figure():
    look = read_attention(looked(mapped(RNG.random((1, 1, 6)))))
    image = {"width": 2400, "height": 1600, "orientation": 1}
    large = read_attention({**look.json, "image": {**look.json["image"], **image}})
    (drawn,) = shapes(large.figure(Image.new("RGB", (2400, 1600))), Picture)
    assert drawn.image.size == (1200, 800)
    assert drawn.width == 400
    (whole,) = shapes(alone(PICTURE), Picture)
    assert (whole.width, whole.image) == (12, PICTURE)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(regard.BadInput, match="figure: must be of maps, given attention without any"):
        text_look().figure()
    with pytest.raises(regard.BadInput, match="figure: must have at most 40000 cells"):
        text_look(mapped(np.zeros((1, 201, 200)), "encoder")).figure()


def test_the_other_text_stands_beneath_where_it_has_a_map_too():
    one = text_look(mapped(RNG.random((1, 1, 7)), "encoder"))
    both = read_attention({**one.json, "against": one.json}).figure()
    words = [shape.text for shape in shapes(both, Words)]
    assert "".join(words).count("the␣cat") == 2
    assert [text for text in words if text.startswith(("raw", "the other"))] == [
        "raw, layer 1",
        "the other: raw, layer 1",
    ]
