"""A model of entailment: labels that a visitor types, and what speaks for each in the text and in its sentence."""

import numpy as np
from playwright.sync_api import expect

from tests.page.conftest import asked, settled, state_of, violations

TEXT = "the red cat sat"
LABELS = ["a dog", "the cat", "red"]
ITEMS = "#answer .ranked button"


def test_labels_are_typed_and_each_is_explained_in_its_sentence(go, service):
    page = go(model="bert-nli", text=TEXT)
    assert page.locator("#answer .labels li").count() == 3, "the model's own labels"
    page.fill("[name=labels]", "\n".join(LABELS))
    page.fill("[name=template]", "it is {} here.")
    page.locator("#labels button").click()
    settled(page)
    body = {"inputs": TEXT, "labels": LABELS, "template": "it is {} here."}
    answer = service.post("/v1/models/bert-nli/classify", json=body).json()
    found = answer["results"][0]["labels"]
    assert page.locator(f"{ITEMS} > span:first-child").all_inner_texts() == [one["label"] for one in found]
    widths = page.locator(f"{ITEMS} .bar span").evaluate_all("all => all.map(({ style }) => parseFloat(style.width))")
    assert np.allclose(widths, [100 * one["probability"] for one in found], atol=1e-3)
    sentence = page.locator("#looks .read").nth(1)
    expect(sentence).to_contain_text(f"it is {found[0]['label']} here.")
    page.locator(ITEMS).nth(2).hover()
    expect(sentence).to_contain_text(f"it is {found[2]['label']} here.")
    settled(page)
    names = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    assert f".{found[2]['index']}?attention=libra" in [one for one in names if "attention=libra" in one][-1]
    assert "ENTAILMENT" in page.locator("#look .readout").inner_text()
    assert violations(page) == {}


def test_labels_stay_with_the_next_text_and_each_may_stand_for_itself(go):
    page = go(model="bert-nli", text=TEXT, labels="\n".join(LABELS))
    shares = "all => all.reduce((sum, { style }) => sum + parseFloat(style.width), 0)"
    assert abs(page.locator(f"{ITEMS} .bar span").evaluate_all(shares) - 100) < 0.01
    page.locator("[name=multi]").check()
    settled(page)
    assert abs(page.locator(f"{ITEMS} .bar span").evaluate_all(shares) - 100) > 0.01
    page.fill("#text", "a mat")
    page.click("#ask")
    settled(page)
    assert page.locator(ITEMS).count() == len(LABELS)
    assert state_of(page)["labels"].split("\n") == LABELS
    page.fill("[name=labels]", "")
    page.locator("#labels button").click()
    settled(page)
    assert page.locator("#answer .labels li").count() == 3
    assert [one for one in asked(page, "/v1/attention/") if "target" in one] == []
