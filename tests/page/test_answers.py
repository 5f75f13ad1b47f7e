"""A model that answers questions: answers marked in the context, and what spoke for where each starts and ends."""

from playwright.sync_api import expect

from tests.page.conftest import asked, settled, state_of, violations

QUESTION = "a cat"
CONTEXT = "😀 the red dog sat on a mat, and the bird is in it"
MARKS, ITEMS = "#answer .marked button", "#answer .ranked button"


def test_answers_are_marked_in_their_context_and_both_ends_are_explained(go, service):
    body = {"inputs": {"question": QUESTION, "context": CONTEXT}, "top_k": 3}
    found = service.post("/v1/models/bert-answer/answer", json=body).json()["results"][0]["answers"]
    page = go(model="bert-answer", text=QUESTION, pair=CONTEXT)
    assert page.locator(f"{ITEMS} > span:first-child").all_inner_texts() == [one["text"] for one in found]
    expect(page.locator(f"{MARKS}.shown")).to_have_text(f"{found[0]['text']}1")
    assert page.locator("#looks .tokens button").all_inner_texts() == ["start", "end"]
    ends = [page.locator("#look .readout").inner_text()]
    page.locator("#looks .tokens button").nth(1).hover()
    expect(page.locator("#look .readout")).to_contain_text("“end” owes most to")
    page.mouse.move(0, 0)
    page.locator(ITEMS).nth(2).click()
    settled(page)
    assert state_of(page)["object"] == "2"
    expect(page.locator(f"{MARKS}.shown")).to_have_text(f"{found[2]['text']}3")
    looks = [one for one in asked(page, "/v1/attention/") if one["attention"] == "libra"]
    assert [looks[0]["target"], looks[-1]["target"]] == ["0", "2"]
    assert page.locator("#look .readout").inner_text() != ends[0]
    assert violations(page) == {}
    page.locator(ITEMS).nth(2).focus()
    page.keyboard.press("Escape")
    settled(page)
    assert "object" not in state_of(page)


def test_one_end_is_measured(go):
    page = go(model="bert-answer", text=QUESTION, pair=CONTEXT, row="1")
    page.click("#evaluation summary")
    settled(page)
    expect(page.locator("#evaluation figcaption").first).to_contain_text("the end")
    assert '"part":"end"' in [one["target"] for one in asked(page, "/v1/attention/") if "evaluate" in one][-1]
