"""A model that tags: entities marked in the text, each clicked, or chosen by keys, for what speaks for it."""

from playwright.sync_api import expect

from tests.page.conftest import asked, drawn, settled, state_of, violations

TEXT = "😀 the red cat sat on a mat"
MARKS = "#answer .marked button"
LABELS = ("B-", "I-")


def tagged(service, **options):
    """Return the entities of the text, as the service answers them."""
    answer = service.post("/v1/models/bert-tags/tag", json={"inputs": TEXT, **options})
    return answer.json()["results"][0]["entities"]


def targets(page):
    """Return the entities that were explained, in order; None for the surest."""
    looks = [one for one in asked(page, "/v1/attention/") if one["attention"] == "libra"]
    return [one.get("target") for one in looks]


def test_entities_are_marked_in_the_text_with_their_labels_and_clicked_for_their_map(go, service):
    found = tagged(service)
    assert len(found) > 2
    page = go(model="bert-tags", text=TEXT)
    assert page.locator(MARKS).all_inner_texts() == [one["text"] + one["label"] for one in found]
    whole = page.locator("#answer .marked").evaluate("""(box) => {
      const copy = box.cloneNode(true)
      copy.querySelectorAll('small').forEach((one) => one.remove())
      return copy.textContent
    }""")
    assert whole == TEXT
    colours = page.locator(MARKS).evaluate_all("all => all.map((one) => one.style.getPropertyValue('--tint'))")
    assert len(set(zip(colours, (one["label"] for one in found), strict=True))) == len(set(colours))
    surest = max(range(len(found)), key=lambda at: found[at]["probability"])
    expect(page.locator(f"{MARKS}.shown")).to_have_attribute("data-object", str(surest))
    assert targets(page) == [None]
    other = 0 if surest else 1
    page.locator(MARKS).nth(other).click()
    settled(page)
    assert state_of(page)["object"] == str(other)
    assert targets(page)[-1] == str(other)
    assert found[other]["label"] in page.locator("#look .readout").inner_text()
    assert violations(page) == {}


def test_an_entity_is_chosen_by_keys_and_let_go_by_escape(go, service):
    page = go(model="bert-tags", text=TEXT, object="0")
    page.locator(MARKS).first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    settled(page)
    assert state_of(page)["object"] == "1"
    page.keyboard.press("Escape")
    drawn(page)
    assert "object" not in state_of(page)


def test_entities_are_of_words_where_that_is_chosen_and_so_are_their_maps(go, service):
    found = tagged(service, aggregate="none")
    page = go(model="bert-tags", text=TEXT, aggregate="none", object=str(len(found) - 1))
    assert page.locator(MARKS).count() == len(found)
    assert targets(page)[-1] == str(len(found) - 1), "of each token alone there are more entities"
    page.locator("[name=aggregate]").select_option("max")
    settled(page)
    assert page.locator(MARKS).count() == len(tagged(service, aggregate="max"))
    assert page.locator("#problem").inner_text() == ""
