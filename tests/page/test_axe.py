"""No rule of axe is broken: in light and dark, wide and on a phone, before an answer, with one, and with a problem."""

import pytest

Axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is missing").Axe


def violations(page):
    """Return what axe finds: rules, and the elements that break them."""
    found = Axe().run(page).response["violations"]
    return {one["id"]: [node["html"][:200] for node in one["nodes"]] for one in found}


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("model", ["digits", "dates", "captions-soft", "minilm", "dates-mlm"])
def test_no_rule_is_broken_with_an_answer(visit, model, scheme, width):
    page = visit(width=width, scheme=scheme).open(f"#model={model}")
    assert violations(page) == {}


@pytest.mark.parametrize("view", ["lines", "matrix"])
def test_no_rule_is_broken_in_another_view(visit, view, scheme):
    page = visit(scheme=scheme).open(f"#model=dates&view={view}&row=1")
    assert violations(page) == {}


def test_no_rule_is_broken_before_an_answer(visit, scheme):
    seen = visit(scheme=scheme)
    seen.page.route("**/classify*", lambda route: None)  # no answer ever comes
    seen.page.goto(f"{seen.base}/#model=digits")
    seen.page.wait_for_selector("body[data-busy=true] #model")
    assert violations(seen.page) == {}


def test_no_rule_is_broken_with_everything_open_and_a_comparison(visit, scheme):
    seen = visit(scheme=scheme)
    page = seen.open("#model=digits&compare=method:raw&order=entropy")
    for summary in page.locator("summary").all():
        summary.click()
    seen.settle()
    assert violations(page) == {}


def test_no_rule_is_broken_with_a_problem(visit, scheme):
    seen = visit(scheme=scheme, refusals=True)
    page = seen.open("#model=digits&id=gone")
    page.locator("#problem:not(:empty)").wait_for()
    assert violations(page) == {}


def test_axe_finds_what_is_broken(visit):
    page = visit().open("#model=dates")
    page.evaluate("document.body.append(document.createElement('img'))")
    assert "image-alt" in violations(page)
