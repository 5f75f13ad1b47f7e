"""An answer in a notebook: its document in a real browser, from a file and in a sandboxed frame, without a network."""

import re

import pytest
import regard

from tests.conftest import ROOT
from tests.page.conftest import SHADES, violations

SEVEN = ROOT / "tests/data/digits/seven.png"
ASKED = {
    "digits": SEVEN,
    "scenes-detr": SEVEN,
    "captions-soft": SEVEN,
    "dates": "3/23/21",
    "dates-clm": "3/23/21 = ",
    "dates-mlm": "2021-0[MASK]-23",
    "minilm": "A cat sits on a mat.",
    "bert-tags": "the red cat",
}


@pytest.fixture(scope="module")
def answers(connected):
    """An answer of a model of each task, by the model's name."""
    mask = connected["dates-mlm"].description.json["inputs"]["mask"]
    return {name: connected[name](str(given).replace("[MASK]", mask)) for name, given in ASKED.items()}


def saved(answer, folder):
    answer.save(folder / "answer.html")
    return folder / "answer.html"


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_is_shown_from_its_file(offline, answers, connected, tmp_path, name):
    page = offline.begin(saved(answers[name], tmp_path))
    page.wait_for_selector("#look")
    assert page.locator("h1").inner_text() == name
    answer = answers[name]
    if isinstance(answer, regard.Classification):
        assert answer.labels[0].label in page.locator("#answer").inner_text()
    elif isinstance(answer, regard.Detection):
        assert page.locator("#look .box-of").count() == len(answer.objects)
        assert answer.objects[0].label in page.locator("#answer").inner_text()
    elif isinstance(answer, regard.Generation):
        shown = re.sub(r"\s", "", page.locator("#answer").inner_text())
        assert re.sub(r"\s", "", answer.text) in shown
    elif isinstance(answer, regard.Tagged):
        marks = [one.text + one.label for one in answer.entities]
        assert page.locator("#answer .marked button").all_inner_texts() == marks
    kinds = connected[name].description.kinds
    first = "cross" if "cross" in kinds else "decoder" if "decoder" in kinds else "encoder"
    heads = kinds[first]["layers"] * kinds[first]["heads"]
    assert page.locator(".thumbnail").count() == (heads if heads > 1 else 0)
    for thumbnail in page.locator(".thumbnail canvas").all()[:4]:
        assert thumbnail.evaluate(SHADES) > 1, "it is not blank"


def test_a_ranked_text_is_shown_with_its_score(offline, connected, tmp_path):
    best = connected["bert-rank"].rerank("a cat", ["a dog", "the cat"])[0]
    page = offline.begin(saved(best, tmp_path))
    page.wait_for_selector("#look")
    shown = page.locator("#answer .ranked button").inner_text().split("\n")
    assert shown[0] == best.text
    assert float(shown[-1]) == pytest.approx(best.score, rel=0.01)
    assert "Which passages answer the query?" in page.inner_text("header")


def test_what_a_ranked_text_is_explained_against_is_named(offline, connected, tmp_path):
    against = {"method": "libra", "against": {"text": "the cat"}}
    (best,) = connected["bert-rank"].rerank("a cat", ["a dog"], attention=against)
    page = offline.begin(saved(best, tmp_path))
    said = page.inner_text("#look .row small")
    assert said.startswith("libra, against the cat (")
    assert float(said.rpartition("(")[2].strip(")")) == pytest.approx(best.against.score, rel=0.01)


def test_answers_to_a_question_are_listed(offline, connected, tmp_path):
    answer = connected["bert-answer"].answer("a cat", "the red dog sat", top_k=2)
    page = offline.begin(saved(answer, tmp_path))
    page.wait_for_selector("#look")
    shown = page.locator("#answer .ranked button > span:first-child").all_inner_texts()
    assert shown == [one.text for one in answer.answers]


