"""The picture on the page's canvas is the service's png of the same values."""

import numpy as np
import pytest
from PIL import Image

from service.explanations.drawing import Panel, Style, overlay
from service.explanations.scale import count_above, overlay_range
from tests.samples.views_page import View, plain, unpacked

SIDE = (120, 96)  # width, height
BOX = (12.0, 0.0, 108.0, 96.0)
LIMIT = 10**7
PHOTO = {"colormap": "viridis", "opacity": 0.6, "ground": "photo", "scale": "full"}
CASES = {
    "as it comes": ({}, False),
    "as it comes, signed": ({}, True),
    "photo": (PHOTO, False),
    "magma, denser": ({**PHOTO, "colormap": "magma", "opacity": 0.9}, False),
    "gray, fainter, clipped": ({"colormap": "gray", "opacity": 0.3}, False),
    "grey, to the largest": ({"scale": "full"}, False),
    "signed": (PHOTO, True),
}


def photo():
    """Return a picture with detail of every size and colour, (height, width, 3)."""
    width, height = SIDE
    y, x = np.mgrid[:height, :width]
    noise = np.random.default_rng(0).integers(0, 12, (height, width, 3))
    waves = np.stack([np.sin(x / 9) + np.cos(y / 5), np.sin((x + y) / 14) * 2, np.cos(x * y / 900) * 2], 2)
    return (107 + 50 * waves + noise).clip(0, 255).astype(np.uint8)


def cells(*, signed, rows=6, columns=8):
    """Return values of which few are large, as attention's are."""
    values = np.random.default_rng(1).random((rows, columns)) ** 3
    return ((values - 0.2) if signed else values + 0.05).astype(np.float32)


def props(values, style, *, signed, box=BOX):
    """Return what the page's component is given for a style of the service."""
    style, (width, height) = Style(**style), SIDE
    pixels = np.dstack([photo(), np.full((height, width), 255, np.uint8)])
    top = overlay_range(values.astype(float), signed=signed, scale=style.scale).high
    edges = dict(zip(("left", "top", "right", "bottom"), box, strict=True))
    return {
        "image": {"width": width, "height": height, "orientation": 1, "box": edges},
        "source": {"width": width, "height": height, "pixels": pixels},
        "cells": values, "rows": values.shape[0], "columns": values.shape[1], "top": float(top),
        "low": float(values.min()), "signed": signed, "smooth": True,
        "colormap": style.colormap, "opacity": style.opacity, "grey": style.ground == "grey",
    }  # fmt: skip


def drawn(view: View, given, size):
    """Return what the page's function draws on a canvas of this size, (height, width, 3)."""
    code = """([props, width, height]) => {
      const canvas = Object.assign(document.createElement('canvas'), { width, height })
      views.drawPicture(canvas, views.live(props))
      return packed(canvas.getContext('2d').getImageData(0, 0, width, height).data) }"""
    data = unpacked(view.page.evaluate(code, [plain(given), *size]))
    return data.reshape(size[1], size[0], 4)[:, :, :3].astype(float)


def png(values, style, *, signed, box=BOX, width=None):
    panel = Panel("", values, signed)
    return np.asarray(overlay(Image.fromarray(photo()), box, [panel], Style(**style), LIMIT, width), float)


@pytest.mark.parametrize(("style", "signed"), CASES.values(), ids=CASES)
def test_the_canvas_is_the_services_png(view, style, signed):
    values = cells(signed=signed, rows=12, columns=16)  # of which some are above the end of the colours
    ours, theirs = drawn(view, props(values, style, signed=signed), SIDE), png(values, style, signed=signed)
    assert np.abs(png(values * 0, style, signed=signed) - theirs).mean() > 3, "the heat is seen"
    assert np.abs(ours - theirs).mean() < 1
    assert np.abs(ours - theirs).max() <= 4


def test_a_box_between_pixels_that_reaches_beyond_the_image_is_drawn_where_the_service_draws_it(view):
    box = (-10.4, 8.3, 90.7, 103.5)
    values = cells(signed=False)
    frame = (-10.4, 0, 120, 103.5)  # what the page shows: from the box's left to its bottom
    size = round(4 * (frame[2] - frame[0])), round(4 * (frame[3] - frame[1]))
    large = drawn(view, props(values, PHOTO, signed=False, box=box), size)
    left, top = round(-frame[0] * 4), 0
    ours = large[top : top + 4 * SIDE[1], left : left + 4 * SIDE[0]]
    ours = ours.reshape(SIDE[1], 4, SIDE[0], 4, 3).mean((1, 3))  # four pixels of the canvas for one of the image
    theirs = png(values, PHOTO, signed=False, box=box)
    assert np.abs(ours - theirs).mean() < 2


def test_the_component_draws_the_same_picture_at_the_screens_size(view):
    values = cells(signed=False)
    view.page.set_viewport_size({"width": 4 * SIDE[0] + 32, "height": 800})
    view.show("Picture", label="heat", **props(values, PHOTO, signed=False))
    shown = view.pixels()
    assert shown.shape[:2] == (4 * SIDE[1], 4 * SIDE[0])
    theirs = png(values, PHOTO, signed=False, width=4 * SIDE[0])
    assert np.abs(shown[:, :, :3] - theirs).mean() < 2
    without = {**props(values, PHOTO, signed=False), "low": None}  # the least of the cells then
    view.show("Picture", label="heat", **without)
    assert (view.pixels() == shown).all()


def test_where_a_value_is_least_the_image_is_unchanged(view):
    values = cells(signed=False)
    values[:] = values.min()
    values[2, 3] += 1
    ours = drawn(view, props(values, PHOTO, signed=False), SIDE)
    assert (ours[80:, 60:] == photo()[80:, 60:]).all()
    assert np.abs(ours[32:48, 48:60] - photo()[32:48, 48:60]).mean() > 15


def test_without_smoothing_each_cell_has_one_level(view):
    values = cells(signed=False)
    given = {**props(values, {**PHOTO, "colormap": "gray", "opacity": 1}, signed=False), "smooth": False}
    black = {**given["source"], "pixels": np.full((SIDE[1], SIDE[0], 4), (0, 0, 0, 255), np.uint8)}
    ours = drawn(view, {**given, "source": black}, SIDE)[:, 12:108, 0]
    blocks = ours.reshape(6, 16, 8, 12)
    assert np.ptp(blocks, (1, 3)).max() == 0
    level = np.floor(255 * (values - values.min()) / np.ptp(values) + 0.5)
    assert np.abs(blocks[:, 0, :, 0] - level**2 / 255).max() <= 1.5


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("signed", [False, True])
def test_colours_end_where_the_services_end(view, seed, signed):
    values = np.random.default_rng(seed).exponential(size=16 * 16) ** (1 + seed)
    values = (values - signed * values.mean()).astype(np.float32)
    code = "([values, signed]) => views.scaleOf(views.floats(values), signed, false)"
    found = view.page.evaluate(code, [plain(values), signed])
    within = overlay_range(values.astype(float), signed=signed)
    most = (np.abs(values) if signed else values).max()
    assert found == {"top": within.high, "above": count_above(values.astype(float), within), "most": most}
