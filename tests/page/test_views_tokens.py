"""Tokens in place and lines between tokens."""

import numpy as np
import pytest

TEXT = "naïve 😀👍 cat"
RED, BLUE = "#e03c28", "#1f77d0"
RUBY = "all => all.map((one) => [one.firstChild.data, one.querySelector('rt').innerText])"
"""Words, and what stands below each."""


def token(text, start=None, end=None, **more):
    return {"text": text, "span": None if start is None else [start, end], "special": start is None, **more}


SOURCE = [
    token("[CLS]"),
    token("naï", 0, 3),
    token("ve", 3, 5),
    token("😀", 6, 7),
    token("👍", 7, 8),
    token("cat", 9, 12),
]
WRITTEN = [token("ja", 0, 2), token(" nein", 2, 7), token("</s>")]


def weights(rows, columns):
    """Return sharp weights, of which rows sum to one."""
    sharp = np.exp(2 * np.random.default_rng(5).normal(size=(rows, columns)))
    return (sharp / sharp.sum(-1, keepdims=True)).astype(np.float32)


def shown(view, component, **given):
    view.page.mouse.move(0, 0)
    view.page.evaluate("document.activeElement.blur()")
    view.show(component, **given)
    view.log()


def cut(view, text, tokens):
    return view.page.evaluate("([text, tokens]) => views.cut([...text], tokens)", [text, tokens])


def tints(view, selector):
    """Return the share of colour behind each element, in percent, and the colour."""
    code = """all => all.map(({ style }) => [parseFloat(style.getPropertyValue('--weight')),
      style.getPropertyValue('--tint')])"""
    return view.page.locator(selector).evaluate_all(code)


def test_a_text_is_cut_by_code_points(view):
    found = cut(view, TEXT, SOURCE)
    assert [piece["text"] for piece in found["pieces"]] == ["[CLS]", "naï", "ve", " ", "😀", "👍", " ", "cat", ""]
    assert found["owners"] == [0, 1, 2, 4, 5, 7]
    assert [piece["special"] for piece in found["pieces"]] == [True] + 8 * [False]


def test_tokens_that_overlap_share_a_piece_and_parts_of_a_character_have_none(view):
    tokens = [token("a", 0, 1), token("", 1, 1), token("😀", 1, 2), token("😀b", 1, 3), token("b", 2, 3)]
    found = cut(view, "a😀b", tokens)
    assert [piece["text"] for piece in found["pieces"]] == ["a", "😀", "b", ""]
    assert found["owners"] == [0, None, 1, 2, 2]
    found = cut(view, "ab", [token("ab", 0, 2), token("b", 1, 2), token("b", 1, 2)])
    assert found["owners"] == [0, 0, 0]


def test_a_piece_is_tinted_by_the_sum_of_its_tokens(view):
    code = "([weights, owners, count, signed]) => [...views.shares(weights, owners, count, signed)]"
    found = view.page.evaluate(code, [[0.2, 0.3, 0.1, 9], [0, 0, 2, None], 4, False])
    assert found == pytest.approx([1, 0, 0.2, 0])
    found = view.page.evaluate(code, [[0.2, -0.6, 0.1], [0, 1, 2], 3, True])
    assert found == pytest.approx([1 / 3, -1, 1 / 6])


def test_the_text_is_tinted_by_the_row_that_is_shown(view):
    values = weights(3, 6)
    shown(view, "InPlace", rows=WRITTEN, columns=SOURCE, values=values, text=TEXT, before="vorher")
    assert view.page.locator(".tokens").inner_text() == "vorherja nein</s>"
    assert view.page.locator(".read").inner_text().strip() == "[CLS]" + TEXT
    pieces = view.page.locator(".read span").all_text_contents()
    assert pieces == ["[CLS]", "naï", "ve", " ", "😀", "👍", " ", "cat", ""], "no character is cut in two"
    owners = [0, 1, 2, 4, 5, 7]
    for row in (0, 2, 1):
        view.page.locator(".tokens button").nth(row).hover()
        view.settle()
        expected = np.zeros(9)
        expected[owners] = values[row]
        found = [weight for weight, _ in tints(view, ".read span")]
        assert np.abs(np.array(found) - 45 * expected / expected.max()).max() <= 0.51
        assert view.page.locator(".tokens [aria-current=true]").inner_text().strip() == WRITTEN[row]["text"].strip()
    mixed = view.page.locator(".read span").evaluate_all(
        "all => all.map((one) => getComputedStyle(one).backgroundColor)"
    )
    assert len(set(mixed)) > 4, "the shares are seen"


