"""The picture and its scale: where it lies, what pointer and keys do, and what is drawn anew."""

import numpy as np
import pytest

from service.explanations.colormaps import COLORMAPS, SIGNED
from tests.samples.browser import chromium
from tests.samples.views_page import static_server, view_in

WIDE, HIGH = 80, 60  # pixels of the image
ROWS, COLUMNS = 3, 4
CELLS = np.array([[0.1, 0.9, 0.2, 0.05], [0.4, 0.3, 0.7, 0.1], [0.2, 0.05, 0.15, 0.6]], np.float32)


@pytest.fixture(scope="module")
def opened():
    with chromium() as browser, static_server() as address, view_in(browser, address) as view:
        yield view


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
    for one in view.page.locator(f".mark.{name}").all():
        box = one.bounding_box()
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
def test_the_frame_is_the_box_with_half_its_size_around_it(opened, box, frame):
    found = opened.call("frameOf", image(*box))
    assert found == dict(zip(("left", "top", "width", "height"), frame, strict=True))
    cells = shown(opened, image=image(*box)).bounding_box()
    outer = opened.page.locator(".picture").bounding_box()
    scale = outer["width"] / frame[2]
    assert cells["x"] - outer["x"] == pytest.approx((box[0] - frame[0]) * scale, abs=0.5)
    assert cells["width"] == pytest.approx((box[2] - box[0]) * scale, abs=0.5)
    assert cells["height"] == pytest.approx((box[3] - box[1]) * scale, abs=0.5)


def test_hovering_previews_and_draws_nothing_anew(opened):
    shown(opened, query=1)
    opened.page.evaluate("""() => {
      views.draws = 0
      const old = CanvasRenderingContext2D.prototype.drawImage
      CanvasRenderingContext2D.prototype.drawImage = function (...all) {
        views.draws++
        return old.apply(this, all)
      } }""")
    for cell in (6, 11, 0):
        opened.page.mouse.move(*middle(opened, cell))
        opened.settle()
        assert opened.last("onHover") == cell
        assert marks(opened, "hovered") == [cell]
    assert marks(opened, "query") == [1]
    opened.page.mouse.move(1, 1)
    opened.settle()
    assert opened.log() == [("onHover", None)]
    assert marks(opened, "hovered") == []
    opened.page.evaluate("show('Picture', { ...views.props, cells: views.props.cells.slice() })")
    opened.settle()
    assert opened.page.evaluate("views.draws") == 0, "the same values, in another array"
    opened.page.evaluate("show('Picture', { ...views.props, cells: views.props.cells.map((one) => one / 2) })")
    opened.settle()
    assert opened.page.evaluate("views.draws") > 0


def test_a_click_picks_and_keys_do_the_same(opened):
    cells = shown(opened)
    opened.page.mouse.click(*middle(opened, 6))
    opened.settle()
    assert ("onPick", 6) in opened.log()
    assert marks(opened, "query") == [6]
    shown(opened)
    cells.focus()
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("ArrowDown")
    opened.page.keyboard.press("ArrowDown")
    opened.page.keyboard.press("ArrowDown")  # not beyond the last row
    opened.settle()
    assert [value for _, value in opened.log()] == [1, 5, 9, 9]
    assert marks(opened, "hovered") == [9]
    opened.page.keyboard.press("Enter")
    assert opened.last("onPick") == 9
    opened.page.keyboard.press("Escape")
    opened.settle()
    assert opened.last("onPick") is None
    assert marks(opened, "query") == []


def test_a_rectangle_dragged_with_shift_is_covered_and_uncovered(opened):
    shown(opened, covered=[11])

    def drag(start, end):
        opened.page.keyboard.down("Shift")
        opened.page.mouse.move(*middle(opened, start))
        opened.page.mouse.down()
        opened.page.mouse.move(*middle(opened, end), steps=4)
        opened.settle()
        seen = marks(opened, "covered")
        opened.page.mouse.up()
        opened.page.keyboard.up("Shift")
        opened.settle()
        return seen

    assert sorted(drag(6, 1)) == [1, 2, 5, 6, 11], "it is seen before the pointer is lifted"
    log = opened.log()
    assert ("onCover", [1, 2, 5, 6, 11]) in log
    assert "onPick" not in dict(log), "a drag is no click"
    assert sorted(marks(opened, "covered")) == [1, 2, 5, 6, 11]
    drag(2, 1)
    assert opened.last("onCover") == [5, 6, 11]


