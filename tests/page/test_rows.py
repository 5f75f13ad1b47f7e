"""Rows of a look are the tokens of the answer, or they are not: what is pinned, played and read in each case."""

import re

import pytest

from tests.page.conftest import settled

CONTINUED = "march 3, 2021 = 20"


@pytest.fixture
def saved(offline, tmp_path):
    """Return what opens the file of an answer."""

    def begin(answer):
        answer.save(tmp_path / "answer.html")
        page = offline.begin(tmp_path / "answer.html")
        page.wait_for_selector("#look .tokens")
        return page

    return begin


def pressed(page, place):
    found = page.locator(f"{place} button[aria-pressed=true]").all_inner_texts()
    return [one for one in found if one not in ("in place", "lines", "matrix")]


@pytest.mark.parametrize(
    ("options", "pinned"),
    [
        ({"method": "raw", "kind": "encoder"}, []),
        ({"method": "raw", "kind": "cross", "merge": "words"}, []),
        ({"method": "raw", "kind": "cross"}, ["1"]),
        ({"method": "libra", "kind": "cross"}, ["1"]),
    ],
)
def test_a_token_of_the_answer_in_a_file_pins_no_other_row(connected, saved, options, pinned):
    page = saved(connected["dates"].generate("3/23/21", attention=options))
    page.locator("#answer .words button").nth(3).click()
    assert pressed(page, "#answer .words") == ["1"]
    assert pressed(page, "#look .tokens") == pinned


def test_rows_of_some_queries_have_the_names_of_their_tokens_and_no_numbers(connected, saved):
    whole = connected["dates-clm"].generate(CONTINUED, attention="raw").attention.tokens["target"]
    for queries in ([3], [2, 5]):
        attention = {"method": "raw", "queries": queries}
        page = saved(connected["dates-clm"].generate(CONTINUED, attention=attention))
        named = page.locator("#look .tokens button").all_text_contents()
        assert named == [whole[row].text for row in queries]
        page.locator("#answer .words button").nth(1).click()
        assert pressed(page, "#look .tokens") == []


@pytest.mark.parametrize(("method", "rows"), [("libra", 9), ("raw", None)])
def test_all_of_the_prompt_stands_before_the_answer_where_columns_are_words(go, method, rows):
    page = go(model="dates-clm", text=CONTINUED, merge="1", method=method)
    assert page.locator("#look .tokens").inner_text() == "march 3, 2021 = 2021-03-03[END]"
    assert "march 3, 2021 = 2021-03-03" in page.locator("#look .read").inner_text()
    assert rows in (None, page.locator("#look .tokens button").count())
    said = page.locator("#rests-on").all_inner_texts()
    assert len(said) == (method == "libra")
    for sentence in said:
        assert sentence.startswith("The answer rests on the text ")
        shares = [float(number) for number in re.findall(r"([\d.]+)\s*%", sentence)]
        assert len(shares) == 3
        assert abs(sum(shares) - 100) <= 2


def test_playing_stops_where_rows_are_others(go):
    page = go(model="dates", text="the 23rd of March 2021", method="raw")
    for other in ("[name=kind][value=encoder]", "[name=merge]"):  # the second is in a part that is closed
        page.click("#play")
        page.wait_for_function("() => document.querySelector('#play').textContent.includes('Stop')")
        page.locator(other).evaluate("(one) => one.click()")
        settled(page)
        assert page.locator("#play").count() == 0, "rows are no tokens of the answer"
        page.evaluate("() => { window.seen = document.querySelector('#look .readout').innerText }")
        page.wait_for_timeout(1200)
        assert page.evaluate("() => window.seen === document.querySelector('#look .readout').innerText")
        page.locator("[name=kind][value=cross]").check(force=True)
        settled(page)
