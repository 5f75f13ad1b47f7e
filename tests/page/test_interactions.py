"""What a person does on the page, row by row of the table in docs/page.md, in Chromium, against a running service.

A test asserts on the state of the page and on figures of its pixels, never on a stored picture.
"""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tests.conftest import ROOT
from tests.page.conftest import asked, canvas_of, settled, state_of, stroke
from tests.samples.in_process import in_process

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect

SEVEN = ROOT / "tests/data/digits/seven.png"
MARCH = "the 23rd of March 2021"


def text_of(page, selector):
    return page.inner_text(selector)


def chips(page):
    return page.locator("#looks .tokens [data-at]")


def pixels(page, selector, at=0):
    """Return the pixels of one of the canvases that a selector finds (height, width, 3)."""
    return canvas_of(page.locator(selector).nth(at))


def looks_asked(page):
    """Return the options of every look that was fetched."""
    return asked(page, "/v1/attention/")


# The input


def test_the_page_is_alive_before_anybody_asks(go):
    page = go()
    expect(page.locator("#answer .labels li").first).to_be_visible()
    assert np.ptp(pixels(page, "#picture canvas")) > 50


def test_examples_suit_the_model_and_are_pictures_where_it_sees(go):
    page = go(model="digits")
    assert page.locator("#input .thumb").count() == 8
    first = text_of(page, "#answer")
    page.click("#example-3")
    settled(page)
    assert text_of(page, "#answer") != first
    page = go(model="dates")
    assert page.locator("#input .sample").first.inner_text() == "the twenty-third of March 2021"
    assert "2021-03-23" in text_of(page, "#answer")


def test_a_text_is_edited_and_asked_again(go):
    page = go(model="dates")
    page.fill("#text", "3 apr 1999")
    page.press("#text", "Enter")
    settled(page)
    assert "1999-04-03" in text_of(page, "#answer")
    assert state_of(page)["text"] == "3 apr 1999"


def test_a_drawing_is_answered_when_the_pen_is_lifted(go):
    page = go(model="digits")
    page.click("#clear")
    expect(page.locator("#answer")).to_contain_text("Ask something")
    stroke(page, (0.5, 0.2), (0.5, 0.8))
    settled(page)
    expect(page.locator("#answer .labels li").first).to_contain_text("1")


def test_an_image_is_chosen_dropped_and_pasted(go):
    page = go(model="digits")
    page.set_input_files("#choose-file", SEVEN)
    settled(page)
    expect(page.locator("#answer .labels li").first).to_contain_text("7")
    content = list((ROOT / "tests/data/digits/four.webp").read_bytes())
    for event, name in (("drop", "dataTransfer"), ("paste", "clipboardData")):
        page.click("#clear")
        page.evaluate(
            """([event, name, content]) => {
                const data = new DataTransfer()
                data.items.add(new File([new Uint8Array(content)], 'four.webp', { type: 'image/webp' }))
                const sent = new Event(event, { bubbles: true, cancelable: true })
                Object.defineProperty(sent, name, { value: data })
                document.body.dispatchEvent(sent)
            }""",
            [event, name, content],
        )
        settled(page)
        expect(page.locator("#answer .labels li").first).to_contain_text("4")


def test_a_large_photo_and_a_gif_are_scaled_in_the_browser(go, tmp_path):
    page = go(model="digits")
    sent = []
    page.on("request", lambda request: request.method == "POST" and sent.append(request))
    Image.open(SEVEN).convert("RGB").resize((8000, 6000)).save(tmp_path / "large.jpg")  # 48 megapixels
    Image.open(SEVEN).convert("P").save(tmp_path / "seven.gif")
    for name in ("large.jpg", "seven.gif"):
        page.set_input_files("#choose-file", tmp_path / name)
        settled(page)
        expect(page.locator("#answer .labels li").first).to_contain_text("7")
    assert [request.headers["content-type"] for request in sent] == ["image/jpeg", "image/png"]
    assert sent[0].sizes()["requestBodySize"] < 1 << 20


def test_a_picture_that_the_browser_cannot_show_is_answered_and_its_heat_is_seen(go, tmp_path):
    page = go(model="digits")
    Image.open(SEVEN).save(tmp_path / "seven.tif")
    page.set_input_files("#choose-file", tmp_path / "seven.tif")
    settled(page)
    expect(page.locator("#answer .labels li").first).to_contain_text("7")
    expect(page.locator("#input")).to_contain_text("seven.tif: the browser cannot show it, the model may read it.")
    assert page.locator("#look canvas").count()


