"""The page is never empty: each model's first example is answered and drawn before anybody clicks."""

import pytest

MODELS = (
    "digits", "dates", "scenes-detr", "captions-soft", "minilm", "dates-clm", "dates-mlm",
    "dates-tags", "dates-rank", "bert", "bert-rank", "bert-tags", "bert-answer", "bert-nli",
)  # fmt: skip
WIDTHS = (1440, 768, 390)


def test_these_are_the_models_that_have_examples(service):
    served = service.get("/v1/models").json()["models"]
    assert {one["name"] for one in served if one["examples"]} - {"digits-twin"} == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_an_answer_and_a_picture_without_a_click(visit, name):
    seen = visit()
    page = seen.open(f"#model={name}")
    assert page.locator("#model").input_value() == name
    assert page.locator("#answer").inner_text().strip() not in ("", "Answer")
    assert page.locator("#problem").inner_text() == ""
    assert page.locator("#example-0").get_attribute("aria-pressed") == "true"
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 1000})
        seen.settle()
        drawn = seen.shades("#picture canvas")
        if drawn:
            assert min(drawn) > 50, "a canvas is blank"
        else:  # a text: its tokens are tinted
            assert page.locator("#look .in-place [style*='--weight']").count() > 1
        assert min(seen.shades("#heads canvas"), default=2) > 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "wider than the screen"


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


def test_from_each_sort_of_model_to_another_the_page_goes_on(visit):
    seen = visit()  # an error would be on the console
    page = seen.open("#model=minilm")
    tour = ("dates-rank", "dates-tags", "bert-answer", "bert-nli", "minilm", "dates-tags", "dates-rank", "bert-answer")
    for name in (*tour, "dates", "dates-rank", "digits", "minilm", "scenes-detr", "dates-tags"):
        page.select_option("#model", name)
        seen.settle()
        assert page.locator("#answer").inner_text()
    page.locator("#answer .marked button").first.wait_for()
