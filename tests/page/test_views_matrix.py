"""The matrix on one canvas, and the curves of an evaluation."""

import re

import numpy as np
import pytest

from service.explanations.colormaps import COLORMAPS, SIGNED


def tokens(count, name="w"):
    return [{"text": f"{name}{at} ", "span": [at, at + 1], "special": False} for at in range(count)]


def values(rows, columns):
    return (np.random.default_rng(7).random((rows, columns)) ** 4).astype(np.float32)


def shown(view, rows=5, columns=7, given=None, **more):
    view.page.mouse.move(0, 0)
    view.page.evaluate("document.activeElement.blur()")
    given = values(rows, columns) if given is None else given
    props = {"top": float(np.abs(given).max()), "label": "Matrix of attention", **more}
    view.show("Matrix", rows=tokens(rows, "q"), columns=tokens(columns, "k"), values=given, **props)
    view.log()
    return given


def point(view, row, column, rows=5, columns=7):
    box = view.page.locator(".matrix canvas").bounding_box()
    return box["x"] + (column + 0.5) * box["width"] / columns, box["y"] + (row + 0.5) * box["height"] / rows


def test_each_cell_has_the_colour_of_its_value(view):
    given = shown(view, colormap="magma")
    found = view.pixels()
    assert found.shape[:2] == (5, 7)
    levels = np.floor(255 * given / given.max() + 0.5).astype(int)
    assert np.abs(found[:, :, :3] - COLORMAPS["magma"][levels].astype(int)).max() <= 6
    half = shown(view, colormap="magma", top=2 * float(given.max()))
    levels = np.floor(255 * half / 2 / half.max() + 0.5).astype(int)
    assert np.abs(view.pixels()[:, :, :3] - COLORMAPS["magma"][levels].astype(int)).max() <= 6


def test_signed_values_are_white_at_zero(view):
    given = np.array([[0.5, -0.5, 0]], np.float32)
    shown(view, 1, 3, given, signed=True)
    assert (view.pixels()[0, :, :3] == SIGNED[[254, 0, 127]]).all()


def test_few_tokens_have_labels_and_square_cells(view):
    shown(view)
    assert view.page.locator(".matrix-rows span").all_inner_texts() == [f"q{at}␣" for at in range(5)]
    assert view.page.locator(".matrix-columns span").count() == 7
    box = view.page.locator(".matrix canvas").bounding_box()
    assert (box["width"], box["height"]) == (7 * 28, 5 * 28)
    for at, one in enumerate(view.page.locator(".matrix-rows span").all()):
        label = one.bounding_box()
        assert label["y"] == pytest.approx(box["y"] + at * 28, abs=1), "a label is beside its row"
    first = view.page.locator(".matrix-columns span").nth(3).bounding_box()
    assert first["x"] == pytest.approx(box["x"] + 3 * 28, abs=1)
    assert first["height"] > 24, "labels of several characters are turned"
    letters = [{**one, "text": one["text"][0]} for one in tokens(7)]
    view.page.evaluate("(columns) => show('Matrix', { ...views.props, columns })", letters)
    view.settle()
    assert view.page.locator(".matrix-columns span").nth(3).bounding_box()["height"] < 24


def test_many_tokens_are_whole_pixels_that_scroll_in_their_box(view):
    shown(view, 1000, 1000)
    assert view.pixels().shape[:2] == (1000, 1000)
    assert view.page.locator(".matrix span").count() == 0
    box = view.page.locator(".matrix canvas").bounding_box()
    assert box["width"] == box["height"] == 1000
    assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert view.page.evaluate("document.querySelector('.matrix').scrollWidth") >= 1000


@pytest.mark.parametrize(
    ("width", "columns", "density", "cell", "labelled"),
    [
        (900, 7, 1, 28, True),
        (900, 40, 1, 21, True),
        (900, 100, 1, 12, True),  # 8 would fit: it scrolls for its labels
        (900, 120, 1, 7, False),
        (900, 480, 1, 1, False),
        (900, 600, 2, 1.5, False),
        (900, 5000, 1, 1, False),
    ],
)
def test_a_cell_is_whole_pixels_of_the_screen(view, width, columns, density, cell, labelled):
    found = view.call("cellOf", width, columns, 50, density)
    assert found == {"cell": cell, "labelled": labelled}


def test_a_few_long_rows_have_labels_and_scroll(view):
    assert view.call("cellOf", 300, 200, 50, 1, 4) == {"cell": 12, "labelled": True}
    assert view.call("cellOf", 300, 200, 50, 1, 5) == {"cell": 1, "labelled": False}