# The look


def test_hover_previews_click_pins_and_escape_unpins(go):
    page = go(model="dates", text=MARCH, view="place")
    first = text_of(page, "#look .readout")
    chips(page).nth(8).hover()
    hovered = text_of(page, "#look .readout")
    assert hovered != first
    assert "row" not in state_of(page)
    page.mouse.move(0, 0)
    assert text_of(page, "#look .readout") == first
    chips(page).nth(8).click()
    page.mouse.move(0, 0)
    assert text_of(page, "#look .readout") == hovered
    assert state_of(page)["row"] == "8"
    chips(page).nth(2).hover()
    assert text_of(page, "#look .readout") != hovered
    page.mouse.move(0, 0)
    assert text_of(page, "#look .readout") == hovered  # hovering does not lose what is pinned
    page.keyboard.press("Escape")
    assert "row" not in state_of(page)


def test_lines_between_tokens_are_coloured_by_head_and_thinned_by_a_threshold(go):
    page = go(model="dates-mlm", method="raw", heads="0,2", view="lines")
    colours = page.eval_on_selector_all(
        "#looks svg path", "all => [...new Set(all.map((one) => getComputedStyle(one).stroke))]"
    )
    assert len(colours) == 2
    before = page.locator("#looks svg path").count()
    page.click(".drawing summary")
    page.fill("#keep", "0.3")
    assert 0 < page.locator("#looks svg path").count() < before / 2


def test_heads_are_toggled_and_a_double_click_leaves_one_alone(go):
    page = go(model="dates-mlm", method="raw", heads="0", view="matrix")
    page.locator("#heads-choice, fieldset#heads label", has_text=re.compile("^2$")).first.click()
    expect(page.locator("#looks canvas")).to_have_count(2)
    assert state_of(page)["heads"] == "0,2"
    page.locator("fieldset#heads label", has_text=re.compile("^3$")).first.dblclick()
    assert state_of(page)["heads"] == "3"
    expect(page.locator("#looks canvas")).to_have_count(1)


def test_every_head_is_a_thumbnail_and_a_click_makes_one_large(go):
    page = go(model="digits")
    thumbnails = page.locator("#heads button.thumbnail")
    expect(thumbnails).to_have_count(16)
    assert len({pixels(page, "#heads canvas", at).tobytes() for at in range(16)}) == 16
    thumbnails.nth(6).click()
    settled(page)
    assert (state_of(page)["method"], state_of(page)["layer"], state_of(page)["heads"]) == ("raw", "1", "2")
    expect(thumbnails.nth(6)).to_have_attribute("aria-pressed", "true")


def test_heads_are_sorted_by_figures_and_each_leads_to_its_head(go):
    page = go(model="digits", order="entropy")
    said = page.eval_on_selector_all("#heads button.thumbnail small", "all => all.map((one) => one.textContent)")
    numbers = [float(one.rsplit(", ", 1)[1]) for one in said]
    assert numbers == sorted(numbers)
    assert len(numbers) == 16
    layer, head = re.match(r"L(\d+) H(\d+)", said[0]).groups()
    page.locator("#heads button.thumbnail").first.click()
    settled(page)
    assert (state_of(page).get("layer", "3"), state_of(page)["heads"]) == (layer, head)
    page.select_option("#order", "distance")
    assert "distance" in page.locator("#heads button.thumbnail").first.get_attribute("aria-label")


def test_a_layer_is_chosen(go):
    page = go(model="digits", method="raw")
    before = pixels(page, "#picture canvas")
    page.fill("#layer", "0")
    settled(page)
    assert "Layer 0 of 0 to 3" in text_of(page, "#controls")
    assert np.abs(pixels(page, "#picture canvas") - before).max() > 20


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_each_kind_of_attention_has_its_rows_and_columns(go, kind):
    page = go(model="dates", text=MARCH, kind=kind, view="lines")
    target, source = 11, len(MARCH)  # tokens: "2021-03-23" and the end
    assert chips(page).count() == (source if kind == "encoder" else target)
    assert page.locator("#looks ol li").count() == (target if kind == "decoder" else source)
    assert any(one["kind"] == kind for one in looks_asked(page))


