"""Nothing of one's own is lost: inputs across models, files that are given, links, files, refusals, addresses."""

import time

import pytest

from tests.conftest import ROOT
from tests.page.conftest import DROP, drawn, settled, state_of, stroke

SEVEN = ROOT / "tests/data/digits/seven.png"
PASTE = """(text) => {
  const clipboardData = new DataTransfer()
  clipboardData.setData('text/plain', text)
  document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true }))
}"""


def chosen(page, model):
    page.select_option("#model", model)
    settled(page)


# Across models


def test_a_picture_stays_with_another_model_that_sees(go):
    page = go(model="digits")
    page.set_input_files("#choose-file", SEVEN)
    settled(page)
    chosen(page, "digits-twin")
    assert "seven" in page.inner_text("#input")
    assert page.inner_text("#answer .labels li >> nth=0").startswith("7")
    assert state_of(page)["id"]
    chosen(page, "dates")
    assert "id" not in state_of(page)


def test_a_text_stays_with_another_model_that_reads_though_it_was_not_asked_yet(go):
    page = go(model="dates", text="5 June 2020")
    chosen(page, "minilm")
    assert state_of(page)["text"] == "5 June 2020"
    page.fill("#text", "typed, and not asked")
    chosen(page, "dates")
    assert page.input_value("#text") == "typed, and not asked"


def test_what_is_covered_or_pinned_is_not_taken_to_another_model(go):
    page = go(model="digits", method="raw", covered="7", compare="input", row="3")
    chosen(page, "digits-twin")
    assert not {"covered", "compare", "row"} & state_of(page).keys()


# Files and texts that are dropped or pasted


def test_a_text_file_is_read_and_a_picture_refused_by_a_model_of_texts(go):
    page = go(model="dates")
    page.evaluate(DROP, [["seven.png", "image/png", "x"]])
    page.wait_for_selector("#input [role=alert]")
    assert "This model reads texts" in page.inner_text("#input [role=alert]")
    page.evaluate(DROP, [["date.txt", "text/plain", "9 May 2011\n"]])
    page.wait_for_function("() => location.hash.includes('2011')")
    settled(page)
    assert page.locator("#input [role=alert]").count() == 0
    assert page.locator("#answer .words").inner_text() == "2011-05-09"
    page.evaluate(PASTE, "10 May 2011")
    page.wait_for_function("() => location.hash.includes('10+May')")


def test_a_text_that_is_pasted_is_refused_in_words_by_a_model_that_sees(go):
    page = go(model="digits")
    page.evaluate(PASTE, "https://example.org/cat.png")
    page.wait_for_selector("#input [role=alert]")
    assert "This model reads pictures" in page.inner_text("#input [role=alert]")
    page.evaluate(DROP, [["date.txt", "text/plain", "9 May 2011"]])
    drawn(page)
    assert page.locator("#input [role=alert]").count() == 1


def test_a_drawing_of_lines_is_read(go, tmp_path):
    (tmp_path / "seven.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">'
        '<path d="M25 20H75L45 85" stroke="black" stroke-width="8" fill="none"/></svg>'
    )
    page = go(model="digits")
    page.set_input_files("#choose-file", tmp_path / "seven.svg")
    settled(page)
    assert page.inner_text("#answer .labels li >> nth=0").startswith("7")


# Links and files


def test_a_link_says_that_it_holds_no_picture_before_it_is_copied(go):
    page = go(model="digits")
    page.click("#share")
    assert "whoever opens it here sees the same" in page.inner_text("#sharing p >> nth=0")
    page.set_input_files("#choose-file", SEVEN)
    settled(page)
    assert "The link holds no picture" in page.inner_text("#sharing p >> nth=0")


def test_looks_are_named_gone_through_and_saved_in_one_file_that_needs_no_service(go, offline, tmp_path):
    page = go(model="digits")
    page.click("#share")
    for example, name in (("0", "a seven"), ("1", "a <three>")):
        page.click(f"#example-{example}")
        settled(page)
        page.fill("#sharing [name=name]", name)
        page.click("#keep-look")
        page.wait_for_selector(f"#kept a:text-is('{name}')")
    page.click("#kept a >> nth=0")
    settled(page)
    assert page.inner_text("#answer .labels li >> nth=0").startswith("7")
    with page.expect_download() as download:
        page.click("#save-html")
    download.value.save_as(tmp_path / "regard.html")
    alone = offline.begin(tmp_path / "regard.html")
    assert alone.locator(".looks button").all_inner_texts() == ["a seven", "a <three>"]
    assert alone.inner_text("#answer .labels li >> nth=0").startswith("7")
    alone.click(".looks button >> nth=1")
    assert alone.inner_text("#answer .labels li >> nth=0").startswith("3")
    assert alone.locator("#heads canvas").count() == 16
    alone.wait_for_function("() => document.querySelector('#picture canvas').width > 100")
    page.reload()
    settled(page)
    page.click("#share")
    page.wait_for_selector("#kept")
    assert page.locator("#kept a").all_inner_texts() == ["a seven", "a <three>"]


