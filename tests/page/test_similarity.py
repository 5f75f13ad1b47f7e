"""A model that embeds texts: other texts by their likeness to one, and what spoke for it in both."""

import json

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.page.conftest import asked, settled, state_of, violations

TEXT = "The cat sat on the mat."
OTHERS = ["Rain fell on the roof of the house.", "A kitten lay on the rug.", "Happy birthday, my dear friend!"]
ITEMS = "#answer .ranked button"
NAMES = f"{ITEMS} > span:first-child"
FIRST, SECOND = "#looks .read", "#opposite .read"
TINTS = "all => all.map(({ style }) => parseFloat(style.getPropertyValue('--weight')))"


@pytest.fixture(scope="module")
def alike(service):
    """The number and the cosine of each of OTHERS, the most alike first, as our own endpoint answers them."""
    answer = service.post("/v1/models/minilm/similarity", json={"source": TEXT, "inputs": OTHERS}).json()
    cosines = [one["similarity"] for one in answer["results"]]
    assert min(cosines) < 0, "a bar has no length below it"
    return sorted(enumerate(cosines), key=lambda one: -one[1])


def against(service, text):
    """Return the values of both texts by which a likeness is explained."""
    options = {"method": "libra", "against": {"text": text}, "sides": "both"}
    answer = service.post("/v1/models/minilm/attention", json={"inputs": TEXT, "attention": options})
    own = answer.json()["results"][0]["attention"]
    return [np.array(one["maps"][0]["values"])[0, 0] for one in (own, own["against"])]


def tints(page, place):
    return np.sort(page.locator(f"{place} span").evaluate_all(TINTS))[-3:]


def test_texts_stand_by_their_likeness_and_one_that_is_pointed_at_is_looked_at_in_both(go, service, alike):
    page = go(model="minilm", text=TEXT, pair="\n\n".join(OTHERS))
    assert page.locator(NAMES).all_inner_texts() == [OTHERS[at] for at, _ in alike]
    said = [float(one) for one in page.locator(f"{ITEMS} > span:last-child").all_inner_texts()]
    assert said == pytest.approx([cosine for _, cosine in alike], abs=1e-3)
    widths = page.locator(f"{ITEMS} .bar span").evaluate_all("all => all.map(({ style }) => parseFloat(style.width))")
    assert widths == pytest.approx([100 * max(cosine, 0) for _, cosine in alike], abs=1e-2)
    long = page.locator(f"{ITEMS} .bar").evaluate_all("all => all.map((one) => one.getBoundingClientRect().width)")
    assert max(long) - min(long) < 1, "bars of one length"
    assert OTHERS[alike[0][0]] in page.inner_text(SECOND)

    page.locator(ITEMS).nth(1).hover()
    expect(page.locator(SECOND)).to_contain_text(OTHERS[alike[1][0]])
    settled(page)
    assert page.locator("[name=method]:checked").input_value() == "libra", "it explains the likeness"
    for place, values in zip((FIRST, SECOND), against(service, OTHERS[alike[1][0]]), strict=True):
        wanted = 45 * np.abs(values) / np.abs(values).max()
        assert np.allclose(tints(page, place), np.sort(wanted)[-3:], atol=0.51), place
    assert "object" not in state_of(page)
    page.mouse.move(0, 0)
    expect(page.locator(SECOND)).to_contain_text(OTHERS[alike[0][0]])


def test_a_text_is_pinned_and_all_that_is_asked_is_of_it(go, alike):
    last, _ = alike[-1]
    page = go(model="minilm", text=TEXT, pair="\n".join(OTHERS))
    page.locator(ITEMS).first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    settled(page)
    assert state_of(page)["object"] == str(last)
    page.evaluate("document.activeElement.blur()")
    assert OTHERS[last] in page.inner_text(SECOND)
    assert violations(page) == {}
    page.locator("#evaluation summary").click()
    expect(page.locator("#evaluation svg")).to_have_count(2)
    measured = [one for one in asked(page, "/v1/attention/") if "evaluate" in one]
    assert [json.loads(one["against"]) for one in measured] == [{"text": OTHERS[last]}]
    page.locator(ITEMS).nth(2).focus()
    page.keyboard.press("Escape")
    settled(page)
    assert "object" not in state_of(page)
    assert OTHERS[alike[0][0]] in page.inner_text(SECOND)


def test_texts_are_typed_one_a_line(go):
    page = go(model="minilm", text=TEXT)
    assert page.locator(ITEMS).count() == 0
    page.locator("#pair").press_sequentially("a cat\na house")
    assert page.locator(ITEMS).count() == 0
    page.keyboard.press("Control+Enter")
    settled(page)
    assert page.locator(NAMES).all_inner_texts() == ["a cat", "a house"]
    page.fill("#pair", " \n ")
    page.click("#ask")
    settled(page)
    assert page.locator(ITEMS).count() == 0
    assert "384 numbers" in page.inner_text("#answer")


def test_the_first_example_has_several_texts_to_compare(go):
    page = go(model="minilm")
    assert page.locator(ITEMS).count() > 2
    assert page.locator(SECOND).count() == 1
