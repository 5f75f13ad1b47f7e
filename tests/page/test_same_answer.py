"""What is measured, and what is subtracted, is of one answer: of the pinned mask, or of the class that is shown."""

import re
import urllib.parse

import pytest

MASKS = "march [MASK], 20[MASK]1 = 2021-03-05"


def opened(visit, **selection):
    return visit().open(f"#{urllib.parse.urlencode(selection)}")


def captions(page):
    return [one.split(", up to")[0] for one in page.locator("#look figcaption").all_inner_texts()]


@pytest.mark.parametrize(
    ("method", "row", "mask"),
    [("libra", "1", 1), ("libra", "9", 0), ("raw", "12", 1), ("raw", "7", 0), ("rollout", "3", 0)],
)
def test_the_curves_are_of_the_mask_that_is_pinned(visit, method, row, mask):
    page = opened(visit, model="dates-mlm", text=MASKS, method=method, row=row)
    with page.expect_response(lambda one: "evaluate=" in one.url) as answered:
        page.click("#evaluation summary")
    assert answered.value.json()["results"][0]["attention"]["evaluation"]["mask"] == mask
    page.locator(f"#evaluation svg[aria-label*='“mask {mask + 1}”']").first.wait_for()


def test_the_curves_of_a_word_are_of_the_mask_in_it(visit):
    page = opened(visit, model="dates-mlm", text=MASKS, method="raw", row="5", merge="1")
    with page.expect_response(lambda one: "evaluate=" in one.url) as answered:
        page.click("#evaluation summary")
    assert answered.value.json()["results"][0]["attention"]["evaluation"]["mask"] == 1
