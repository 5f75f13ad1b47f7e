"""The page of a model that embeds pictures: what its answer says, and what rollout leaves out."""

import pytest

from tests.conftest import served
from tests.page.conftest import asked, settled


@pytest.fixture(scope="module")
def embedding(dino):
    with served(dino) as client:
        yield str(client.base_url).rstrip("/")


def test_a_picture_that_is_embedded_is_said_to_be_like_the_nearest_of_the_examples(visit, embedding):
    seen = visit(base=embedding)
    page = seen.open()
    assert "What is it like?" in page.inner_text("#input")
    page.locator("#nearest button").first.wait_for()
    shown = page.locator("#nearest button").evaluate_all("(all) => all.map((one) => Number(one.innerText))")
    assert len(shown) == page.locator("#input [id^=example-]").count() - 1, "all but the one that is asked about"
    assert shown == sorted(shown, reverse=True)
    assert all(-1 <= likeness < 1 for likeness in shown)
    page.locator("#nearest button").first.click()
    settled(page)
    assert page.locator("#example-0").get_attribute("aria-pressed") == "false"


def test_rollout_has_a_first_layer_and_leaves_out_what_is_chosen(visit, embedding):
    page = visit(base=embedding).at(method="rollout")
    assert asked(page, "/v1/attention/")[0].get("sinks") is None
    page.locator("[name=sinks]").check()
    settled(page)
    page.locator("[name=discard]").check()
    settled(page)
    page.fill("#first", "2")
    settled(page)
    last = [one for one in asked(page, "/v1/attention/") if one.get("attention") == "rollout"][-1]
    assert (last["sinks"], float(last["discard"]), last["layers"]) == ("out", 0.9, "2:4")
    page.fill("#layer", "1")
    settled(page)
    last = [one for one in asked(page, "/v1/attention/") if one.get("attention") == "rollout"][-1]
    assert last["layers"] == "1:2", "no layer comes before the first"


def test_the_ground_and_the_end_of_the_colours_are_chosen(visit, embedding):
    seen = visit(base=embedding)
    page = seen.at(method="rollout")
    picture = "document.querySelector('#picture canvas').toDataURL()"
    pictures = [page.evaluate(picture)]
    page.locator("details.drawing summary").click()
    for name, checked in (("grey", False), ("full", True)):
        page.locator(f"[name={name}]").set_checked(checked)
        settled(page)
        pictures.append(page.evaluate(picture))
    assert pictures[0] != pictures[1]
    assert page.locator(".legend").first.inner_text().count("%") == 5, "shares of the attention"


def test_the_examples_of_a_model_are_not_likened_to_the_answer_of_the_model_before(visit):
    seen = visit()
    page = seen.open("#model=minilm&text=the+cat+sat")
    page.select_option("#model", "scenes-detr")
    seen.settle()
    assert len([one for one in seen.asked if "/scenes-detr/detect" in one.url]) == 1