def test_signed_shares_have_two_tints(view):
    values = np.array([[0.5, -0.25, 0.1, 0, -0.5, 0]], np.float32)
    shown(view, "InPlace", rows=WRITTEN[:1], columns=SOURCE, values=values, signed=True, text=TEXT)
    found = tints(view, ".read span")
    assert [found[at] for at in (0, 1, 5)] == [[45, RED], [22, BLUE], [45, BLUE]] or found[1][0] == 23


def test_the_same_tokens_are_one_line_of_chips(view):
    values = weights(6, 6)
    shown(view, "InPlace", rows=SOURCE, columns=SOURCE, values=values, same=True, pinned=3)
    assert view.page.locator(".read").count() == 0
    assert view.page.locator(".chips button").all_inner_texts() == ["[CLS]", "naï", "ve", "😀", "👍", "cat"]
    found = [weight for weight, _ in tints(view, ".chips button")]
    assert np.abs(np.array(found) - 45 * values[3] / values[3].max()).max() <= 0.51


def test_two_texts_are_tinted_each_in_its_place(view):
    second = [token("cat", 0, 3, sequence=1), token("[SEP]", sequence=1)]
    values = weights(1, 8)
    shown(view, "InPlace", rows=[token("score")], columns=[*SOURCE, *second], values=values, text=TEXT, pair="cats")
    assert [one.strip() for one in view.page.locator(".read").all_inner_texts()] == ["[CLS]" + TEXT, "cat[SEP]s"]
    found = np.array([weight for weight, _ in tints(view, ".read span")])
    owners = [0, 1, 2, 4, 5, 7, 9, 10]
    assert np.abs(found[owners] - 45 * values[0] / values.max()).max() <= 0.51
    assert np.delete(found, owners).max() == 0


@pytest.mark.parametrize("text", [None, TEXT])
def test_columns_without_one_text_are_chips(view, text):
    columns = SOURCE if text is None else [{**one, "sequence": at % 2} for at, one in enumerate(SOURCE)]
    shown(view, "InPlace", rows=[token("7")], columns=columns, values=weights(1, 6), text=text)
    assert view.page.locator(".read.chips span").all_inner_texts() == ["[CLS]", "naï", "ve", "😀", "👍", "cat"]


def test_hover_previews_click_pins_escape_unpins(view):
    shown(view, "InPlace", rows=SOURCE, columns=SOURCE, values=weights(6, 6), same=True)
    buttons = view.page.locator(".chips button")
    buttons.nth(2).hover()
    assert view.log() == [("onHover", 2)]
    buttons.nth(2).click()
    assert ("onPick", 2) in view.log()
    assert buttons.nth(2).get_attribute("aria-pressed") == "true"
    view.page.mouse.move(1, 1)
    view.page.keyboard.press("Escape")
    view.settle()
    assert ("onPick", None) in view.log()
    assert view.page.locator("[aria-pressed=true]").count() == 0


def test_tokens_are_one_stop_and_arrow_keys_move(view):
    shown(view, "InPlace", rows=SOURCE, columns=SOURCE, values=weights(6, 6), same=True, pinned=4)
    assert view.page.locator("#here [tabindex='0']").count() == 1
    view.page.keyboard.press("Tab")
    focused = lambda: int(view.page.evaluate("document.activeElement.dataset.at"))  # noqa: E731
    assert focused() == 4
    for key, at in [("ArrowLeft", 3), ("ArrowDown", 4), ("End", 5), ("ArrowRight", 5), ("Home", 0), ("ArrowUp", 0)]:
        view.page.keyboard.press(key)
        view.settle()
        assert focused() == at, key
        assert view.page.locator("[aria-current=true]").get_attribute("data-at") == str(at), "it is previewed"
        assert view.page.locator("#here [tabindex='0']").count() == 1
    view.page.keyboard.press("Enter")
    assert view.last("onPick") == 0


def test_unsure_tokens_are_marked(view):
    shown(view, "InPlace", rows=WRITTEN, columns=SOURCE, values=weights(3, 6), text=TEXT, sure=[0.913, 0.2, 1])
    found = view.page.locator(".tokens button")
    assert [one.get_attribute("title") for one in found.all()] == [
        f"probability {p}%" for p in ("91.3", "20.0", "100.0")
    ]
    assert ["unsure" in one.get_attribute("class") for one in found.all()] == [False, True, False]


