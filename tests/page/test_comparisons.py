"""A comparison in the page's address, and one that does not suit what is looked at any more: the page lives on."""

import re

import pytest

from tests.conftest import ROOT

SEVEN = ROOT / "tests/data/digits/seven.png"


@pytest.fixture
def seen(visit):
    """A visit that may meet refusals."""
    return visit(refusals=True)


def labels(page):
    return page.locator("#look figcaption").all_inner_texts()


def choices(page):
    return page.locator("#compare option").evaluate_all("(all) => all.map(({ value }) => value)")


def choose(seen, name, value):
    seen.page.locator(f"[name={name}][value={value}]").check(force=True)
    return seen.settle()


def test_a_link_to_two_texts_is_drawn(seen):
    page = seen.at(model="minilm", text="hello", compare="input", **{"with": "goodbye"})
    assert labels(page)[:2] == ["as it was", "“goodbye”"]
    page.reload()
    assert labels(seen.settle())[:2] == ["as it was", "“goodbye”"]


def test_a_comparison_of_texts_that_is_late_or_refused_leaves_the_look_drawn(seen):
    page = seen.at(model="minilm", text="hello", view="matrix", compare="layer:0", method="raw")
    assert len(labels(page)) == 3
    page = seen.at(model="dates-mlm", compare="input", **{"with": 400 * "1 ", "method": "raw"})
    page.locator("#problem > *").wait_for()
    page.locator("#layer").press("ArrowLeft")
    seen.settle()
    assert page.locator("#look .tokens").count() >= 1


def test_a_comparison_that_is_refused_is_not_the_one_before_under_its_name(seen):
    page = seen.at(model="minilm", text="hello", compare="input", **{"with": "goodbye"})
    assert "“goodbye”" in labels(page)
    page = seen.at(model="minilm", text="hello", compare="input", **{"with": 4000 * "1 "})
    page.locator("#problem > *").wait_for()
    assert len(labels(page)) <= 1, "what is compared is gone"
    page = seen.at(model="minilm", text="hello", compare="input", **{"with": "so long"})
    page.wait_for_selector("#problem:empty", state="attached")
    assert labels(seen.settle())[:2] == ["as it was", "“so long”"]


def test_back_from_another_modality_draws_what_was_compared(seen):
    page = seen.at(model="digits", compare="method:raw")
    assert len(labels(page)) == 2
    page.locator("header select").select_option("dates")
    seen.settle()
    page.go_back()
    assert len(labels(seen.settle())) == 2
    page = seen.at(model="scenes-detr", compare="method:norm")
    for kind in page.locator("[name=kind]").evaluate_all("(all) => all.map(({ value }) => value)"):
        choose(seen, "kind", kind)
        assert page.locator("#look .readout").count() >= 1


def test_layers_are_compared_where_a_method_has_some(seen):
    page = seen.at(model="digits", method="integrated", compare="layer:1")
    assert len(labels(page)) <= 1
    assert [one for one in choices(page) if one.startswith("layer")] == []
    choose(seen, "method", "raw")
    assert labels(page)[:2] == ["layer 3", "layer 1"]
    assert re.fullmatch(r"difference, up to [0-9.]+ %", labels(page)[2])


def test_a_method_is_not_compared_with_itself(seen):
    page = seen.at(model="digits", method="raw", compare="method:rollout")
    choose(seen, "method", "rollout")
    assert labels(page) == []
    assert page.locator("#compare").input_value() == ""
    assert page.locator("#compare option:checked").inner_text() == "nothing"


def test_a_model_is_compared_with_models_of_the_same_inputs(seen):
    page = seen.at(model="digits")
    others = [one for one in choices(page) if one.startswith("model")]
    assert {"model:digits-twin", "model:scenes-detr", "model:captions-soft"} <= set(others)
    assert not {"model:digits", "model:dates", "model:minilm"} & set(others)


def test_options_of_generation_end_with_the_model(seen):
    page = seen.at(model="dates-clm", max_new_tokens="64", num_beams="2")
    page.locator("header select").select_option("dates")
    seen.settle()
    assert "max_new_tokens" not in page.url
    assert page.locator("#problem").inner_text() == ""


def test_an_example_that_cannot_be_fetched_is_said_and_asked_for_again(seen):
    seen.page.route("**/examples/*", lambda route: route.fulfill(status=503, headers={"Retry-After": "1"}, body="{}"))
    page = seen.at(model="digits")
    assert "The service answered 503." in page.locator("#problem").inner_text()
    page.unroute("**/examples/*")
    page.wait_for_selector("#problem:empty", state="attached")  # it is asked again by itself
    seen.settle()
    assert page.locator("#answer li").count() >= 1


def test_a_page_in_place_of_an_answer_is_named(seen):
    seen.page.route("**/classify**", lambda route: route.fulfill(status=200, body="<html>", content_type="text/html"))
    page = seen.at(model="digits")
    assert "What answered is not the service." in page.locator("#problem").inner_text()
    assert page.locator("#again").count() == 1


def test_the_mouse_may_be_let_go_after_the_shift_key(seen):
    page = seen.at(model="digits", method="raw")
    box = page.locator("#picture .cells").first.bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 3)
    page.keyboard.up("Shift")
    page.mouse.up()
    seen.settle()
    assert re.search("covered=0%2C1", page.url)
    assert "row=" not in page.url


def test_an_example_that_is_chosen_again_takes_the_place_of_what_is_typed(seen):
    page = seen.at(model="dates")
    shown = page.locator("#text").input_value()
    page.locator("#text").fill("other words")
    page.locator("#example-0").click()
    seen.settle()
    assert page.locator("#text").input_value() == shown


def test_each_of_several_heads_is_read_out(seen):
    page = seen.at(model="dates", method="raw", heads="0,1", row="0")
    said = page.locator("#look .readout").inner_text().split("\n")
    assert [line.partition(":")[0] for line in said] == ["head 0", "head 1"]


def test_a_long_word_does_not_widen_the_page(visit):
    seen = visit(width=390, height=800)
    page = seen.at(model="minilm", merge="1", row="1", text=150 * "w", method="raw")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
