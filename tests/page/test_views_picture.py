"""The picture and its scale: where it lies, what pointer and keys do, and what is drawn anew."""

import numpy as np
import pytest

from service.explanations.colormaps import COLORMAPS, SIGNED
from tests.samples.views_page import view_in

WIDE, HIGH = 80, 60  # pixels of the image
ROWS, COLUMNS = 3, 4
CELLS = np.array([[0.1, 0.9, 0.2, 0.05], [0.4, 0.3, 0.7, 0.1], [0.2, 0.05, 0.15, 0.6]], np.float32)


def image(left=0, top=0, right=WIDE, bottom=HIGH):
    box = {"left": left, "top": top, "right": right, "bottom": bottom}
    return {"width": WIDE, "height": HIGH, "orientation": 1, "box": box}


def shown(view, **given):
    source = np.full((HIGH, WIDE, 4), 255, np.uint8)
    source[:, : WIDE // 2, :3] = 40
    view.page.mouse.move(0, 0)
    view.page.evaluate("document.activeElement.blur()")
    props = {"image": image(), "source": {"width": WIDE, "height": HIGH, "pixels": source}, "cells": CELLS,
             "rows": ROWS, "columns": COLUMNS, "top": 0.9, "label": "What it looked at", **given}  # fmt: skip
    view.show("Picture", **{"covered": [], **props})
    view.log()
    return view.page.locator(".cells")


def middle(view, cell):
    """Return the place of a cell's middle in the window."""
    box = view.page.locator(".cells").bounding_box()
    row, column = divmod(cell, COLUMNS)
    return box["x"] + (column + 0.5) * box["width"] / COLUMNS, box["y"] + (row + 0.5) * box["height"] / ROWS


def marks(view, name):
    """Return the cells on which marks of a name lie."""
    grid = view.page.locator(".cells").bounding_box()
    found = []
    for mark in view.page.locator(f".mark.{name}").all():
        box = mark.bounding_box()
        column = (box["x"] + box["width"] / 2 - grid["x"]) / grid["width"] * COLUMNS
        row = (box["y"] + box["height"] / 2 - grid["y"]) / grid["height"] * ROWS
        assert box["width"] == pytest.approx(grid["width"] / COLUMNS, abs=0.1)
        found.append(int(row) * COLUMNS + int(column))
    return found


@pytest.mark.parametrize(
    ("box", "frame"),
    [
        ((0, 0, 80, 60), (0, 0, 80, 60)),
        ((30, 20, 50, 40), (20, 10, 40, 40)),  # half its size around it
        ((2, 5, 42, 45), (0, 0, 62, 60)),  # as far as the image reaches
        ((-10, -5, 90, 65), (-10, -5, 100, 70)),  # the box may reach beyond
    ],
)
def test_the_frame_is_the_box_with_half_its_size_around_it(view, box, frame):
    found = view.call("frameOf", image(*box))
    assert found == dict(zip(("left", "top", "width", "height"), frame, strict=True))
    cells = shown(view, image=image(*box)).bounding_box()
    outer = view.page.locator(".picture").bounding_box()
    scale = outer["width"] / frame[2]
    assert cells["x"] - outer["x"] == pytest.approx((box[0] - frame[0]) * scale, abs=0.5)
    assert cells["width"] == pytest.approx((box[2] - box[0]) * scale, abs=0.5)
    assert cells["height"] == pytest.approx((box[3] - box[1]) * scale, abs=0.5)


def test_hovering_previews_and_draws_nothing_anew(view):
    shown(view, query=1)
    view.page.evaluate("""() => {
      views.draws = 0
      const old = CanvasRenderingContext2D.prototype.drawImage
      CanvasRenderingContext2D.prototype.drawImage = function (...all) {
        views.draws++
        return old.apply(this, all)
      } }""")
    for cell in (6, 11, 0):
        view.page.mouse.move(*middle(view, cell))
        view.settle()
        assert view.last("onHover") == cell
        assert marks(view, "hovered") == [cell]
    assert marks(view, "query") == [1]
    view.page.mouse.move(1, 1)
    view.settle()
    assert view.log() == [("onHover", None)]
    assert marks(view, "hovered") == []
    view.page.evaluate("show('Picture', { ...views.props, cells: views.props.cells.slice() })")
    view.settle()
    assert view.page.evaluate("views.draws") == 0, "the same values, in another array"
    view.page.evaluate("show('Picture', { ...views.props, cells: views.props.cells.map((one) => one / 2) })")
    view.settle()
    assert view.page.evaluate("views.draws") > 0


def test_a_click_picks_and_keys_do_the_same(view):
    cells = shown(view)
    view.page.mouse.click(*middle(view, 6))
    view.settle()
    assert ("onPick", 6) in view.log()
    assert marks(view, "query") == [6]
    shown(view)
    cells.focus()
    view.page.keyboard.press("ArrowRight")
    view.page.keyboard.press("ArrowDown")
    view.page.keyboard.press("ArrowDown")
    view.page.keyboard.press("ArrowDown")  # not beyond the last row
    view.settle()
    assert [value for _, value in view.log()] == [1, 5, 9, 9]
    assert marks(view, "hovered") == [9]
    view.page.keyboard.press("Enter")
    assert view.last("onPick") == 9
    view.page.keyboard.press("Escape")
    view.settle()
    assert view.last("onPick") is None
    assert marks(view, "query") == []


def test_a_rectangle_dragged_with_shift_is_covered_and_uncovered(view):
    shown(view, covered=[11])

    def drag(start, end):
        view.page.keyboard.down("Shift")
        view.page.mouse.move(*middle(view, start))
        view.page.mouse.down()
        view.page.mouse.move(*middle(view, end), steps=4)
        view.settle()
        seen = marks(view, "covered")
        view.page.mouse.up()
        view.page.keyboard.up("Shift")
        view.settle()
        return seen

    assert sorted(drag(6, 1)) == [1, 2, 5, 6, 11], "it is seen before the pointer is lifted"
    log = view.log()
    assert ("onCover", [1, 2, 5, 6, 11]) in log
    assert "onPick" not in dict(log), "a drag is no click"
    assert sorted(marks(view, "covered")) == [1, 2, 5, 6, 11]
    drag(2, 1)
    assert view.last("onCover") == [5, 6, 11]


def test_without_shift_nothing_is_covered_unless_the_caller_says_so(view):
    def drag():
        view.page.mouse.move(*middle(view, 0))
        view.page.mouse.down()
        view.page.mouse.move(*middle(view, 1), steps=3)
        view.page.mouse.up()
        view.settle()
        return dict(view.log())

    shown(view)
    assert "onCover" not in drag()
    shown(view, covering=True)
    log = drag()
    assert log["onCover"] == [0, 1]
    assert "onPick" not in log


def test_the_key_c_covers_the_hovered_cell_and_uncovers_it(view):
    shown(view, covered=[3]).focus()
    view.page.keyboard.press("ArrowRight")
    view.page.keyboard.press("c")
    assert view.last("onCover") == [1, 3]
    view.page.keyboard.press("c")
    assert view.last("onCover") == [3]


def test_the_canvas_has_the_screens_pixels(view):
    browser = view.page.context.browser
    with view_in(browser, view.page.url, device_scale_factor=2, viewport={"width": 390, "height": 700}) as dense:
        shown(dense)
        width = dense.page.locator(".picture").bounding_box()["width"]
        assert width == pytest.approx(390 - 32, abs=1)
        assert dense.pixels().shape[1] == round(2 * width)
        dense.page.set_viewport_size({"width": 300, "height": 700})
        dense.settle()
        width = dense.page.locator(".picture").bounding_box()["width"]
        assert dense.pixels().shape[1] == round(2 * width)


def test_values_of_both_signs_are_two_colours_and_zero_is_none(view):
    signed = np.zeros((ROWS, COLUMNS), np.float32)
    signed[0, 0], signed[2, 3] = 0.5, -0.5
    white = np.full((HIGH, WIDE, 4), 255, np.uint8)
    shown(view, cells=signed, top=0.5, signed=True, smooth=False, opacity=1, grey=False,
          source={"width": WIDE, "height": HIGH, "pixels": white})  # fmt: skip
    pixels = view.pixels()[:, :, :3].astype(int)
    height, width = pixels.shape[:2]
    at = lambda row, column: pixels[int((row + 0.5) * height / ROWS), int((column + 0.5) * width / COLUMNS)]  # noqa: E731
    assert at(0, 0).tolist() == [0xE0, 0x3C, 0x28]
    assert at(2, 3).tolist() == [0x1F, 0x77, 0xD0]
    assert at(1, 1).tolist() == [255, 255, 255]


def test_an_image_without_cells_is_shown_as_it_is(view):
    shown(view, cells=None)
    pixels = view.pixels()
    assert pixels[5, 5, :3].tolist() == [40] * 3
    assert pixels[5, -5, :3].tolist() == [255] * 3


def test_it_is_one_stop_with_a_name(view):
    cells = shown(view)
    assert cells.get_attribute("aria-label") == "What it looked at"
    assert view.page.locator("#here [tabindex]").count() == 1
    view.page.keyboard.press("Tab")
    assert view.page.evaluate("document.activeElement.className") == "cells"


@pytest.mark.parametrize(
    ("given", "table", "numbers"),
    [
        ({"top": 0.8, "signed": False, "colormap": "magma"}, COLORMAPS["magma"], ["0", "0.2", "0.4", "0.6", "0.8"]),
        ({"top": 1, "low": 0.5, "colormap": "gray"}, COLORMAPS["gray"], ["0.5", "0.625", "0.75", "0.875", "1"]),
        ({"top": 2, "signed": True, "colormap": "magma"}, SIGNED, ["-2", "-1", "0", "1", "2"]),
    ],
)
def test_the_scale_says_which_colour_is_which_number(view, given, table, numbers):
    view.show("Legend", **given)
    assert view.page.locator(".legend span").all_inner_texts() == numbers
    strip = view.pixels()[0, :, :3]
    assert (strip[[0, 255]] == table[[0, -1]]).all()
    assert np.abs(strip[128].astype(int) - table[len(table) // 2]).max() <= 12
    assert numbers[0] in view.page.locator(".legend").get_attribute("aria-label")