def test_two_thousand_tokens_change_few_elements_at_a_hover(view):
    tokens = [token(f"w{at} ", 5 * at, 5 * at + 5) for at in range(2000)]
    values = np.zeros((2000, 2000), np.float32)
    values[np.arange(2000), (np.arange(2000) * 7) % 2000] = 1
    shown(view, "InPlace", rows=tokens, columns=tokens, values=values, same=True)
    view.page.evaluate("""() => {
      views.changes = 0
      views.observer = new MutationObserver((all) => (views.changes += all.length))
      const all = { attributes: true, subtree: true, childList: true }
      views.observer.observe(document.getElementById('here'), all) }""")
    view.page.evaluate("views.props.onHover(5)")
    view.settle()
    assert tints(view, "[data-at='35']")[0][0] == 45
    assert 0 < view.page.evaluate("views.changes") < 20
    view.page.evaluate("views.observer.disconnect()")


def test_the_readout_says_what_a_row_looks_at(view):
    values = [0.1, 0, 0.25, 0.05, -0.2, 0.6]
    code = "(given) => views.readout({ ...given, values: Float32Array.from(given.values) })"
    given = {
        "rows": [token("x y", 0, 3)],
        "columns": [*SOURCE[:5], {**SOURCE[5], "sequence": 1}],
        "values": values,
        "row": 0,
    }
    said = view.page.evaluate(code, given)
    assert (
        said
        == "“x␣y” looks most at “cat” at character 9 of the second text: 0.6, “ve” at character 3: 0.25, “[CLS]”: 0.1"
    )
    said = view.page.evaluate(code, {**given, "column": 4, "sure": 0.956, "explains": True})
    assert said == "“x␣y”, probability 95.6%, owes to “👍” at character 7: -0.2"
    assert view.page.evaluate(code, {**given, "values": [0] * 6}).endswith("looks most at nothing")


# Lines


def series(*heads):
    colours = ["#3b82f6", "#e07010", "#12935a"]
    return [
        {"name": f"head {at}", "colour": colours[at], "values": one, "signed": False} for at, one in enumerate(heads)
    ]