def test_hover_previews_click_pins_and_nothing_is_painted_anew(view):
    shown(view, pinned={"row": 4, "column": None})
    view.page.evaluate("""() => {
      views.painted = 0
      const old = CanvasRenderingContext2D.prototype.putImageData
      CanvasRenderingContext2D.prototype.putImageData = function (...all) {
        views.painted++
        return old.apply(this, all)
      } }""")
    view.page.mouse.move(*point(view, 2, 3))
    view.settle()
    assert view.last("onHover") == {"row": 2, "column": 3}
    mark = view.page.locator(".mark.hovered:not(.line)").bounding_box()
    assert (mark["x"] + 14, mark["y"] + 14) == pytest.approx(point(view, 2, 3), abs=1)
    assert view.page.locator(".mark.pinned").count() == 1, "of a row alone, its band"
    view.page.mouse.click(*point(view, 1, 6))
    assert view.last("onPick") == {"row": 1, "column": 6}
    view.page.mouse.move(1, 1)
    view.settle()
    assert view.last("onHover") is None
    assert view.page.locator(".mark.hovered").count() == 0
    assert view.page.locator(".mark.pinned").count() == 2
    again = "() => show('Matrix', { ...views.props, rows: [...views.props.rows], values: views.props.values.slice() })"
    view.page.evaluate(again)
    view.settle()
    assert view.page.evaluate("views.painted") == 0


def test_it_is_one_stop_and_arrow_keys_move_and_scroll(view):
    shown(view, 1000, 1000)
    assert view.page.locator("#here [tabindex]").count() == 1
    view.page.keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp"):
        view.page.keyboard.press(key)
    assert view.last("onHover") == {"row": 0, "column": 2}
    view.page.evaluate("views.props.onHover({ row: 900, column: 990 })")
    view.page.keyboard.press("ArrowRight")
    view.settle()
    box, mark = (view.page.locator(one).bounding_box() for one in (".matrix", ".mark.hovered:not(.line)"))
    assert box["x"] < mark["x"] < box["x"] + box["width"]
    assert box["y"] < mark["y"] < box["y"] + box["height"], "the cell is scrolled into its box"
    view.page.keyboard.press("Enter")
    assert view.last("onPick") == {"row": 900, "column": 991}
    view.page.keyboard.press("Escape")
    assert view.last("onPick") is None


# Curves

FRACTIONS = [round(0.1 * at, 1) for at in range(11)]


def evaluation(deletion, insertion, random=0.5):
    def curve(name, probabilities, area):
        chance = {"seed": 0, "probabilities": [random] * 11, "area": random}
        return {"name": name, "probabilities": probabilities, "area": area, "random": chance}

    return {"target": 7, "measure": "probability", "fractions": FRACTIONS,
            "curves": [curve("deletion", deletion, 0.21), curve("insertion", insertion, 0.4)]}  # fmt: skip


def points(view, selector):
    path = view.page.locator(selector).get_attribute("d")
    return np.array(re.findall(r"[\d.]+", path), float).reshape(-1, 2)


def test_curves_lie_on_their_axes_and_areas_are_said(view):
    falling = [round(1 - fraction**0.5, 3) for fraction in FRACTIONS]
    view.show("Curves", evaluation=evaluation(falling, FRACTIONS), label="7")
    found = points(view, ".deletion path.own")
    left, right, bottom, top = 44, 300, 170, 10
    assert np.abs(found[:, 0] - (left + np.array(FRACTIONS) * (right - left))).max() <= 0.06
    assert np.abs(found[:, 1] - (bottom - np.array(falling) * (bottom - top))).max() <= 0.06
    assert np.abs(points(view, ".insertion path.random")[:, 1] - 90).max() <= 0.06
    ticks = view.page.locator(".deletion .tick text").all_text_contents()
    assert ticks == ["0", "0.25", "0.5", "0.75", "1", "0%", "25%", "50%", "75%", "100%"]
    said = view.page.locator(".deletion figcaption").inner_text()
    assert said.startswith("Deletion: the probability of “7” as patches are taken away")
    assert "Area 0.21, in random order (dashed) 0.5; less is better, so the map is better than a random" in said
    said = view.page.locator(".insertion figcaption").inner_text()
    assert "Area 0.4, in random order (dashed) 0.5; more is better, so the map is worse than a random" in said


@pytest.mark.parametrize(
    ("values", "area", "said"),
    [
        ([0.99] * 10 + [0.98], 0.999, "no difference, since it hardly depends on these patches."),
        ([1, 0.2] * 5 + [0], 0.497, "no difference."),
        ([1, 0.2] * 5 + [0], 0.45, "less is better, so the map is better than a random order."),
    ],
)
def test_no_map_is_better_by_less_than_a_random_order_varies(view, values, area, said):
    random = values[0] if area > 0.9 else 0.5
    shown = evaluation(values, values, random)
    shown["curves"][0]["area"] = area
    view.show("Curves", evaluation=shown, label="7")
    assert view.page.locator(".deletion figcaption").inner_text().endswith(said)


@pytest.mark.parametrize(
    ("numbers", "ticks"),
    [
        ([0.2, 0.9], [0, 0.25, 0.5, 0.75, 1]),
        ([-0.3, 0.8], [-0.4, 0, 0.4, 0.8, 1.2]),
        ([2, 11.7], [0, 3, 6, 9, 12]),
    ],
)
def test_axes_are_those_of_the_services_picture(view, numbers, ticks):
    assert view.page.evaluate("(numbers) => views.ticksOf(numbers)", numbers) == pytest.approx(ticks)