def test_a_picture_lies_under_its_heat(offline, answers, tmp_path):
    page = offline.begin(saved(answers["digits"], tmp_path))
    canvas = page.locator("#look canvas").first
    canvas.wait_for()
    page.wait_for_function(f"(canvas) => ({SHADES})(canvas) > 100", arg=canvas.element_handle())
    before = canvas.evaluate("(canvas) => canvas.toDataURL()")
    page.locator("summary", has_text="How it is drawn").click()
    page.locator("#opacity").fill("0")
    page.wait_for_function("([canvas, old]) => canvas.toDataURL() !== old", arg=[canvas.element_handle(), before])


def test_a_head_is_seen_large_and_left_again(offline, answers, tmp_path):
    page = offline.begin(saved(answers["digits"], tmp_path))
    page.locator(".thumbnail").nth(5).click()
    assert "raw, layer 1, head 1" in page.locator("#look").inner_text()
    page.locator("#method").click()
    assert "raw, layer" not in page.locator("#look").inner_text()


def test_another_map_is_chosen(offline, answers, tmp_path):
    page = offline.begin(saved(answers["dates"], tmp_path))
    options = page.locator("#map option").all_inner_texts()
    assert len(options) > 1
    before = page.locator("#look").inner_text()
    page.locator("#map").select_option(label=options[-1])
    page.wait_for_function("(old) => document.querySelector('#look').innerText !== old", arg=before)
    assert page.locator(".thumbnail").count() > 0


@pytest.mark.parametrize("name", ["digits", "dates"])
def test_a_cell_shows_it_in_a_frame_that_covers_the_picture(offline, answers, name):
    html = answers[name]._repr_mimebundle_()["text/html"]
    page = offline.begin(html=f"<!doctype html><body>{html}</body>")
    frame = page.frame_locator("iframe")
    frame.locator("#look").wait_for()
    assert frame.locator(".thumbnail").count() > 0
    boxes = [page.locator(one).bounding_box() for one in ("iframe", "img")]
    assert boxes[0]["x"] <= boxes[1]["x"]
    assert boxes[0]["height"] >= boxes[1]["height"]
    assert page.evaluate("document.elementFromPoint(50, 50).tagName") == "IFRAME"
    inner = frame.locator("html").evaluate("(html) => html.scrollHeight - html.clientHeight")
    assert inner < 200, "the frame is about as high as what it shows"


def test_where_frames_are_stripped_the_picture_is_left(offline, answers):
    html = re.sub(r"<iframe.*?</iframe>", "", answers["digits"]._repr_mimebundle_()["text/html"], flags=re.DOTALL)
    page = offline.begin(html=f"<!doctype html><body>{html}</body>", java_script_enabled=True)
    assert page.locator("img").evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 64
    assert page.evaluate("document.elementFromPoint(50, 50).tagName") == "IMG"


def test_a_frame_can_reach_nothing_of_the_notebook(offline, answers):
    html = answers["dates"]._repr_mimebundle_()["text/html"]
    page = offline.begin(html=f"<!doctype html><body>{html}</body>")
    page.frame_locator("iframe").locator("#look").wait_for()
    inner = page.frames[1]
    assert inner.evaluate("(() => { try { return parent.document.title } catch (error) { return error.name } })()") == (
        "SecurityError"
    )
    assert inner.evaluate("fetch('data:,x').then(() => 'connected', () => 'refused')") == "refused"
    offline.said.clear()  # the policy says aloud what it refused


def test_what_was_sent_never_becomes_markup(offline, connected, tmp_path):
    hostile = "</script><b id=injected>3/23/21<!--"
    page = offline.begin(saved(connected["dates"].generate(hostile), tmp_path))
    page.locator("#look").wait_for()
    assert page.locator("#injected").count() == 0
    assert "<b" in re.sub(r"\s", "", page.locator("main").inner_text())


@pytest.mark.parametrize("name", ["digits", "scenes-detr", "dates", "minilm"])
@pytest.mark.parametrize(("width", "scheme"), [(500, "dark"), (1000, "light")])
def test_no_rule_of_accessibility_is_broken(offline, answers, tmp_path, name, width, scheme):
    page = offline.begin(saved(answers[name], tmp_path), width=width, scheme=scheme, bypass_csp=True)
    page.locator("#look").wait_for()
    page.wait_for_timeout(150)
    assert violations(page) == {}
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, "nothing sticks out"
