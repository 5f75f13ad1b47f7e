"""Curves as a picture: lines where the numbers are, in the colours of the methods."""

import itertools
import typing

import numpy as np
import pytest
from PIL import Image

from contract.manifest import STATE_METHODS, Method
from service.errors import TooLarge
from service.explanations import curves
from service.explanations.curves import COLOURS, LEFT, PLOT, TOP, axis_range, draw, picture_size
from service.explanations.evaluation import CURVE_NAMES, FRACTIONS, Evaluation, Score

LIMIT = 10**7
METHODS = [method for method in typing.get_args(Method) if method not in STATE_METHODS]


def evaluation(found, label="7", measure="probability", *, parts="patches"):
    return Evaluation(Score(measure, label, {"target": 7}), parts, found, len(found) > 2, 5)


def falling(offset, names=CURVE_NAMES):
    curve = np.clip(0.95 - offset - 0.6 * FRACTIONS, 0, 1)
    return {name: curve if name == "deletion" else curve[::-1] for name in names}


def pixels(image):
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


def rgb(text):
    return np.array(list(bytes.fromhex(text[1:])))


def near(picture, colour, within=40):
    """Return where a picture has about that colour."""
    return np.abs(picture - rgb(colour)).max(axis=2) <= within


def places(chart, values, low=0.0, high=1.0, charts=2):
    """Return the pixels (row, column) of the points of a curve in one of the charts."""
    width = picture_size(charts, 2)[0] // charts
    x = chart * width + LEFT + PLOT[0] * FRACTIONS
    y = TOP + PLOT[1] * (high - np.asarray(values)) / (high - low)
    return [(round(row), round(column)) for row, column in zip(y, x, strict=True)]


def test_every_method_has_a_colour_of_its_own():
    assert COLOURS.keys() == set(METHODS)
    colours = np.array([rgb(colour) for colour in [*COLOURS.values(), curves.RANDOM_COLOUR, curves.PAPER]])
    apart = np.abs(colours[:, None] - colours[None]).max(axis=2) + 255 * np.eye(len(colours), dtype=int)
    assert apart.min() >= 40


@pytest.mark.parametrize("method", METHODS)
def test_a_line_goes_through_its_points_in_both_charts(method):
    found = {method: falling(0.0), "random": falling(0.3)}
    picture = pixels(draw(evaluation(found), LIMIT))
    assert picture.shape[1::-1] == picture_size(2, 2)
    there = near(picture, COLOURS[method], 60)
    for chart, name in enumerate(CURVE_NAMES):
        own = places(chart, found[method][name])
        for row, column in own:
            assert there[row - 1 : row + 2, column - 1 : column + 2].any(), (name, row, column)
        for (row, column), (to_row, to_column) in itertools.pairwise(own):
            middle = (row + to_row) // 2, (column + to_column) // 2
            assert there[middle[0] - 1 : middle[0] + 2, middle[1] - 1 : middle[1] + 2].any(), "no gap between points"
        assert there[TOP : TOP + PLOT[1]].any()
    edge = 3  # pixels of the frame
    plot = picture[TOP + edge : TOP + PLOT[1] - edge, LEFT + edge : LEFT + PLOT[0] - edge]
    rows, columns = np.nonzero(near(plot, COLOURS[method], 40))
    rows, columns = rows + edge, columns + edge
    expected = PLOT[1] * (1 - np.interp(columns / PLOT[0], FRACTIONS, found[method]["deletion"]))
    assert np.abs(rows - expected).max() < 6, "and nowhere else"


def test_the_random_order_is_dashed():
    level = {"deletion": np.full(11, 0.5)}
    picture = pixels(draw(evaluation({"raw": {"deletion": np.full(11, 0.9)}, "random": level}), LIMIT))
    row, _ = places(0, level["deletion"], charts=1)[0]
    dark = picture[row - 1 : row + 2, LEFT + 2 : LEFT + PLOT[0] - 2].min(axis=(0, 2)) < 190
    changes = np.flatnonzero(np.diff(dark.astype(int)))
    assert 0.35 < dark.mean() < 0.65
    assert len(changes) == pytest.approx(PLOT[0] / curves.DASH, abs=4)
    assert np.diff(changes).max() <= curves.DASH + 2, "dashes of one length"


def test_a_comparison_has_all_lines_and_its_legend_says_whose_they_are():
    found = {method: falling(0.12 * index) for index, method in enumerate(METHODS)} | {"random": falling(0.05)}
    picture = pixels(draw(evaluation(found), LIMIT))
    assert picture.shape[1::-1] == picture_size(2, 8)
    below = TOP + PLOT[1] + curves.BELOW
    for index, method in enumerate(METHODS):
        beside = picture[below + index * curves.ROW : below + (index + 1) * curves.ROW, LEFT : LEFT + 30]
        assert near(beside, COLOURS[method], 30).any()
        for other in set(METHODS) - {method}:
            assert not near(beside, COLOURS[other], 10).any()


