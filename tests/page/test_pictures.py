"""Pictures that are sent: what is transparent in them, what is drawn over them, and those that only the service has."""

import numpy as np
import pytest
from PIL import Image

from tests.conftest import ROOT
from tests.page.conftest import canvas_of, stroke

SEVEN = ROOT / "tests/data/digits/seven.png"


def chosen(page, path):
    page.set_input_files("#choose-file", path)


def first(page):
    return page.locator("#answer li").first.inner_text().split()[0]


def ink_on_pad(page):
    """Return whether the pixels of the pad are dark, (height, width)."""
    return canvas_of(page.locator("#pad"))[:, :, 0] < 128


@pytest.mark.parametrize("side", [300, 1800])  # the larger one is scaled
def test_white_ink_on_a_transparent_ground_is_seen(visit, tmp_path, side):
    ink = Image.new("RGBA", (side, side), (255, 255, 255, 0))
    ink.paste((255, 255, 255, 255), (4 * side // 9, side // 9, 5 * side // 9, 8 * side // 9))
    ink.save(tmp_path / "one.png")
    seen = visit()
    page = seen.open("#model=digits&method=raw&opacity=0")
    chosen(page, tmp_path / "one.png")
    seen.settle()
    assert first(page) == "1"
    assert ink_on_pad(page)[5, 5], "the pad is black"
    page.locator("#picture .cells").focus()
    page.keyboard.press("c")
    seen.settle()
    shades = seen.shades("#picture .picture canvas")
    assert len(shades) > 1
    assert min(shades) > 1, "what is asked about with a covered patch is not blank"


def test_a_stroke_over_a_tall_picture_is_drawn_where_the_pen_is(visit, tmp_path):
    tall = Image.new("RGB", (100, 300), "white")
    tall.paste("black", (20, 120, 80, 180))
    tall.save(tmp_path / "tall.png")
    seen = visit()
    page = seen.open("#model=digits")
    chosen(page, tmp_path / "tall.png")
    seen.settle()
    stroke(page, (0.5, 0.2), (0.5, 0.8))
    seen.settle()
    ink = ink_on_pad(page)
    assert ink.shape == (448, 150)
    rows, columns = np.nonzero(ink)
    assert rows.min() < 0.25 * len(ink)
    assert rows.max() > 0.75 * len(ink)
    assert abs(columns.mean() - ink.shape[1] / 2) < 3
    assert first(page) == "1"


def test_a_drawing_goes_on_after_a_reload(visit):
    seen = visit()
    page = seen.open("#model=digits")
    stroke(page, (0.3, 0.2), (0.3, 0.8))
    seen.settle()
    page.reload()
    seen.settle()
    one = ink_on_pad(page)
    stroke(page, (0.7, 0.2), (0.7, 0.8))
    seen.settle()
    both = ink_on_pad(page)
    assert (both & one).sum() == one.sum()
    assert both.sum() > 1.5 * one.sum()


def test_of_a_picture_that_only_the_service_has_nothing_is_offered_that_needs_it(visit, service):
    kept = {"content": SEVEN.read_bytes(), "headers": {"Content-Type": "image/png"}}
    answer = service.post("/v1/models/digits/classify", **kept)
    for compare in ("model:digits-twin", "input"):
        page = visit().open(f"#model=digits&method=raw&compare={compare}&id={answer.json()['id']}")
        choices = page.locator("#compare option").evaluate_all("(all) => all.map(({ value }) => value)")
        assert "method:rollout" in choices
        assert [one for one in choices if one == "input" or one.startswith("model:")] == []
        cells = page.locator("#picture .cells")
        assert cells.count() == 1
        assert cells.get_attribute("aria-keyshortcuts") == "Enter Escape"
        cells.press("c")
        assert "covered" not in page.url
        assert page.locator("#problem").inner_text() == ""
