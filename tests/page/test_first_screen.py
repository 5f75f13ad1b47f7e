"""The page is never empty: each model's first example is answered and drawn before anybody clicks."""

import pytest

MODELS = ("digits", "dates", "captions-soft", "minilm", "dates-mlm")
WIDTHS = (1440, 768, 390)


def test_these_are_the_models_that_are_served(service):
    assert {one["name"] for one in service.get("/v1/models").json()["models"]} == set(MODELS)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_an_answer_and_a_picture_without_a_click(visit, name, width):
    seen = visit(width=width)
    page = seen.open(f"#model={name}")
    assert page.locator("#model").input_value() == name
    assert page.locator("#answer").inner_text().strip() not in ("", "Answer")
    assert page.locator("#problem").inner_text() == ""
    assert page.locator("#example-0").get_attribute("aria-pressed") == "true"
    drawn = seen.shades("#picture canvas")
    if drawn:
        assert min(drawn) > 50, "a canvas is blank"
    else:  # a text: its tokens are tinted
        weights = page.locator("#look .in-place [style*='--weight']")
        assert weights.count() > 1
    heads = seen.shades("#heads canvas")
    assert all(shades > 2 for shades in heads)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_screen(visit, width):
    page = visit(width=width).open()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_first_model_is_the_services_first(visit, service):
    page = visit().open()
    assert page.locator("#model").input_value() == service.get("/v1/models").json()["models"][0]["name"]


def test_on_a_phone_come_input_answer_and_picture_first_and_in_this_order(visit):
    page = visit(width=390).open()
    tops = [page.locator(name).bounding_box()["y"] for name in ("#input", "#answer", "#look", "#controls", "#heads")]
    assert tops == sorted(tops)


def test_the_page_says_which_method_it_chose_and_why(visit, service):
    best = service.get("/v1/models/digits").json()["attention"]["best"]["method"]
    page = visit().open("#model=digits")
    assert page.locator(f"[name=method][value={best}]").is_checked()
    assert "measured" in page.locator("#controls").inner_text()