def test_the_picture_of_one_curve_is_half_as_wide():
    found = {"raw": falling(0, ("insertion",)), "random": falling(0.2, ("insertion",))}
    picture = pixels(draw(evaluation(found), LIMIT))
    assert picture.shape[1::-1] == picture_size(1, 2)
    assert picture_size(1, 2)[0] * 2 == picture_size(2, 2)[0]


def test_areas_and_labels_are_written():
    one = falling(0.1)
    base = draw(evaluation({"raw": one, "random": falling(0.3)}), LIMIT)
    assert draw(evaluation({"raw": one, "random": falling(0.3)}), LIMIT) == base
    for changed in (
        evaluation({"norm": one, "random": falling(0.3)}),
        evaluation({"raw": one, "random": falling(0.3)}, label="1"),
        evaluation({"raw": one, "random": falling(0.3)}, measure="cosine"),
        evaluation({"raw": one, "random": falling(0.3)}, parts="tokens"),
    ):
        assert draw(changed, LIMIT) != base
    legends = [
        pixels(draw(evaluation({"raw": own, "random": falling(0.3)}), LIMIT))[TOP + PLOT[1] + curves.BELOW :]
        for own in (one, falling(0.101))
    ]
    assert (legends[0] != legends[1]).any(), "another area"


@pytest.mark.parametrize("label", ["", " ", "漢字", "\x00", "a\nb", "W" * 500, "\u202e", "😀 and more"])
def test_any_label_stays_within_its_chart(label):
    found = {"raw": falling(0), "random": falling(0.3)}
    picture = pixels(draw(evaluation(found, label), LIMIT))
    width = picture.shape[1] // 2
    for edge in (picture[:2], picture[-2:], picture[:, :2], picture[:, -2:], picture[:TOP, width - 20 : width + 20]):
        assert edge.min() > 245


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        (0.0, 1.0, (0, 1)),
        (0.2, 0.6, (0, 1)),
        (-0.3, 1.0, (-0.3, 1.2)),
        (-1.0, 1.0, (-1, 1.5)),
        (0.0, 4.1, (0, 5)),
        (-12.0, 30.0, (-20, 30)),
        (-1e5, 1e4, (-1.2e5, 3e4)),
        (0, 1.0000001, (0, 1.5)),
    ],
)
def test_an_axis_goes_from_0_to_1_or_as_far_as_a_curve_does_in_round_numbers(least, most, expected):
    found = {"raw": {"deletion": np.linspace(most, least, 11)}, "random": {"deletion": np.full(11, most)}}
    low, high = axis_range(found)
    assert (low, high) == pytest.approx(expected)
    assert low <= least
    assert high >= most


def test_a_curve_below_zero_is_drawn_where_its_numbers_say():
    values = np.linspace(1, -0.3, 11)
    found = {"libra": {"deletion": values}, "random": {"deletion": np.full(11, 0.9)}}
    there = near(pixels(draw(evaluation(found, measure="cosine"), LIMIT)), COLOURS["libra"], 60)
    for row, column in places(0, values, *axis_range(found), charts=1):
        assert there[row - 1 : row + 2, column - 1 : column + 2].any()


@pytest.mark.parametrize("width", [64, 300, 839, 840, 1300])
@pytest.mark.parametrize("names", [CURVE_NAMES, CURVE_NAMES[:1]])
def test_a_picture_of_a_width_has_its_charts_below_one_another_where_they_would_be_small(width, names):
    found = {"libra": falling(0.0, names), "random": falling(0.3, names)}
    picture = draw(evaluation(found), LIMIT, width)
    assert picture.size == picture_size(len(names), 2, width)
    assert picture.width == width
    stacked = width < len(names) * curves.CHART_WIDTH
    factor = width / (curves.CHART_WIDTH * (1 if stacked else len(names)))
    if factor < 0.5:
        return
    there = near(pixels(picture), COLOURS["libra"], 60)
    for index, name in enumerate(names):
        left, top = (0, index * picture.height / factor / len(names)) if stacked else (index * curves.CHART_WIDTH, 0)
        for fraction, value in zip(FRACTIONS, found["libra"][name], strict=True):
            column = round((left + LEFT + PLOT[0] * fraction) * factor)
            row = round((top + TOP + PLOT[1] * (1 - value)) * factor)
            assert there[row - 2 : row + 3, column - 2 : column + 3].any()


def test_too_large_a_picture_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(Image, "new", lambda *_, **__: pytest.fail("it was"))
    width, height = picture_size(2, 2)
    with pytest.raises(
        TooLarge, match=rf"^png: at most {width * height - 1} pixels, this one would have {width} x {height}; "
    ):
        draw(evaluation({"raw": falling(0), "random": falling(0.3)}), width * height - 1)