def test_the_full_matrix_is_one_canvas_and_names_its_cells(go):
    page = go(model="dates", text=MARCH, view="matrix")
    expect(page.locator("#looks canvas")).to_have_count(1)
    box = page.locator("#looks canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.5)
    assert re.search(r"owes to “.*” at character \d+", text_of(page, "#look .readout"))


def test_special_tokens_are_hidden(go):
    page = go(model="dates-mlm", method="raw", view="place")
    assert "[START]" in text_of(page, "#looks")
    page.click(".drawing summary")
    page.check("[name=special]")
    assert "[START]" not in text_of(page, "#looks")


def test_words_stand_in_place_of_tokens(go):
    page = go(model="dates-mlm", method="raw", view="place")
    before = chips(page).count()
    page.click(".drawing summary")
    page.check("[name=merge]")
    settled(page)
    words = chips(page).count()
    assert words < before / 2
    page.check("[name=sentences]")
    settled(page)
    assert not page.is_checked("[name=merge]")
    assert chips(page).count() < words


def test_a_token_is_masked_changed_or_left_out_and_both_answers_stand_side_by_side(go):
    page = go(model="dates", text="3/23/21", kind="encoder", method="raw", view="place")
    chips(page).nth(3).click()
    page.fill("[name=instead]", "5")
    page.click("text=Change it and compare")
    settled(page)
    assert state_of(page)["with"] == "3/25/21"
    answer = text_of(page, "#answer")
    assert "2021-03-23" in answer
    assert "2021-03-25" in answer
    assert "difference" in text_of(page, "#looks")
    page = go(model="dates-mlm", text="the 2[MASK]rd of March 2021", method="raw", view="place", row="5")
    page.click("#mask")
    settled(page)
    assert state_of(page)["with"].count("[MASK]") == 2
    page.click("#remove")
    settled(page)
    assert len(state_of(page)["with"]) < len("the 2[MASK]rd of March 2021")


def test_a_covered_patch_changes_answer_and_map(go):
    page = go(model="digits", method="rollout")
    box = page.locator("#picture .cells").first.bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + box["height"] * 0.4, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    settled(page)
    assert len(state_of(page)["covered"].split(",")) >= 14
    assert "was" in text_of(page, "#answer")
    assert page.locator("#picture figure").count() >= 2
    page.click("#uncover")
    settled(page)
    assert page.locator("#picture figure").count() == 1


def test_nothing_is_left_of_a_picture_whose_patches_are_all_covered(go):
    """Patches of no whole pixels left seams, and the service answered about them with a probability of 93 %."""
    page = go(model="digits")
    covered = """async () => {
      const { coveredImage } = await import('/page/image_file.js')
      const canvas = Object.assign(document.createElement('canvas'), { width: 160, height: 117 })
      const pen = canvas.getContext('2d')
      pen.fillStyle = 'white'
      pen.fillRect(0, 0, 160, 117)
      pen.fillStyle = 'black'
      pen.fillRect(5, 5, 150, 107)
      const image = { width: 28, height: 28, box: { left: 0, top: 0, right: 28, bottom: 28 } }
      const { bitmap } = coveredImage(canvas, { image, rows: 7, columns: 7 }, [...Array(49).keys()])
      const { data } = bitmap.getContext('2d').getImageData(0, 0, 160, 117)
      return new Set(new Uint32Array(data.buffer)).size
    }"""
    assert page.evaluate(covered) == 1


def test_what_cannot_be_measured_leads_to_what_can(go):
    page = go(model="dates", kind="encoder")
    page.click("#evaluation summary")
    expect(page.locator("#evaluation")).to_contain_text("Of this nothing can be taken away and asked anew.")
    page.click("#evaluation button")
    settled(page)
    assert state_of(page)["kind"] == "cross"
    expect(page.locator("#evaluation .curves figure")).to_have_count(2)


def test_methods_explain_themselves_and_the_recommended_one_comes_first(go):
    page = go(model="digits")
    expect(page.locator("#method input:checked")).to_have_value("integrated")
    assert "It measured best on this model (deletion area" in text_of(page, "#controls")
    for method in ("raw", "rollout", "norm", "relevance", "libra"):
        page.locator(f"#method input[value={method}]").check(force=True)
        settled(page)
        assert page.locator("#problem").inner_text() == ""
        assert len(text_of(page, ".meaning")) > 40
    assert {call["attention"] for call in looks_asked(page)} >= {"raw", "rollout", "norm", "relevance", "libra"}


def test_classes_stand_side_by_side_on_one_scale(go):
    page = go(model="digits", method="libra", target="7,1", example="7", full="1")
    expect(page.locator("#picture figure")).to_have_count(2)
    assert text_of(page, "#picture").split() == ["for", "“7”", "for", "“1”"]
    before = [pixels(page, "#picture canvas", at) for at in (0, 1)]
    page.click(".drawing summary")
    page.check("[name=own]")
    assert "up to" in text_of(page, "#picture")
    same = [(pixels(page, "#picture canvas", at) == before[at]).all() for at in (0, 1)]
    assert same == [True, False]  # the first has the largest value, so the common scale was its own


def test_curves_have_axes_and_areas(go):
    page = go(model="digits")
    page.click("#evaluation summary")
    expect(page.locator("#evaluation svg")).to_have_count(2)
    said = text_of(page, "#evaluation")
    assert "75%" in said
    assert len(re.findall(r"Area 0\.\d+, in 5 random orders \(the band\) 0\.\d+ to 0\.\d+", said)) == 2


def test_an_image_is_seen_from_any_patch(go):
    page = go(model="digits", method="raw")
    before = pixels(page, "#picture canvas")
    box = page.locator("#picture .cells").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    settled(page)
    assert state_of(page)["row"] == "24"
    assert "Seen from the patch in row 3, column 3" in text_of(page, "#look .readout")
    assert np.abs(pixels(page, "#picture canvas") - before).max() > 20
    page.locator("#picture .cells").press("Escape")
    settled(page)
    assert "the class token" in text_of(page, "#look .readout")


def test_a_slider_may_move_more_often_than_a_browser_lets_the_address_change(go):
    page = go(model="digits")
    page.click(".drawing summary")
    page.evaluate(
        """() => {
          const whole = history.replaceState.bind(history)
          let calls = 0
          history.replaceState = (...given) => {
            if (++calls > 1 && calls < 4) throw new DOMException('too often', 'SecurityError')
            whole(...given)
          }
        }"""
    )
    for step in range(100, 49, -1):
        page.fill("#opacity", str(step / 100))
    page.wait_for_function("() => location.hash.includes('opacity=0.5')")
    page.fill("#opacity", "0.9")
    page.wait_for_function("() => location.hash.includes('opacity=0.9')")


def test_enter_that_takes_what_an_input_method_offers_sends_nothing(go):
    page = go(model="dates")
    page.fill("#text", "3 May 2021")
    enter = "(one, isComposing) => one.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', isComposing, %s }))"
    page.locator("#text").evaluate(enter % "bubbles: true, cancelable: true", True)
    page.wait_for_timeout(200)
    assert "text=" not in page.url
    page.locator("#text").evaluate(enter % "bubbles: true, cancelable: true", False)
    page.wait_for_function("() => location.hash.includes('text=')")


def test_the_colour_map_and_opacity_are_chosen(go):
    page = go(model="digits", method="raw")
    before = pixels(page, "#picture canvas")
    page.click(".drawing summary")
    page.select_option("[name=colormap]", "magma")
    after = pixels(page, "#picture canvas")
    assert (before != after).any()
    page.fill("#opacity", "0")
    assert np.abs(pixels(page, "#picture canvas") - after).max() > 20


# Generated text

PACED = """() => {
    const fetched = window.fetch
    window.fetch = async (...asked) => {
        const answer = await fetched(...asked)
        if (!answer.headers.get('content-type').startsWith('text/event-stream')) return answer
        const events = (await answer.text()).split(/(?<=\\n\\n)/)
        const pull = async (to) => {
            await new Promise((done) => setTimeout(done, 50))
            if (events.length) to.enqueue(new TextEncoder().encode(events.shift()))
            else to.close()
        }
        return new Response(new ReadableStream({ pull }), answer)
    }
}"""
"""Tokens come one by one however busy the machine is, on which all of them can arrive between two drawings."""


def test_text_is_written_token_by_token_with_its_rows(go):
    page = go(model="dates")
    page.evaluate(PACED)
    page.evaluate(
        """() => {
            window.seen = []
            const words = () => document.querySelector('#answer .words')?.textContent ?? ''
            const drawn = () => Boolean(document.querySelector('#look canvas'))
            new MutationObserver(() => window.seen.push([words(), drawn()]))
                .observe(document.body, { childList: true, subtree: true, characterData: true })
        }"""
    )
    page.fill("#text", MARCH)
    page.press("#text", "Enter")
    settled(page)
    seen = page.evaluate("window.seen")
    lengths = {len(words.rstrip("▍")) for words, _ in seen}
    assert lengths & set(range(1, 10)), "the answer came at once"
    assert any(drawn for words, drawn in seen if "▍" in words), "no row was shown while it came"


def test_alternatives_of_a_token_are_shown(go):
    page = go(model="dates", text=MARCH)
    page.locator("#answer .words button").nth(3).click()
    assert "What might have stood in place of “1”" in text_of(page, "#answer")
    assert page.locator("#answer .labels li").count() == 3


def test_the_options_of_generation_are_sent(go):
    page = go(model="dates", text=MARCH)
    page.click(".generation summary")
    sent = []
    page.on("request", lambda request: request.method == "POST" and sent.append(json.loads(request.post_data)))
    for name, value in (("num_beams", "3"), ("num_beams", ""), ("temperature", "1.5")):
        page.fill(f"[name={name}]", value)
        page.press(f"[name={name}]", "Tab")
        settled(page)
    assert sent[0]["num_beams"] == 3
    assert "stream" not in sent[0]  # the first token of a beam search is known last
    assert sent[-1]["temperature"] == 1.5
    assert sent[-1]["stream"]


@pytest.mark.parametrize("name", ["num_beams", "with"])
def test_what_is_typed_stays_though_the_page_is_drawn_again(go, name):
    page = go(model="dates", text=MARCH, compare="input")
    page.evaluate("document.querySelector('details.generation').open = true")
    page.fill(f"[name={name}]", "3")
    page.evaluate("location.hash += '&colormap=magma'")
    page.wait_for_function("() => document.querySelector('[name=colormap]').value === 'magma'")
    assert page.input_value(f"[name={name}]") == "3"


def test_a_field_that_is_emptied_again_follows_the_address(go):
    page = go(model="dates", text=MARCH)
    page.evaluate("document.querySelector('details.generation').open = true")
    page.fill("[name=num_beams]", "3")
    page.fill("[name=num_beams]", "")
    page.evaluate("location.hash += '&num_beams=2'")
    expect(page.locator("[name=num_beams]")).to_have_value("2")


def test_the_steps_are_played(go):
    page = go(model="dates", text=MARCH)
    first = text_of(page, "#look .readout")
    page.click("#play")
    page.wait_for_function("first => document.querySelector('#look .readout').innerText !== first", arg=first)


# Compared


@pytest.mark.parametrize(
    ("what", "labels"),
    [("layer:0", ["layer 3", "layer 0", "difference"]), ("method:rollout", ["raw", "rollout"])],
)
def test_two_looks_stand_side_by_side_and_their_difference_where_they_have_one(go, what, labels):
    page = go(model="digits", method="raw", compare=what)
    found = page.eval_on_selector_all("#picture figcaption", "all => all.map((one) => one.textContent)")
    assert [one.split(",")[0] for one in found] == labels


def test_two_inputs_stand_side_by_side(go):
    page = go(model="dates", text="3/23/21")
    page.select_option("#compare", "input")
    page.fill("[name=with]", "3/24/21")
    page.press("[name=with]", "Enter")
    settled(page)
    assert {"2021-03-23", "2021-03-24"} <= set(text_of(page, "#answer").split())


def test_two_models_stand_side_by_side(go):
    page = go(model="digits", method="rollout", compare="model:digits-twin")
    found = page.eval_on_selector_all("#picture figcaption", "all => all.map((one) => one.textContent)")
    assert [one.split(",")[0] for one in found] == ["digits", "digits-twin", "difference"]
    assert page.locator("#answer ol.labels").count() == 2
    assert {one["attention"] for one in looks_asked(page)} >= {"rollout"}


def test_of_a_pair_the_first_text_looks_at_the_second_alone(go):
    page = go(model="bert", text="the cat sat", pair="a dog ran", method="raw", view="lines")
    tokens = chips(page).count()
    page.click(".drawing summary")
    page.check("[name=only]")
    left = page.locator("#looks ol li").all_inner_texts()
    assert chips(page).count() + len(left) == tokens  # each token on one side, with its special ones
    assert "dog" in " ".join(left) or "d" in left
    assert "cat" not in " ".join(left)


def test_tokens_have_no_tint_once_what_they_look_at_stands_below(go):
    tinted = "all => all.filter((one) => one.style.cssText).length"
    page = go(model="bert", text="the cat sat", pair="a dog ran", method="raw")
    assert page.locator("#looks .tokens [data-at]").evaluate_all(tinted) > 0
    page.click(".drawing summary")
    page.check("[name=only]")
    assert page.locator("#looks .read span").evaluate_all(tinted) > 0
    assert page.locator("#looks .tokens [data-at]").evaluate_all(tinted) == 0


# The selection, the request, the files


def test_the_address_says_all_that_is_seen_and_survives_reload_and_back(go):
    page = go(model="dates", text=MARCH, method="raw", layer="0", heads="2", row="4", view="matrix")
    before = (text_of(page, "#look"), page.url)
    page.reload()
    settled(page)
    assert (text_of(page, "#look"), page.url) == before
    page.locator("#method input[value=norm]").check(force=True)
    settled(page)
    page.go_back()
    settled(page)
    assert (text_of(page, "#look"), page.url) == before


def test_a_picture_is_named_by_its_kept_id_and_survives_a_reload_in_its_tab(go, browser):
    page = go(model="digits")
    page.set_input_files("#choose-file", SEVEN)
    settled(page)
    assert re.fullmatch("[0-9a-f]{32}", state_of(page)["id"])
    page.reload()
    settled(page)
    expect(page.locator("#answer .labels li").first).to_contain_text("7")
    other = browser.new_context().new_page()  # somebody else, with the link alone
    other.goto(page.url)
    settled(other)
    assert "The answer itself is not kept" in text_of(other, "#answer")
    assert np.ptp(pixels(other, "#picture canvas")) > 20
    other.context.close()


def test_the_input_is_sent_once_and_every_look_after_that_is_fetched(go):
    page = go(model="digits")
    posts = []
    page.on("request", lambda request: request.method == "POST" and posts.append(request.url))
    for method in ("raw", "rollout", "libra"):
        page.locator(f"#method input[value={method}]").check(force=True)
        settled(page)
    page.fill("#layer", "1") if page.locator("#layer").count() else None
    page.click("#evaluation summary")
    settled(page)
    assert posts == []


def test_a_new_question_asks_for_each_look_once(go):
    page = go(model="dates")
    page.evaluate("performance.clearResourceTimings()")
    page.click("#example-1")
    settled(page)
    names = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname)")
    looks = [name for name in names if name.startswith("/v1/attention/")]
    assert names.count("/v1/models/dates/generate") == 1
    assert len(looks) == 2  # the look, and every head
    assert len(set(looks)) == 1  # of the new answer


