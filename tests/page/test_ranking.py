"""A model that ranks: a query and passages, best first, and what spoke for each in both texts."""

import numpy as np
from playwright.sync_api import expect

from tests.page.conftest import settled, state_of, violations

QUERY = "a red cat"
PASSAGES = ["the dog sat", "a bird", "red cats sit on a mat", "the end of it"]
ITEMS = "#answer .ranked button"
TEXTS = f"{ITEMS} > span:first-child"
TINTS = "all => all.map(({ style }) => parseFloat(style.getPropertyValue('--weight')))"


def ranked(service):
    """Return what the service answers of the same, best first."""
    answer = service.post("/v1/models/bert-rank/rerank", json={"query": QUERY, "texts": PASSAGES})
    return answer.json()["results"]


def second_text(page):
    """Return the passage that is coloured, without its special token."""
    return page.locator("#looks .read").nth(1).inner_text().replace("[SEP]", "").strip()


def test_passages_stand_best_first_and_one_that_is_pointed_at_is_looked_at(go, service):
    found = ranked(service)
    page = go(model="bert-rank", text=QUERY, pair="\n\n".join(PASSAGES))
    items = page.locator(ITEMS)
    texts = [PASSAGES[one["index"]] for one in found]
    assert page.locator(TEXTS).all_inner_texts() == texts
    widths = page.locator(f"{ITEMS} .bar span").evaluate_all("all => all.map(({ style }) => parseFloat(style.width))")
    assert np.allclose(widths, [100 * one["score"] for one in found], atol=1e-3)
    assert page.locator("#looks .read").first.inner_text().strip() == f"[CLS]{QUERY}[SEP]"
    assert second_text(page) == texts[0]

    items.nth(2).hover()
    expect(page.locator("#looks .read").nth(1)).to_contain_text(texts[2])
    settled(page)
    assert page.locator("[name=method]:checked").input_value() == "libra", "it explains a score"
    options = {"attention": "libra", "kind": "encoder"}
    shown = service.get(f"/v1/attention/{found[2]['id']}", params=options).json()["results"][0]["attention"]
    values = np.array(shown["maps"][0]["values"])[0, 0]
    tints = np.array(page.locator("#looks .read span").evaluate_all(TINTS))
    wanted = 45 * np.abs(values) / np.abs(values).max()
    assert np.allclose(np.sort(tints)[-5:], np.sort(wanted)[-5:], atol=0.51)
    assert "object" not in state_of(page)
    page.mouse.move(0, 0)
    expect(page.locator("#looks .read").nth(1)).to_contain_text(texts[0])


def test_a_passage_is_chosen_by_keys_and_let_go_by_escape(go, service):
    found = ranked(service)
    page = go(model="bert-rank", text=QUERY, pair="\n".join(PASSAGES))
    page.locator(ITEMS).first.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#looks .read").nth(1)).to_contain_text(PASSAGES[found[1]["index"]])
    page.keyboard.press("Enter")
    settled(page)
    assert state_of(page)["object"] == str(found[1]["index"])
    page.evaluate("document.activeElement.blur()")
    assert second_text(page) == PASSAGES[found[1]["index"]]
    assert violations(page) == {}
    page.locator(ITEMS).nth(1).focus()
    page.keyboard.press("Escape")
    settled(page)
    assert "object" not in state_of(page)
    assert second_text(page) == PASSAGES[found[0]["index"]]


def test_whoever_is_new_sees_five_dates_ranked_at_once(go):
    """The bundled model's first example: the right one is neither first nor last among the passages."""
    page = go(model="dates-rank")
    assert page.input_value("#pair").split("\n").index("2021-03-23") == 2
    assert page.locator(ITEMS).count() == 5
    assert page.locator(TEXTS).first.inner_text() == "2021-03-23"
    assert page.locator("#example-0").inner_text() == "the twenty-third of march 2021 / 5 texts"


def test_passages_are_typed_one_a_line(go):
    page = go(model="bert-rank", text="none", pair="a dog")
    page.fill("#text", QUERY)
    page.locator("#pair").fill("")
    page.locator("#pair").press_sequentially("a cat\na mat")
    assert page.locator(ITEMS).count() == 1
    page.keyboard.press("Control+Enter")
    settled(page)
    assert sorted(page.locator(TEXTS).all_inner_texts()) == ["a cat", "a mat"]
    assert "score" in page.locator("#look .readout").inner_text()
    page.fill("#pair", "")
    page.click("#ask")
    assert page.locator("#pair").evaluate("one => one.validity.valueMissing")
