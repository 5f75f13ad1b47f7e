"""For whoever is new, and for whoever shows a look to others."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from tests.page.conftest import settled, state_of


def test_a_first_minute_has_four_steps_and_is_never_shown_again(go):
    page = go(model="digits")
    page.click("#invitation button >> nth=0")
    page.wait_for_selector("#guide")
    titles = []
    for act in (None, None, "covered", "curves"):
        titles.append(page.inner_text("#guide h2"))
        assert page.locator(".guided").count() == 1
        if act:
            page.click("#guide-act")
            settled(page)
        if act == "covered":
            assert len(state_of(page)["covered"].split(",")) == 1
            assert "was" in page.inner_text("#answer")
        if act == "curves":
            page.wait_for_selector("#evaluation figcaption")
        page.click("#guide-next")
    assert [one[:6] for one in titles] == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"]
    assert page.locator("#guide, #invitation, .guided").count() == 0
    page.reload()
    settled(page)
    assert page.locator("#invitation").count() == 0


def test_a_first_minute_can_be_left_at_once(go):
    page = go(model="dates")
    page.click("#invitation button >> nth=1")
    assert page.locator("#invitation").count() == 0
    page.reload()
    settled(page)
    assert page.locator("#invitation").count() == 0


def test_on_the_whole_screen_arrow_keys_lead_to_the_next_example(go):
    page = go(model="digits")
    page.click("#full-screen")
    page.wait_for_function("() => document.fullscreenElement?.id === 'look'")
    assert "digits: 7, 95.6%" in page.inner_text(".said")
    page.keyboard.press("ArrowRight")
    settled(page)
    assert "digits: 3, 95.6%" in page.inner_text(".said")
    page.keyboard.press("PageUp")
    settled(page)
    assert "digits: 7, 95.6%" in page.inner_text(".said")
    page.evaluate("document.exitFullscreen()")
    page.locator("#look").focus()
    page.keyboard.press("ArrowRight")
    assert "example" not in state_of(page) or state_of(page)["example"] == "0"


READ = """async () => {
  const [item] = await navigator.clipboard.read()
  const reader = new FileReader()
  reader.readAsDataURL(await item.getType('image/png'))
  return new Promise((done) => (reader.onload = () => done(reader.result)))
}"""


def test_a_picture_is_copied_with_its_legend_and_a_caption(visit):
    page = visit(permissions=["clipboard-read", "clipboard-write"]).open("#model=digits&method=raw")
    page.click("#copy-picture")
    page.wait_for_selector("#look :text('The picture is copied.')")
    content = base64.b64decode(page.evaluate(READ).partition(",")[2])
    picture = np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)
    assert picture.shape[1] == 1200
    ink = (np.abs(picture - picture[0, 0]).max(2) > 60).any(1)  # lines that hold anything
    parts = np.flatnonzero(np.diff(ink.astype(int)) == 1).size + int(ink[0])
    assert parts >= 4, "picture, legend, its numbers, and the caption"


def test_lines_are_saved_as_a_drawing(go, tmp_path, offline):
    page = go(model="dates", view="lines")
    with page.expect_download() as download:
        page.click("#copy-picture")
    download.value.save_as(tmp_path / "lines.svg")
    text = (tmp_path / "lines.svg").read_text()
    assert text.count("<path") > 10
    assert ">[END]</text>" in text
    offline.begin(tmp_path / "lines.svg")


@pytest.mark.parametrize(
    ("model", "row"), [("digits", "the class token"), ("dates", "0: 2"), ("dates-mlm", "[MASK]"), ("minilm", "[CLS]")]
)
def test_one_step_inside_shows_numbers_that_add_up(go, model, row):
    page = go(model=model, method="raw")
    page.click("#inside summary")
    page.wait_for_selector("#inside h3 >> nth=2")
    assert row in page.locator("#inside-query option:checked").inner_text()
    products, _, parts = (table.locator("tbody tr").all() for table in page.locator("#inside table").all())
    total = sum(float(one.locator("td").last.inner_text()) for one in products)
    said = re.search(r"add up to (\S+); times (\S+), .*?: the score is (\S+)\.", page.inner_text("#inside"))
    assert total == pytest.approx(float(said[1]), rel=0.01)
    assert float(said[1]) * float(said[2]) == pytest.approx(float(said[3]), rel=0.01)
    weight = float(re.search(r"the weight of this key\s+is (\S+)%", page.inner_text("#inside"))[1])
    value, _, part = (float(one) for one in parts[0].locator("td").all_inner_texts()[1:])
    assert value * weight / 100 == pytest.approx(part, abs=0.02)
    head = page.locator("#inside-head option:checked").inner_text()
    assert f"{weight}%" in head  # the head with the largest weight comes first
    page.select_option("#inside-key", "0")
    settled(page)
    assert page.locator("#inside table").count() == 3


def test_what_was_chosen_inside_is_not_asked_of_another_question_or_model(visit):
    seen = visit()  # a refusal would be on the console
    page = seen.open("#model=minilm&text=the+cat+sat&method=raw")
    page.click("#inside summary")
    page.wait_for_selector("#inside-key")
    page.select_option("#inside-query", "4")
    seen.settle()
    page.fill("#text", "hi")
    page.click("#ask")
    seen.settle()
    assert page.locator("#inside-query").input_value() == "0"
    page.select_option("#model", "scenes-detr")
    seen.settle()
    page.wait_for_selector("#inside h3")
    page.click("[name=kind][value=decoder] + span")
    seen.settle()
    assert page.locator("#inside .problem").count() == 0
    page.select_option("#model", "minilm")
    seen.settle()
    page.click(".drawing summary")
    page.check("[name=merge]")
    seen.settle()
    assert "choose tokens in place of words" in page.inner_text("#inside")


def test_a_part_of_the_page_that_does_not_come_says_so_and_is_asked_for_again(visit):
    seen = visit(refusals=True)
    page = seen.open("#model=digits")
    page.route("**/joined-later.js", lambda route: route.abort())
    page.click("#fed summary")
    page.wait_for_selector("#fed :text('could not be loaded')")
    page.unroute("**/joined-later.js")
    page.click("#fed summary")
    page.click("#fed summary")
    page.wait_for_selector("#fed img")


def test_an_artifact_without_the_graph_says_so(go):
    page = go(model="captions-soft")
    page.click("#inside summary")
    page.wait_for_selector("#inside :text('has no graph of it')")