def test_without_shift_nothing_is_covered_unless_the_caller_says_so(opened):
    def drag():
        opened.page.mouse.move(*middle(opened, 0))
        opened.page.mouse.down()
        opened.page.mouse.move(*middle(opened, 1), steps=3)
        opened.page.mouse.up()
        opened.settle()
        return dict(opened.log())

    shown(opened)
    assert "onCover" not in drag()
    shown(opened, covering=True)
    log = drag()
    assert log["onCover"] == [0, 1]
    assert "onPick" not in log


def test_the_key_c_covers_the_hovered_cell_and_uncovers_it(opened):
    shown(opened, covered=[3]).focus()
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("c")
    assert opened.last("onCover") == [1, 3]
    opened.page.keyboard.press("c")
    assert opened.last("onCover") == [3]


def test_the_canvas_has_the_screens_pixels(opened):
    browser = opened.page.context.browser
    with view_in(browser, opened.page.url, device_scale_factor=2, viewport={"width": 390, "height": 700}) as view:
        shown(view)
        width = view.page.locator(".picture").bounding_box()["width"]
        assert width == pytest.approx(390 - 32, abs=1)
        assert view.pixels().shape[1] == round(2 * width)
        view.page.set_viewport_size({"width": 300, "height": 700})
        view.settle()
        width = view.page.locator(".picture").bounding_box()["width"]
        assert view.pixels().shape[1] == round(2 * width)


def test_values_of_both_signs_are_two_colours_and_zero_is_none(opened):
    signed = np.zeros((ROWS, COLUMNS), np.float32)
    signed[0, 0], signed[2, 3] = 0.5, -0.5
    white = np.full((HIGH, WIDE, 4), 255, np.uint8)
    shown(opened, cells=signed, top=0.5, signed=True, smooth=False, opacity=1,
          source={"width": WIDE, "height": HIGH, "pixels": white})  # fmt: skip
    pixels = opened.pixels()[:, :, :3].astype(int)
    height, width = pixels.shape[:2]
    at = lambda row, column: pixels[int((row + 0.5) * height / ROWS), int((column + 0.5) * width / COLUMNS)]  # noqa: E731
    assert at(0, 0).tolist() == [0xE0, 0x3C, 0x28]
    assert at(2, 3).tolist() == [0x1F, 0x77, 0xD0]
    assert at(1, 1).tolist() == [255, 255, 255]


def test_an_image_without_cells_is_shown_as_it_is(opened):
    shown(opened, cells=None)
    pixels = opened.pixels()
    assert pixels[5, 5, :3].tolist() == [40] * 3
    assert pixels[5, -5, :3].tolist() == [255] * 3


def test_it_is_one_stop_with_a_name(opened):
    cells = shown(opened)
    assert cells.get_attribute("aria-label") == "What it looked at"
    assert opened.page.locator("#here [tabindex]").count() == 1
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate("document.activeElement.className") == "cells"


@pytest.mark.parametrize(
    ("given", "table", "numbers"),
    [
        ({"top": 0.8, "signed": False, "colormap": "magma"}, COLORMAPS["magma"], ["0", "0.2", "0.4", "0.6", "0.8"]),
        ({"top": 1, "low": 0.5, "colormap": "gray"}, COLORMAPS["gray"], ["0.5", "0.625", "0.75", "0.875", "1"]),
        ({"top": 2, "signed": True, "colormap": "magma"}, SIGNED, ["-2", "-1", "0", "1", "2"]),
    ],
)
def test_the_scale_says_which_colour_is_which_number(opened, given, table, numbers):
    opened.show("Legend", **given)
    assert opened.page.locator(".legend span").all_inner_texts() == numbers
    strip = opened.pixels()[0, :, :3]
    assert (strip[[0, 255]] == table[[0, -1]]).all()
    assert np.abs(strip[128].astype(int) - table[len(table) // 2]).max() <= 12
    assert numbers[0] in opened.page.locator(".legend").get_attribute("aria-label")
