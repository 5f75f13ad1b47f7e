"""What is measured, and what is subtracted, is of one answer: of the pinned mask, or of the class that is shown."""

import pytest

MASKS = "march [MASK], 20[MASK]1 = 2021-03-05"


def captions(page):
    return [one.split(", up to")[0] for one in page.locator("#look figcaption").all_inner_texts()]


@pytest.mark.parametrize(
    ("method", "row", "mask"),
    [("libra", "1", 1), ("libra", "9", 0), ("raw", "12", 1), ("raw", "7", 0), ("rollout", "3", 0)],
)
def test_the_curves_are_of_the_mask_that_is_pinned(go, method, row, mask):
    page = go(model="dates-mlm", text=MASKS, method=method, row=row)
    with page.expect_response(lambda one: "evaluate=" in one.url) as answered:
        page.click("#evaluation summary")
    assert answered.value.json()["results"][0]["attention"]["evaluation"]["mask"] == mask
    page.locator(f"#evaluation svg[aria-label*='(mask {mask + 1})”']").first.wait_for()


def test_the_curves_of_a_word_are_of_the_mask_in_it(go):
    page = go(model="dates-mlm", text=MASKS, method="raw", row="5", merge="1")
    with page.expect_response(lambda one: "evaluate=" in one.url) as answered:
        page.click("#evaluation summary")
    assert answered.value.json()["results"][0]["attention"]["evaluation"]["mask"] == 1


COVERED = ",".join(map(str, range(21)))


def test_a_covered_picture_is_asked_about_the_class_that_the_whole_one_is_explained_by(go):
    page = go(model="digits", method="libra", covered=COVERED, compare="input")
    was, now = (one.locator("li span").first.inner_text() for one in page.locator("#answer .labels").all())
    assert was != now, "the class changes"
    assert captions(page) == [f"as it was, for “{was}”", f"covered, for “{was}”"]
    page = go(model="digits", method="libra", covered=COVERED, compare="input", target=f"{was},{now}")
    assert [one.rpartition("for ")[2] for one in captions(page)] == 2 * [f"“{was}”", f"“{now}”"]


def test_explanations_of_different_answers_have_no_difference(go):
    text = "march 5, 20[MASK]1 = 2021-03-05"
    for changed, subtracted in ((text.replace("2021", "2011"), False), (text.replace("5", "6"), True)):
        page = go(model="dates-mlm", method="libra", text=text, compare="input", **{"with": changed})
        assert captions(page) == ["as it was", f"“{changed}”"] + subtracted * ["difference"]
        page = go(model="dates-mlm", method="raw", text=text, compare="input", **{"with": changed})
        assert captions(page)[-1] == "difference", "weights are of no answer"
