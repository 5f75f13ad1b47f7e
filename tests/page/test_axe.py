"""No rule of axe is broken: in light, dark and forced colours, wide and on a phone, before an answer and with one."""

import pytest

from tests.page.conftest import violations

UP_TO_DATE = {"exclude": [[".stale"]]}
"""What is dimmed is left out."""


def everywhere(seen):
    """Return what axe finds in light on a wide screen, in dark on a phone, and in a person's own few colours."""
    found = {}
    for width, scheme, forced in ((1440, "light", "none"), (390, "dark", "none"), (1440, "light", "active")):
        seen.page.set_viewport_size({"width": width, "height": 1000})
        seen.page.emulate_media(color_scheme=scheme, forced_colors=forced)
        seen.page.wait_for_timeout(100)  # transitions end
        if broken := violations(seen.page, context=UP_TO_DATE):
            found[width, scheme, forced] = broken
    return found


MODELS = ["digits", "dates", "scenes-detr", "captions-soft", "minilm", "dates-mlm"]
VIEWS = ["lines", "matrix"]
OBJECTS = ["object=1&compare=method:libra", "kind=decoder&object=1", "kind=encoder", "threshold=0", "threshold=1"]


@pytest.mark.parametrize(
    "look",
    [*MODELS, *(f"dates&view={view}&row=1" for view in VIEWS), *(f"scenes-detr&{objects}" for objects in OBJECTS)],
)
def test_no_rule_is_broken_with_an_answer(visit, look):
    seen = visit()
    seen.open(f"#model={look}")
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
    assert "image-alt" in violations(page, context=UP_TO_DATE)
