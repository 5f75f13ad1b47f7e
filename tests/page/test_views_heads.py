"""Every head of every layer as a thumbnail: what each shows, in which order, and how one is chosen."""

import math
import re

import numpy as np
import pytest

from service.explanations.colormaps import COLORMAPS, SIGNED
from tests.samples.views_page import view_in

LAYERS, HEADS, TOKENS = 3, 4, 6
VIRIDIS = COLORMAPS["viridis"].astype(int)


def weights(tokens=TOKENS):
    """Return weights of heads that differ in how sharp they are, (layers, heads, tokens, tokens)."""
    sharpness = np.random.default_rng(2).permutation(np.linspace(0.5, 5, LAYERS * HEADS)).reshape(LAYERS, HEADS, 1, 1)
    sharp = np.exp(sharpness * np.random.default_rng(1).normal(size=(LAYERS, HEADS, tokens, tokens)))
    return (sharp / sharp.sum(-1, keepdims=True)).astype(np.float32)


def maps(values, **more):
    shape = list(values.shape[1:])
    return [{"shape": shape, "values": one, "layer": layer, "normalized": True, "heads": "all", **more}
            for layer, one in enumerate(values)]  # fmt: skip


def shown(view, values, **given):
    more = {"signed": True} if given.pop("signed", False) else {}
    props = {"chosen": {"layer": 1, "head": 2}, "grid": None, "order": "index", **given}
    view.page.evaluate("document.activeElement.blur()")
    view.show("HeadGrid", maps=maps(values, **more), **props)
    view.log()


def levels(values, top):
    return np.floor(255 * (values / top).clip(0, 1) + 0.5).astype(int)


def names(view):
    return [one.get_attribute("aria-label") for one in view.page.locator(".thumbnail").all()]


def entropies(values):
    shares = np.abs(values.astype(float)) / np.abs(values.astype(float)).sum(-1, keepdims=True)
    return -(shares * np.log(np.where(shares > 0, shares, 1))).sum(-1).mean(-1)


def test_a_table_of_layers_and_heads_shows_each_matrix_on_one_scale(view):
    values = weights()
    shown(view, values)
    assert view.page.locator(".thumbnail").count() == LAYERS * HEADS
    assert view.page.locator("tbody tr").count() == LAYERS
    for layer, head in ((0, 0), (2, 3), (1, 2)):
        found = view.pixels(".heads canvas", layer * HEADS + head)[:, :, :3]
        assert np.abs(found - VIRIDIS[levels(values[layer, head], values.max())]).max() <= 6  # a level beside, at most


def test_each_has_its_own_scale_if_that_is_asked_for(view):
    values = weights()
    shown(view, values, own=True)
    for layer, head in ((0, 1), (2, 0)):
        found = view.pixels(".heads canvas", layer * HEADS + head)[:, :, :3]
        own = values[layer, head]
        assert np.abs(found - VIRIDIS[levels(own, own.max())]).max() <= 6
        assert found.reshape(-1, 3).tolist().count(VIRIDIS[255].tolist()) == 1


def test_of_an_image_a_thumbnail_is_the_picture_of_a_row_without_the_prefix(view):
    values = weights(7)
    rows = {0: values[:, :, 0, 1:], 3: values[:, :, 3, 1:], None: values[:, :, :, 1:].mean(2)}
    for query, expected in rows.items():
        shown(view, values, grid={"rows": 2, "columns": 3}, prefix=1, query=query)
        found = view.pixels(".heads canvas", 5)[:, :, :3]
        assert found.shape == (2, 3, 3)
        assert np.abs(found - VIRIDIS[levels(expected[1, 1].reshape(2, 3), expected.max())]).max() <= 9


def test_signed_maps_have_two_colours(view):
    values = weights() - 0.3
    shown(view, values, signed=True)
    found = view.pixels(".heads canvas", 0)[:, :, :3]
    level = np.floor((values[0, 0] / np.abs(values).max() + 1) * 127 + 0.5).astype(int)
    assert np.abs(found - SIGNED[level].astype(int)).max() <= 9