def test_a_file_shows_the_heads_and_the_row_that_are_seen_and_what_they_are_compared_with(go, offline, tmp_path):
    page = go(model="dates-mlm", method="raw", heads="max", compare="layer:0")
    page.click("#share")
    with page.expect_download() as download:
        page.click("#save-html")
    download.value.save_as(tmp_path / "regard.html")
    seen = page.inner_text("#look .readout")
    assert seen.startswith("“[MASK]”")
    alone = offline.begin(tmp_path / "regard.html")
    assert alone.locator(".looks button").count() == 2
    assert alone.inner_text("#look .readout") == seen
    alone.click(".looks button >> nth=1")
    assert alone.inner_text("#look .readout") != seen


def test_a_look_that_is_removed_while_another_is_kept_stays_removed(go):
    page = go(model="digits")
    page.click("#share")
    page.click("#keep-look")
    page.wait_for_selector("#kept a")
    page.click("#example-1")
    settled(page)
    page.route("**/attention/*heads=all*", lambda route: (time.sleep(0.5), route.continue_()))
    page.click("#keep-look")
    page.click("#kept button")
    page.wait_for_selector("#sharing :text('Kept as')")
    assert page.locator("#kept li").count() == 1
    assert "3, 95.6%" in page.inner_text("#kept")


# Refusals, and waiting


def test_once_the_network_is_back_it_is_asked_again(visit):
    seen = visit(refusals=True)
    page = seen.open("#model=digits")
    page.context.set_offline(True)
    page.click("#example-1")
    page.wait_for_selector("#problem :text('did not answer')")
    page.context.set_offline(False)
    page.wait_for_selector("#problem:not(:has(*))", state="attached", timeout=4000)
    settled(page)
    assert page.inner_text("#answer .labels li >> nth=0").startswith("3")


def test_a_refused_question_is_not_asked_again_once_another_is_on_its_way(visit):
    seen = visit(refusals=True)
    page = seen.open("#model=digits")
    posted = []
    page.on("request", lambda request: request.method == "POST" and posted.append(request))
    answers = [(503, {"Retry-After": "1"}, "{}")]
    held = []

    def answer(route):
        if answers:
            status, headers, body = answers.pop()
            route.fulfill(status=status, headers=headers, body=body)
        else:
            held.append(route)

    page.route("**/classify*", answer)
    page.click("#example-1")
    page.wait_for_selector("#again")
    page.click("#example-2")
    page.wait_for_selector("#problem:empty", state="attached")
    page.wait_for_timeout(1500)
    assert len(posted) == len(held) + 1 == 2
    held[0].continue_()
    settled(page)
    assert page.inner_text("#answer .labels li >> nth=0").startswith("0")


def test_what_takes_long_says_how_long_and_can_be_stopped(visit):
    seen = visit()
    page = seen.open("#model=digits")
    page.route("**/classify*", lambda route: None)  # no answer ever comes
    page.click("#example-1")
    page.wait_for_selector("#answer :text('2 s')")
    page.click("#stop")
    page.wait_for_selector("#problem :text('Stopped')")
    time.sleep(1)
    assert page.locator("#stop").count() == 0
    page.unroute("**/classify*")
    page.click("#again")
    settled(page)
    assert page.inner_text("#answer .labels li >> nth=0").startswith("3")


# The history, and addresses


def test_strokes_of_one_drawing_are_one_step(go):
    page = go(model="digits")
    before = page.evaluate("history.length")
    for at in range(3):
        stroke(page, (0.2 + 0.2 * at, 0.2), (0.3 + 0.2 * at, 0.8))
        settled(page)
    assert page.evaluate("history.length") == before + 1
    page.go_back()
    settled(page)
    assert "id" not in state_of(page)


@pytest.mark.parametrize(
    "address",
    [
        {"model": "digits", "row": "9999"}, {"model": "digits", "heads": "99", "method": "raw"},
        {"model": "digits", "target": "abc"}, {"model": "digits", "target": "99,3"},
        {"model": "digits", "covered": "9999", "compare": "input"}, {"model": "digits", "layer": "77", "method": "raw"},
        {"model": "dates", "row": "9999"}, {"model": "dates-mlm", "row": "9999"}, {"model": "digits", "id": "new"},
    ],
)  # fmt: skip
def test_an_address_with_values_that_are_not_there_shows_what_is(go, address):
    page = go(**address)
    page.click("#evaluation summary")
    page.wait_for_selector("#evaluation figcaption")
    assert page.locator("#problem > *, #evaluation .problem").count() == 0
    assert page.locator("#answer :is(.labels, .words)").count() > 0
