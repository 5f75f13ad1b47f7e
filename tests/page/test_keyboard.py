"""The page by keyboard alone."""

import pytest

FOCUSABLE = """() => [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')]
  .filter((one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility({ visibilityProperty: true }))
  .filter((one) => one.type !== 'radio' || one.checked)  // arrow keys lead to the others
  .map((one) => (one.dataset.stop ??= String(Math.random())))"""
FOCUSED = "() => document.activeElement?.dataset?.stop ?? null"
NAME_OF_FOCUSED = """() => {
  const { id, name, className, tagName } = document.activeElement
  return `${tagName} ${id || name || className}`
}"""


@pytest.mark.parametrize("model", ["digits", "dates", "scenes-detr"])
def test_tab_leads_to_every_control_and_out_again(visit, model):
    page = visit().open(f"#model={model}")
    stops = set(page.evaluate(FOCUSABLE))
    assert len(stops) > 15
    reached = set()
    for _ in range(len(stops) + 5):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(FOCUSED))
    missed = page.evaluate(
        "missed => [...document.querySelectorAll('[data-stop]')].filter((one) => missed.includes(one.dataset.stop))"
        ".map((one) => one.outerHTML.slice(0, 120))",
        sorted(stops - reached),
    )
    assert missed == []


def test_a_digit_is_looked_at_from_a_patch_and_a_patch_is_covered(visit):
    seen = visit()
    page = seen.open("#model=digits")
    page.locator("#method input:checked").focus()
    page.keyboard.press("ArrowLeft")  # to libra
    seen.settle()
    assert page.locator("#method input:checked").get_attribute("value") == "libra"
    assert page.evaluate(NAME_OF_FOCUSED) == "INPUT method"  # an answer takes the focus from nobody
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    seen.settle()
    assert page.locator("#method input:checked").get_attribute("value") == "raw"
    page.locator("#picture .cells").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    seen.settle()
    assert "Seen from the patch in row 2, column 1" in page.inner_text("#look .readout")
    page.keyboard.press("c")
    seen.settle()
    assert "covered=15" in page.url
    assert "was" in page.inner_text("#answer")
    assert page.evaluate("() => document.activeElement.className.split(' ')[0]") == "cells"


def test_a_model_an_example_and_a_token_are_chosen(visit):
    seen = visit()
    page = seen.open()
    page.locator("#model").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    seen.settle()
    if page.locator("#model").input_value() == "digits":  # a list that was opened, and not chosen from
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        seen.settle()
    assert page.locator("#model").input_value() != "digits"
    page.goto(page.url.split("#")[0] + "#model=dates")
    page.reload()
    seen.settle()
    page.locator("#example-1").focus()
    page.keyboard.press("Enter")
    seen.settle()
    assert page.evaluate("() => document.activeElement.id") == "example-1"
    page.locator("#looks .tokens [tabindex='0']").first.focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    seen.settle()
    assert "row=2" in page.url
    page.keyboard.press("Escape")
    assert "row=" not in page.url