@pytest.mark.parametrize("form", ["png", "npz", "json"])
def test_the_look_is_saved_as_a_file(go, form):
    page = go(model="digits", method="libra")
    with page.expect_download() as saved:
        page.click(f"#save-{form}")
    content = saved.value.path().read_bytes()
    assert saved.value.suggested_filename == f"digits-libra.{form}"
    assert content[:2] == {"png": b"\x89P", "npz": b"PK", "json": b'{"'}[form]


def test_the_request_is_shown_as_code_that_runs(go, tmp_path):
    page = go(model="dates", text="it's the 23rd of March 2021", method="raw", layer="1")
    curl = text_of(page, "#request pre")
    asked = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, check=True)
    answer, look = (json.loads(line) for line in asked.stdout.splitlines())
    assert answer["results"][0]["text"] == "2021-03-23"
    assert look["results"][0]["attention"]["method"] == "raw"
    answered, *maps = lines_of_python(page, tmp_path)
    assert "'text': '2021-03-23'" in answered
    assert maps == ["decoder.blocks.1.cross (4, 11, 27)"]
    page.click("#code-JavaScript")
    assert "fetch(" in text_of(page, "#request pre")


@pytest.mark.parametrize(
    ("selection", "answer", "looks"),
    [
        ({"model": "digits", "example": "1", "method": "libra", "target": "7"}, "'label': ", ["encoder (1, 1, 50)"]),
        ({"model": "captions-soft", "max_new_tokens": "2"}, "'text': ", ["decoder.attention (1, 2, 64)"]),
        ({"model": "bert", "text": "a cat sat", "pair": "the dog", "method": "raw"}, "'label': ", None),
        ({"model": "bert-rank", "text": 'a "cat"', "pair": "a dog\nthe cat", "object": "1"}, "0.", None),
        ({"model": "bert-tags", "text": "the cat", "aggregate": "first"}, "", None),
        ({"model": "bert-answer", "text": "a cat", "pair": 'the "dog" sat'}, "0.", None),
        ({"model": "bert-nli", "text": "the cat", "labels": "a\nb", "multi": "1", "object": "1"}, "'labels': ", None),
        ({"model": "minilm", "text": 'a "cat"', "pair": "two\ndogs", "method": "libra"}, "'embedding': ", None),
        ({"model": "dates-mlm", "example": "0"}, "'candidates': ", None),
    ],
)
def test_the_request_as_python_runs_for_every_task(go, tmp_path, selection, answer, looks):
    page = go(**selection)
    answered, *maps = lines_of_python(page, tmp_path)
    assert answer in answered
    assert maps
    assert looks is None or maps == looks


