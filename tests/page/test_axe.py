"""No rule of axe is broken: in light and dark, wide and on a phone, before an answer, with one, and with a problem."""

import pytest

Axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is missing").Axe


def violations(page):
    """Return what axe finds: rules, and the elements that break them. What is dimmed is out of date."""
    found = Axe().run(page, context={"exclude": [[".stale"]]}).response["violations"]
    return {one["id"]: [node["html"][:200] for node in one["nodes"]] for one in found}


def everywhere(seen):
    """Return what axe finds in light on a wide screen, and in dark on a phone."""
    found = {}
    for width, scheme in ((1440, "light"), (390, "dark")):
        seen.page.set_viewport_size({"width": width, "height": 1000})
        seen.page.emulate_media(color_scheme=scheme)
        seen.page.wait_for_timeout(100)  # transitions end
        if broken := violations(seen.page):
            found[width, scheme] = broken
    return found


@pytest.mark.parametrize("model", ["digits", "dates", "scenes-detr", "captions-soft", "minilm", "dates-mlm"])
def test_no_rule_is_broken_with_an_answer(visit, model):
    seen = visit()
    seen.open(f"#model={model}")
    assert everywhere(seen) == {}


@pytest.mark.parametrize("view", ["lines", "matrix"])
def test_no_rule_is_broken_in_another_view(visit, view):
    seen = visit()
    seen.open(f"#model=dates&view={view}&row=1")
    assert everywhere(seen) == {}


@pytest.mark.parametrize(
    "look", ["object=1&compare=method:libra", "kind=decoder&object=1", "kind=encoder", "threshold=0", "threshold=1"]
)
def test_no_rule_is_broken_with_objects(visit, look):
    seen = visit()
    seen.open(f"#model=scenes-detr&{look}")
    assert everywhere(seen) == {}


def test_no_rule_is_broken_before_an_answer(visit):
    seen = visit()
    seen.page.route("**/classify*", lambda route: None)  # no answer ever comes
    seen.page.goto(f"{seen.base}/#model=digits")
    seen.page.wait_for_selector("body[data-busy=true] #model")
    assert everywhere(seen) == {}


def test_no_rule_is_broken_with_everything_open_and_a_comparison(visit):
    seen = visit()
    page = seen.open("#model=digits&compare=method:raw&order=entropy")
    for summary in page.locator("summary").all():
        summary.click()
    seen.settle()
    assert everywhere(seen) == {}


def test_no_rule_is_broken_with_a_problem(visit):
    seen = visit(refusals=True)
    page = seen.open("#model=digits&id=gone")
    page.locator("#problem:not(:empty)").wait_for()
    assert everywhere(seen) == {}


def test_axe_finds_what_is_broken(visit):
    page = visit().open("#model=dates")
    page.evaluate("document.body.append(document.createElement('img'))")
    assert "image-alt" in violations(page)