def test_a_long_text_is_pooled_by_maxima_so_that_no_weight_is_lost(view):
    values = np.full((1, 2, 300, 300), 0.001, np.float32)
    values[0, 1, 123, 200] = 1
    shown(view, values, own=True, chosen={"layer": 0, "head": 0})
    found = view.pixels(".heads canvas", 1)[:, :, :3].astype(int)
    assert found.shape[0] <= 96
    row, column = np.argwhere((found == VIRIDIS[255]).all(-1))[0]
    assert abs(row / found.shape[0] - 123 / 300) < 0.02
    assert abs(column / found.shape[1] - 200 / 300) < 0.02


def test_maps_that_the_service_pooled_are_drawn_as_they_come(view):
    values = weights()
    view.show("HeadGrid", maps=maps(values, pool={"queries": 900, "keys": 900}), chosen=None, grid=None, own=True)
    assert view.pixels(".heads canvas", 0).shape[:2] == (TOKENS, TOKENS)


def test_heads_are_sorted_by_their_entropy_computed_where_it_is_not_given(view):
    values = weights()
    shown(view, values, order="entropy")
    found = entropies(values)
    order = [divmod(int(at), HEADS) for at in found.ravel().argsort()]
    numbers = [f"{float(f'{found[layer, head]:.3g}'):g}" for layer, head in order]
    assert names(view) == [
        f"L{layer} H{head}, {number}: layer {layer}, head {head}, entropy {number}"
        for (layer, head), number in zip(order, numbers, strict=True)
    ]
    assert view.page.locator(".thumbnail small").first.inner_text() == "L{} H{}, {:g}".format(
        *order[0], float(f"{found.min():.3g}")
    )
    for place in (0, 7):
        layer, head = order[place]
        pixels = view.pixels(".heads canvas", place)[:, :, :3]
        assert np.abs(pixels - VIRIDIS[levels(values[layer, head], values.max())]).max() <= 6, "canvases move along"


@pytest.mark.parametrize("order", ["entropy", "distance", "special"])
def test_heads_are_sorted_by_the_services_figures(view, order):
    values = weights()
    figures = {name: np.random.default_rng(at).random((LAYERS, HEADS)).round(3).tolist()
               for at, name in enumerate(("entropy", "distance", "special"))}  # fmt: skip
    shown(view, values, order=order, figures={**figures, "max_entropy": math.log(6)})
    expected = [divmod(int(at), HEADS) for at in np.argsort(figures[order], None)]
    assert [tuple(map(int, re.findall(r"layer (\d+), head (\d+)", name)[0])) for name in names(view)] == expected


def test_click_and_enter_choose_one(view):
    shown(view, weights())
    pressed = view.page.locator(".thumbnail[aria-pressed=true]")
    assert pressed.count() == 1
    assert "Layer 1, head 2" in pressed.get_attribute("aria-label")
    view.page.locator(".thumbnail").nth(3).click()
    assert view.log() == [("onChoose", {"layer": 0, "head": 3})]
    assert "Layer 0, head 3" in pressed.get_attribute("aria-label")


def test_arrow_keys_move_and_it_is_one_stop(view):
    shown(view, weights())
    assert view.page.locator(".thumbnail[tabindex='0']").count() == 1
    view.page.keyboard.press("Tab")
    focused = lambda: view.page.evaluate("document.activeElement.getAttribute('aria-label')")  # noqa: E731
    assert "Layer 1, head 2" in focused(), "the chosen one"
    for key, place in [("ArrowLeft", (1, 1)), ("ArrowUp", (0, 1)), ("ArrowUp", (0, 1)), ("ArrowDown", (1, 1)),
                       ("End", (2, 3)), ("Home", (0, 0)), ("ArrowRight", (0, 1))]:  # fmt: skip
        view.page.keyboard.press(key)
        view.settle()
        assert "Layer {}, head {}".format(*place) in focused(), key
    view.page.keyboard.press("Enter")
    assert view.last("onChoose") == {"layer": 0, "head": 1}
    assert view.page.locator(".thumbnail[tabindex='0']").count() == 1


def test_twelve_heads_fit_a_phone_and_can_be_hit(view):
    browser = view.page.context.browser
    with view_in(browser, view.page.url, viewport={"width": 390, "height": 700}) as phone:
        values = np.repeat(weights(), 3, axis=1)
        shown(phone, values)
        boxes = [one.bounding_box() for one in phone.page.locator(".thumbnail").all()]
        assert len(boxes) == 36
        assert min(min(box["width"], box["height"]) for box in boxes) >= 24
        assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