def lines_of_python(page, folder):
    """Return what the program prints that the page offers, beside a file of the name that it reads."""
    page.click("#code-Python")
    program = text_of(page, "#request pre")
    for name in re.findall(r'model\.\w+\("([^"]+\.(?:png|jpg|webp))"', program):
        shutil.copy(SEVEN, folder / name)
    (folder / "asked.py").write_text(program)
    command = [sys.executable, "asked.py"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, f"{program}\n{ran.stderr}"
    return ran.stdout.splitlines()


def test_what_is_asked_is_said_and_the_old_answer_is_dimmed_at_once(go):
    page = go(model="digits")
    page.route("**/v1/models/digits/classify", lambda route: None)  # it never comes
    page.click("#example-5")
    expect(page.locator("#look")).to_have_class(re.compile("stale"))
    expect(page.locator("#answer .stale")).to_be_visible()
    assert "asking" in text_of(page, "#answer")


def test_an_input_that_the_service_forgot_is_asked_about_again(go):
    page = go(refusals=True, model="dates", text=MARCH)
    gone = []

    def forget(route):
        if gone:
            route.continue_()
            return
        gone.append(route.request.url)
        route.fulfill(status=404, content_type="application/problem+json", body='{"detail": "id: gone"}')

    page.route("**/v1/attention/*attention=norm*", forget)
    page.locator("#method input[value=norm]").check(force=True)
    settled(page)
    assert gone
    assert page.locator("#problem").inner_text() == ""
    assert "looks most at" in text_of(page, "#look .readout")


# What was once wrong


def test_back_leads_to_the_look_before_from_the_very_first_screen(go):
    page = go()
    first = text_of(page, "#answer")
    page.click("#example-1")
    settled(page)
    assert text_of(page, "#answer") != first
    page.go_back()
    settled(page)
    assert text_of(page, "#answer") == first
    assert state_of(page)["model"] == "digits"


def test_back_leads_to_each_drawing_before(go):
    page = go(model="digits")
    drawn = []
    for across in (0.3, 0.6):
        page.click("#clear")
        stroke(page, (across, 0.2), (across, 0.8))
        settled(page)
        drawn.append(pixels(page, "#pad"))
    page.go_back()  # to the cleared pad
    page.go_back()
    settled(page)
    assert (pixels(page, "#pad") == drawn[0]).all()
    page.go_forward()
    page.go_forward()
    settled(page)
    assert (pixels(page, "#pad") == drawn[1]).all()


@pytest.mark.parametrize(("state", "said"), [("warming up", "is warming up"), ("failed", "runs fail")])
def test_a_model_that_cannot_run_is_named_as_such(go, state, said):
    page = go(model="digits")
    models = page.evaluate("async () => (await fetch('v1/models')).json()")
    next(model for model in models["models"] if model["name"] == "digits")["state"] = state
    page.route("**/v1/models", lambda route: route.fulfill(json=models))
    page.reload()
    page.click("#clear")
    expect(page.locator("#answer")).to_contain_text(said)


def test_what_is_typed_stays_while_another_model_warms_up(go):
    page = go(model="dates")
    warming = page.evaluate("async () => (await fetch('v1/models')).json()")
    warming["models"][0]["state"] = "warming up"
    page.route("**/v1/models", lambda route: route.fulfill(json=warming))
    page.reload()
    settled(page)
    page.fill("#text", "3 apr")
    page.wait_for_timeout(1500)  # longer than between two looks at models that warm up
    assert page.input_value("#text") == "3 apr"


@pytest.mark.parametrize(
    ("model", "text", "asked"),
    [
        ("dates-clm", "march 3, 2021 =", {"target": "3"}),
        ("dates-mlm", "march 3, 20[MASK]1 = 2021-03-03", {"queries": "all"}),
        ("dates", MARCH, {"target": "3"}),
        ("minilm", "a cat and a dog", {"against": '{"text":"two dogs"}'}),
    ],
)
@pytest.mark.parametrize("method", ["raw", "rollout"])
def test_the_curves_are_of_the_token_that_is_pinned(go, model, text, asked, method):
    method = {"dates": "raw"}.get(model, method)
    pair = "two dogs" if model == "minilm" else ""
    page = go(model=model, text=text, pair=pair, method=method, special="1", row="3")
    page.click("#evaluation summary")
    expect(page.locator("#evaluation svg")).to_have_count(2)
    evaluated = [one for one in looks_asked(page) if "evaluate" in one]
    assert len(evaluated) == 1
    assert {name: evaluated[0].get(name) for name in asked} == asked


def test_a_pinned_token_stays_pinned_when_others_are_hidden(go):
    page = go(model="dates-mlm", method="raw", special="1", row="3", view="place")
    assert page.locator("#looks [aria-pressed=true]").inner_text() == "r"  # of "march": [START] is hidden
    page.click(".drawing summary")
    page.uncheck("[name=special]")
    assert page.locator("#looks [aria-pressed=true]").inner_text() == "r"


def test_a_png_shows_the_head_that_is_seen(go):
    page = go(model="dates-mlm", method="raw", heads="3")
    sent = []
    page.on("request", lambda request: sent.append(request.url))
    with page.expect_download():
        page.click("#save-png")
    assert "heads=3&" in sent[-1]


@pytest.mark.parametrize(
    "address", ["heads=99", "heads=constructor", "layer=x", "keep=x", "colormap=constructor", "covered=x"]
)
def test_an_address_of_another_form_breaks_nothing(go, address):
    page = go(model="dates", method="raw", **dict([address.split("=")]))
    assert "looks most at" in text_of(page, "#look .readout")


def test_the_key_dialog_can_be_left_and_opened_again(go):
    page = go(refusals=True, model="dates")
    locked = {"status": 401, "content_type": "application/problem+json", "body": '{"detail": "key: one is needed"}'}
    page.route("**/v1/models/dates/generate", lambda route: route.fulfill(**locked))
    page.fill("#text", "3 apr 1999")
    page.press("#text", "Enter")
    expect(page.locator("#ask-key")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#problem")).to_contain_text("key: one is needed")
    page.click("text=Enter a key")
    expect(page.locator("#ask-key")).to_be_visible()


def test_playing_stops_at_a_click_and_with_another_question(go):
    page = go(model="dates", text=MARCH)
    page.click("#play")
    expect(page.locator("#play")).to_have_text("Stop")
    page.fill("#text", "3 apr")
    page.press("#text", "Enter")
    settled(page)
    expect(page.locator("#play")).to_have_text("Play its steps")


def test_the_languages_of_a_translator_are_chosen(visit, tmp_path):
    """Of `dates`, told that it has two languages: the token of one is a 1, that of the other a 2."""
    copy = shutil.copytree(ROOT / "model/artifacts/dates", tmp_path / "dates") / "1/manifest.json"
    manifest = json.loads(copy.read_text())
    tokens = json.loads((copy.parent / manifest["inputs"][0]["tokenizer"]).read_text())["model"]["vocab"]
    languages = {"tokens": {"de": tokens["1"], "fr": tokens["2"]}, "source": None, "target": "de", "begins": "first"}
    copy.write_text(json.dumps(manifest | {"generation": manifest["generation"] | {"languages": languages}}))
    with in_process(tmp_path) as client:
        seen = visit(base=str(client.base_url).rstrip("/"))
        page = seen.open("#model=dates&text=3 May 2021")
        assert page.locator("[name=source_language]").count() == 0
        assert page.locator("[name=target_language] option").all_inner_texts() == ["model\u2019s (de)", "de", "fr"]
        page.select_option("[name=target_language]", "fr")
        seen.settle()
        assert page.locator("#answer .words button").first.inner_text() == "2"
        assert "target_language=fr" in page.url
        page.select_option("[name=target_language]", "")
        seen.settle()
