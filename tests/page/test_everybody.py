"""The page for people who hear it, use keys alone, choose their own colours, or read from right to left."""

import pytest

from tests.page.conftest import drawn, settled

STATUS = "#answer [role=status]"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("digits", "3, 95.6%"),
        ("scenes-detr", " objects: "),
        ("dates-mlm", "%"),
        ("dates", "-"),
    ],
)
def test_an_answer_is_announced(go, model, said):
    page = go(model=model)
    page.locator("#example-1").focus()
    page.keyboard.press("Enter")
    settled(page)
    assert said in page.locator(STATUS).text_content()
    top = page.locator("#answer .labels span, #answer .found span, #answer .words button").first.text_content()
    assert top.strip() in page.locator(STATUS).text_content()


def test_a_heat_map_has_words_and_a_table(go):
    page = go(model="digits", method="raw")
    assert (
        page.locator("#picture .cells").get_attribute("aria-label")
        == "Heat map, 7 \u00d7 7 patches; arrow keys move over them"
    )
    readout = page.inner_text("#look .readout")
    assert "Hottest: row " in readout
    assert "; coldest: row " in readout
    page.click("#look .as-table summary")
    page.wait_for_selector("#look .as-table tbody")
    numbers = page.locator("#look .as-table td").all_inner_texts()
    cells = [float(one.split()[0]) for at, one in enumerate(numbers) if at % 8]
    assert len(cells) == 49
    row, column = divmod(cells.index(max(cells)), 7)
    assert f"Hottest: row {row}, column {column} (" in readout
    page.locator("#picture .cells").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("c")
    settled(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert ", which is covered" in page.inner_text("#look .readout")


def test_a_text_has_a_table_of_the_row_that_is_seen_and_of_the_matrix(go):
    page = go(model="dates", method="raw")
    page.click("#look .as-table summary")
    page.wait_for_selector("#look .as-table tbody")
    shares = [float(one) for one in page.locator("#look .as-table td:nth-child(2)").all_inner_texts()]
    assert sum(shares) == pytest.approx(1, abs=0.02)
    page = go(model="dates", method="raw", view="matrix")
    label = page.locator(".matrix-cells").get_attribute("aria-label")
    page.click("#look .as-table summary")
    page.wait_for_selector("#look .as-table tbody")
    rows, columns = page.locator("#look .as-table tbody tr").count(), page.locator("#look .as-table th").count() - 1
    assert f"{rows} rows and {columns} columns" in label
    assert page.locator(".matrix-rows").get_attribute("aria-hidden") == "true"


STOPS = """() => {
  const { id, name, className, textContent } = document.activeElement
  return id || name || className || textContent.slice(0, 20)
}"""


def stops_to(page, name, most=30):
    """Press Tab until something has the focus; return what had it on the way."""
    found = []
    for _ in range(most):
        page.keyboard.press("Tab")
        found.append(page.evaluate(STOPS))
        if found[-1] == name:
            return found
    raise AssertionError(found)


@pytest.mark.parametrize("model", ["dates", "digits"])
def test_the_main_job_takes_at_most_twelve_stops(go, model):
    page = go(model=model)
    first = stops_to(page, "text" if model == "dates" else "example-0")
    assert first[0] == "skip"
    if model == "dates":
        page.keyboard.press("Control+a")
        page.keyboard.type("12 May 2020")
    page.keyboard.press("Enter")
    settled(page)
    then = stops_to(page, "skip")
    page.keyboard.press("Enter")
    assert page.evaluate(STOPS) == "controls"
    then += stops_to(page, "method")
    page.keyboard.press("ArrowLeft")
    settled(page)
    assert "method=" in page.url
    assert len(first) + len(then) <= 12, (first, then)
    page.locator(".skip").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(STOPS) == "look"


def test_buttons_of_a_group_are_one_stop_and_arrow_keys_lead_over_them(go):
    page = go(model="dates")
    for group in ("#answer .words", ".examples", "#look .tabs"):
        assert page.locator(f"{group} button:not([tabindex='-1'])").count() == 1, group
    page.locator("#answer .words button").first.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    drawn(page)
    assert "row=8" in page.url


def test_controls_come_before_the_request(go):
    page = go(model="dates")
    order = page.evaluate("[...document.querySelectorAll('main section')].map(({ id }) => id)")
    assert order.index("look") < order.index("controls") < order.index("heads") < order.index("request")


def test_a_text_from_right_to_left_runs_so_and_keys_follow(go):
    page = go(model="minilm", text="مرحبا بالعالم", method="raw")
    tokens = page.locator("#looks .tokens")
    assert tokens.get_attribute("dir") == "rtl"
    places = [one.bounding_box()["x"] for one in tokens.locator("button").all()[:3]]
    assert places[0] > places[1] > places[2]
    tokens.locator("button").first.focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.at") == "1"
    assert go(model="minilm", text="the cat").locator("#looks .tokens").get_attribute("dir") == "ltr"


LOOKS_CHOSEN = (
    """(one) => { const { outlineStyle, outlineColor } = getComputedStyle(one); return outlineStyle + outlineColor }"""
)


def test_in_forced_colours_what_is_chosen_and_how_sure_it_is_are_seen(visit):
    seen = visit(forced_colors="active")
    page = seen.open("#model=digits&method=raw&covered=7,8&compare=input")
    chosen, other = (page.locator(f"#method input[value={name}] + span") for name in ("raw", "libra"))
    assert chosen.evaluate(LOOKS_CHOSEN) != other.evaluate(LOOKS_CHOSEN)
    pressed, plain = page.locator("#example-0"), page.locator("#example-1")
    assert pressed.evaluate(LOOKS_CHOSEN) != plain.evaluate(LOOKS_CHOSEN)
    bar = "(one) => getComputedStyle(one).backgroundColor"
    assert page.locator("#answer .labels div div").first.evaluate(bar) != page.locator(
        "#answer .labels div"
    ).first.evaluate(bar)
    assert "gradient" in page.locator("#picture .mark.covered").first.evaluate(
        "(one) => getComputedStyle(one).backgroundImage"
    )
    assert (
        page.locator("#picture .mark.covered").first.evaluate("(one) => getComputedStyle(one).forcedColorAdjust")
        == "none"
    )
    page = seen.open("#model=dates-mlm&method=raw")
    page.reload()
    seen.settle()
    tints = {one.evaluate(bar) for one in page.locator("#looks .tokens button").all()}
    assert len(tints) > 2


def test_every_method_is_explained_where_it_is_pointed_at_and_to_those_who_hear(go):
    page = go(model="digits")
    for label in page.locator("#method label").all():
        term = label.locator("span").get_attribute("data-term")
        assert len(term) > 20
        assert label.locator("input").get_attribute("aria-description") == term
    for name in ("kind", "align"):  # the group's term where an option has none of its own
        dates = go(model="dates", method="raw").locator(f"#{name} label").first
        assert dates.locator("span").get_attribute("data-term") == dates.locator("input").get_attribute(
            "aria-description"
        )
        assert len(dates.locator("span").get_attribute("data-term")) > 20
    page.locator("#order").focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    page.wait_for_timeout(800)
    assert "entropy" in page.locator("#order + span").evaluate("(one) => getComputedStyle(one, '::after').content")
    page.locator("#method label").first.hover()
    page.wait_for_timeout(800)
    after = page.locator("#method span").first.evaluate("(one) => getComputedStyle(one, '::after').visibility")
    assert after == "visible"
