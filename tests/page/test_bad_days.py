"""What the page says when the service refuses, is away or has forgotten, and that it goes on afterwards."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.page.conftest import answering
from tests.samples.api_keys import line
from tests.samples.in_process import in_process


def problem(page):
    """Return the words of the problem once there is one."""
    page.locator("#problem:not(:empty)").wait_for()
    return page.locator("#problem").inner_text()


def solved(page):
    page.wait_for_selector("#problem:empty", state="attached")


def dimmed(page):
    """Return which of the answer and the look are drawn as out of date."""
    opacity = """(one) => {
      let product = 1
      for (let at = one; at; at = at.parentElement) product *= getComputedStyle(at).opacity
      return product
    }"""
    drawn = {"answer": "#answer :is(.words, .labels)", "look": "#look .readout"}
    return [name for name, one in drawn.items() if page.locator(one).first.evaluate(opacity) < 0.6]


def written(page):
    """Return the text that was generated."""
    return "".join(page.locator("#answer .words button").all_inner_texts()).replace("·", "")


def document(status, detail):
    return json.dumps({"type": "about:blank", "title": "x", "status": status, "detail": detail})


def test_a_service_that_is_stopped_is_named_and_asked_again_when_it_is_back(visit):
    seen = visit(refusals=True)
    page = seen.open("#model=dates")
    page.route("**/v1/**", lambda route: route.abort("connectionrefused"))
    page.locator("#text").fill("3 May 2021")
    page.locator("#ask").click()
    assert "did not answer" in problem(page)
    assert dimmed(page) == ["answer", "look"], "an old answer looks new"
    page.unroute("**/v1/**")
    page.locator("#again").click()
    solved(page)
    seen.settle()
    assert written(page) == "2021-05-03"
    assert dimmed(page) == []


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A service that asks for a key."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(line("sesame"))
    with in_process(ROOT / "model/artifacts", api_keys=keys) as client:
        yield str(client.base_url).rstrip("/")


def test_a_key_is_asked_for_once_and_kept_for_the_tab(visit, locked, tmp_path):
    seen = visit(base=locked, refusals=True)
    page = seen.page
    page.goto(f"{locked}/")
    page.locator("dialog#ask-key[open]").wait_for()
    page.locator("#key").fill("wrong")
    page.locator("#key").press("Enter")
    page.locator("dialog#ask-key[open]").wait_for()
    page.locator("#key").fill("sesame")
    page.locator("#key").press("Enter")
    page.locator("dialog#ask-key[open]").wait_for(state="hidden")
    page.locator("#answer li, #answer .words").first.wait_for()
    seen.settle()
    assert seen.shades("#picture canvas")[0] > 50
    assert "sesame" not in page.content() + page.url
    assert "$REGARD_KEY" in page.locator("#request pre").inner_text()
    page.click("#code-Python")
    program = page.locator("#request pre").inner_text()
    assert "# REGARD_KEY holds the key" in program
    told = {**os.environ, "REGARD_KEY": "sesame"}
    name = re.search(r'model\.classify\("([^"]+)"', program)[1]
    shutil.copy(ROOT / "tests/data/digits/seven.png", tmp_path / name)
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=told, check=True)
    page.reload()
    seen.settle()
    assert page.locator("dialog#ask-key[open]").count() == 0
    assert page.evaluate("localStorage.length") == 0


def test_the_viewer_is_there_without_a_key(visit, locked):
    page = visit(base=locked).page
    page.goto(f"{locked}/docs")
    page.locator(".opblock").first.wait_for()


def test_a_text_that_is_too_long_is_refused_in_the_services_words(visit, service):
    seen = visit(refusals=True)
    page = seen.open("#model=dates")
    text = "12 " * 400
    wanted = service.post("/v1/models/dates/generate", json={"inputs": text}).json()
    page.locator("#text").fill(text)
    page.locator("#ask").click()
    said = problem(page)
    for words in (wanted["detail"], *(one["msg"] for one in wanted.get("errors", ()))):
        assert words in said
    page.locator("#text").fill("3 May 2021")
    page.locator("#ask").click()
    solved(page)


@pytest.mark.parametrize("status", [413, 422, 500, 504])
def test_a_refusal_is_shown_in_its_words(visit, status):
    seen = visit(refusals=True)
    page = seen.open("#model=digits")
    with answering(page, "**/v1/attention/**", *[(status, {}, document(status, "map: too odd"))] * 2):
        page.locator("[name=method][value=raw]").check(force=True)
        assert "map: too odd" in problem(page)
    page.locator("[name=method][value=rollout]").check(force=True)
    solved(page)


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_asked_again_by_itself_after_the_time_that_it_names(visit, status):
    seen = visit(refusals=True)
    page = seen.open("#model=dates")
    busy = (status, {"Retry-After": "2", "Content-Type": "application/problem+json"}, document(status, "queue: full"))
    with answering(page, "**/generate*", busy):
        page.locator("#text").fill("3 May 2021")
        page.locator("#ask").click()
        assert "queue: full" in problem(page)
        page.locator("#again:disabled", has_text=re.compile("Try again in [12] s")).wait_for()
        solved(page)
        seen.settle()
    assert written(page) == "2021-05-03"


def test_an_id_that_has_gone_is_said_and_the_page_goes_on(visit):
    seen = visit(refusals=True)
    page = seen.open("#model=digits&id=0123456789abcdef0123456789abcdef")
    assert "no longer has this input" in problem(page)
    page.locator("#example-1").click()
    solved(page)
    seen.settle()
    assert seen.shades("#picture canvas")[0] > 50


def test_a_model_that_has_gone_gives_way_to_the_first(visit, service):
    page = visit().open("#model=nothing")
    first = service.get("/v1/models").json()["models"][0]["name"]
    assert page.locator("#model").input_value() == first
    assert "This service has no model “nothing”." in page.inner_text("header")
    assert page.url.endswith(f"#model={first}")


def test_an_old_answer_is_dimmed_the_moment_that_another_question_is_asked(visit):
    seen = visit()
    page = seen.open("#model=dates")
    held = []
    page.route("**/generate*", lambda route: held.append(route))
    page.locator("#text").fill("3 May 2021")
    page.locator("#ask").click()
    page.wait_for_selector("body[data-busy=true]")
    assert dimmed(page) == ["answer", "look"]
    held[0].continue_()
    seen.settle()
    assert dimmed(page) == []


def test_a_stream_may_hold_comments_and_separators_of_lines(visit):
    seen = visit()

    def interrupted(route):
        answer = route.fetch()
        body = ": still there\n\n" + answer.text().replace('"text":"2"', '"text":"2\u2028"')
        assert "\u2028" in body
        route.fulfill(response=answer, body=body)

    seen.page.route("**/generate", interrupted)
    page = seen.open("#model=dates")
    assert page.locator("#problem").inner_text() == ""
    assert written(page).replace("\u2028", "").replace("\n", "") == "2021-03-23"