def lines(view, group, down=48, across=24):
    """Return the lines of a group as (from, to, colour, opacity); tokens are `down` and `across` pixels apart."""
    found = view.page.locator(f".lines svg > g:nth-child({group}) path").evaluate_all(
        "all => all.map((one) => ['d', 'stroke', 'stroke-opacity'].map((name) => one.getAttribute(name)))"
    )
    numbers = [[float(one) for one in path.replace("M", " ").replace("C", " ").split()] for path, *_ in found]
    return [(path[1] // down, path[-1] // across, colour, float(opacity))
            for path, (_, colour, opacity) in zip(numbers, found, strict=True)]  # fmt: skip


def test_a_line_is_drawn_for_each_weight_above_the_least(view):
    heads = weights(3, 6), weights(6, 3).T
    shown(view, "Lines", rows=WRITTEN, columns=SOURCE, series=series(*heads), least=0.2)
    top = max(head.max() for head in heads)
    expected = {(row, column, one["colour"], round(float(head[row, column] / top), 2))
                for one, head in zip(series(*heads), heads, strict=True)
                for row, column in np.argwhere(head > 0.2 * top)}  # fmt: skip
    found = lines(view, 1)
    assert {(row, column, colour) for row, column, colour, _ in found} == {one[:3] for one in expected}
    assert sorted(one[3] for one in found) == pytest.approx(sorted(one[3] for one in expected), abs=0.011)
    assert lines(view, 2) == []


def test_the_hovered_row_stands_alone_with_blocks_of_its_heads(view):
    heads = weights(3, 6), weights(6, 3).T
    shown(view, "Lines", rows=WRITTEN, columns=SOURCE, series=series(*heads), pinned=0)
    view.page.locator(".lines button").nth(1).hover()
    view.settle()
    assert view.last("onHover") == 1
    assert view.page.locator(".lines svg > g").first.get_attribute("visibility") == "hidden"
    found = lines(view, 2)
    assert {row for row, *_ in found} == {1}
    top = max(head[1].max() for head in heads)
    strong = {(1, column, one["colour"]) for one, head in zip(series(*heads), heads, strict=True)
              for column in range(6) if head[1, column] > 0.01 * top}  # fmt: skip
    assert {one[:3] for one in found} == strong
    assert max(one[3] for one in found) == 1, "at full strength"
    blocks = view.page.locator(".lines li").evaluate_all("all => all.map((one) => one.style.backgroundImage)")
    hottest = int(heads[0][1].argmax())
    assert f"rgba(59, 130, 246, {0.6 * heads[0][1, hottest] / top:.1f}" in blocks[hottest]
    view.page.mouse.move(1, 1)
    view.settle()
    assert {row for row, *_ in lines(view, 2)} == {0}, "the pinned one again"
    view.page.locator(".lines button").nth(0).focus()
    view.page.keyboard.press("Escape")
    assert view.last("onPick") is None


def test_one_signed_series_has_the_colours_of_signs(view):
    values = np.array([[0.5, -0.4], [-0.3, 0.2]], np.float32)
    one = {"name": "", "colour": "#3b82f6", "values": values, "signed": True}
    shown(view, "Lines", rows=WRITTEN[:2], columns=SOURCE[:2], series=[one], least=0.1)
    assert {found[:3] for found in lines(view, 1, 24)} == {(0, 0, RED), (0, 1, BLUE), (1, 0, BLUE), (1, 1, RED)}


def test_of_very_many_lines_the_largest_are_drawn_and_it_says_so(view):
    values = np.random.default_rng(6).random((100, 100)).astype(np.float32) + 0.5
    tokens = [token(f"w{at}", at, at + 1) for at in range(100)]
    shown(view, "Lines", rows=tokens, columns=tokens, series=series(values), least=0.1)
    found = lines(view, 1, 24)
    assert len(found) == 4000
    drawn = np.zeros((100, 100), bool)
    drawn[tuple(np.array([one[:2] for one in found], int).T)] = True
    assert drawn.sum() == 4000
    assert values[drawn].min() > np.sort(values, None)[-4000] - values.max() / 4096
    assert view.page.locator(".lines small").inner_text() == "The 4000 largest of 10000 lines are drawn."


def test_equal_weights_without_number_are_drawn_up_to_the_limit(view):
    values = np.full((100, 100), 0.01, np.float32)
    tokens = [token(f"w{at}", at, at + 1) for at in range(100)]
    shown(view, "Lines", rows=tokens, columns=tokens, series=series(values))
    assert view.page.locator(".lines path").count() == 4000


def test_series_that_are_made_anew_draw_no_line_anew(view):
    heads = weights(3, 6), weights(6, 3).T
    shown(view, "Lines", rows=WRITTEN, columns=SOURCE, series=series(*heads))
    view.page.evaluate("() => { views.first = document.querySelector('.lines path') }")
    view.page.evaluate("() => { views.first.setAttribute('stroke', 'untouched') }")
    view.page.evaluate("() => show('Lines', { ...views.props, series: views.props.series.map((one) => ({ ...one })) })")
    view.settle()
    assert view.page.evaluate("document.querySelector('.lines path').getAttribute('stroke')") == "untouched"
    view.page.evaluate("() => show('Lines', { ...views.props, series: views.props.series.slice(1) })")
    view.settle()
    assert {one[2] for one in lines(view, 1)} == {"#e07010"}


@pytest.mark.parametrize("method", ["libra", "relevance"])
def test_each_word_of_a_label_has_its_number_and_its_part_of_the_strongest_colour(view, method):
    """The large value of a special token, which has no words, makes no other paler; two parts of an emoji add up."""
    words = [token("naï", 0, 3), token("ve", 3, 5), token("😀", 6, 7), token("", 6, 7), token("cat", 8, 11)]
    tokens = [token("[CLS]"), *words, token("[END]")]
    values = np.array([0.1, 0.2, -0.4 if method == "libra" else 0.4, 0.3, 0.05, 0.1, 9.0])
    map_ = {"shape": [1, 1, 7], "heads": "sum", "values": [[values.tolist()]], "signed": method == "libra"}
    look = {"method": method, "maps": [map_], "tokens": {"source": tokens}, "text": "naïve 😀 cat"}
    view.show("LabelWords", look=look)
    said = view.page.locator("#opposite ruby").evaluate_all(RUBY)
    wanted = [("naï", values[1]), ("ve", values[2]), ("😀", values[3] + values[4]), ("cat", values[5])]
    assert [(text, float(number)) for text, number in said] == [(text, pytest.approx(one)) for text, one in wanted]
    for (share, colour), (_, value) in zip(tints(view, "#opposite ruby"), wanted, strict=True):
        assert share == pytest.approx(45 * abs(value) / 0.4, abs=0.51)
        assert colour == ("" if method == "relevance" else BLUE if value < 0 else RED)
