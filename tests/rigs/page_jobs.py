"""What a person mainly does on the page, as jobs for any browser, each on a visit of its own.

Selectors are ids, roles and names: the texts of the page may change.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.conftest import ROOT
from tests.page.conftest import Visit, state_of, stroke
from tests.samples.waiting import until

MODELS = ("digits", "dates", "scenes-detr", "captions-soft", "dates-mlm", "minilm")
SEVEN, FOUR = ROOT / "tests/data/digits/seven.png", ROOT / "tests/data/digits/four.webp"
MARCH = "the 23rd of March 2021"
BROKEN = re.compile(r"\b(undefined|NaN|Infinity|null)\b|\[object")  # what no text of the page says
DROP = """content => {
  const dataTransfer = new DataTransfer()
  dataTransfer.items.add(new File([new Uint8Array(content)], 'four.webp', { type: 'image/webp' }))
  for (const name of ['dragover', 'drop']) {
    document.body.dispatchEvent(new DragEvent(name, { dataTransfer, bubbles: true, cancelable: true }))
  }
}"""
CONTENT = "canvas => canvas.toDataURL()"
BARS = ("#answer .labels div div", "#answer .labels div")
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"
GROUND = "getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).slice(0, 3).map(Number)"


@dataclass(frozen=True)
class Job:
    """What is done on one visit, and how the browser is set up for it."""

    name: str
    model: str
    do: Callable[..., None]
    """Takes the visit, and the folder of saved files if it saves some."""
    saves: bool = False
    width: int = 1440
    look: str = "light"


JOBS: list[Job] = []


def job(name: str, model: str, **options: object) -> Callable[[Callable[..., None]], None]:
    """Return what enters a job into the list."""
    return lambda do: JOBS.append(Job(name, model, do, **options))


# What the jobs look at


def digit(page: Page) -> str:
    """Return the label that stands first in an answer."""
    return page.locator("#answer li").first.inner_text().split()[0]


def pinned(page: Page) -> str | None:
    """Return the row that is looked at, as the address says it."""
    return state_of(page).get("row")


def canvases_drawn(seen: Visit) -> None:
    """Check that there is something on every canvas."""
    shades = seen.shades("#look canvas, #heads canvas")
    assert shades, "there is no canvas"
    assert min(shades) > 1, f"of {len(shades)} canvases {shades.count(1)} are blank"


def nothing_broken(page: Page) -> None:
    """Check the words of the page."""
    found = BROKEN.search(page.locator("main").inner_text())
    assert not found, f"the page says {found[0]}"
    assert page.locator("#problem").inner_text() == ""


# The jobs


def first_view(model: str) -> None:
    """Enter the job of a model's first view."""

    @job(f"first view of {model}", model)
    def view(seen: Visit) -> None:
        page = seen.at(model=model)
        assert page.locator("#model").input_value() == model
        assert len(page.locator("#answer").inner_text()) > 20
        canvases_drawn(seen)
        nothing_broken(page)


for name in MODELS:
    first_view(name)


@job("an example is chosen", "digits")
def example(seen: Visit) -> None:
    page = seen.at(model="digits")
    before = page.locator("#answer").inner_text(), page.locator("#picture canvas").first.evaluate(CONTENT)
    page.click("#example-1")
    seen.settle()
    assert page.locator("#answer").inner_text() != before[0]
    assert page.locator("#picture canvas").first.evaluate(CONTENT) != before[1]
    assert state_of(page)["example"] == "1"


@job("a drawing is answered, and outlives a reload", "digits")
def drawing(seen: Visit) -> None:
    page = seen.at(model="digits")
    page.click("#clear")
    stroke(page, (0.5, 0.15), (0.5, 0.85))
    seen.settle()
    answer = page.locator("#answer li").first.inner_text()
    assert digit(page) == "1"
    assert seen.shades("#pad")[0] > 1
    page.reload()
    seen.settle()
    assert page.locator("#answer li").first.inner_text() == answer
    assert seen.shades("#pad")[0] > 1


@job("a file is chosen, another one dropped", "digits")
def files(seen: Visit) -> None:
    page = seen.at(model="digits")
    page.set_input_files("#choose-file", SEVEN)
    seen.settle()
    assert digit(page) == "7"
    page.evaluate(DROP, list(FOUR.read_bytes()))
    seen.settle()
    assert digit(page) == "4"


@job("a text is typed", "dates")
def typed(seen: Visit) -> None:
    page = seen.at(model="dates")
    page.locator("#text").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("3 apr 1999")
    page.keyboard.press("Enter")
    seen.settle()
    assert "1999-04-03" in page.locator("#answer").inner_text()
    page.fill("#text", "4 apr 1999")
    page.click("#ask")
    seen.settle()
    assert "1999-04-04" in page.locator("#answer").inner_text()
    assert state_of(page)["text"] == "4 apr 1999"


@job("a token is hovered over, pinned and let go by Escape", "dates")
def token(seen: Visit) -> None:
    page = seen.at(model="dates", text=MARCH, view="place")
    said, tokens = page.locator("#look .readout"), page.locator("#looks .tokens [data-at]")
    first = said.inner_text()
    tokens.nth(8).hover()
    expect(said).not_to_have_text(first)
    hovered = said.inner_text()
    page.mouse.move(0, 0)
    expect(said).to_have_text(first)
    tokens.nth(8).click()
    page.mouse.move(0, 0)
    expect(said).to_have_text(hovered)
    assert pinned(page) == "8"
    page.keyboard.press("Escape")
    assert pinned(page) is None


@job("the matrix by keys", "dates")
def matrix(seen: Visit) -> None:
    page = seen.at(model="dates", text=MARCH)
    page.click("#view-matrix")
    seen.settle()
    canvases_drawn(seen)
    page.locator("#looks .matrix-cells").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert pinned(page) == "2"
    assert "character" in page.locator("#look .readout").inner_text()
    page.keyboard.press("Escape")
    assert pinned(page) is None


@job("lines between tokens", "dates")
def lines(seen: Visit) -> None:
    page = seen.at(model="dates", text=MARCH)
    page.click("#view-lines")
    seen.settle()
    paths = page.locator("#looks svg path")
    assert paths.count() > 10
    assert paths.first.evaluate("path => path.getTotalLength()") > 10
    page.locator("#looks [data-at]").nth(3).click()
    assert pinned(page) == "3"


@job("a patch is pinned and covered by keys, others by a Shift-drag", "digits")
def patches(seen: Visit) -> None:
    page = seen.at(model="digits", method="raw")
    page.locator("#picture .cells").first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    seen.settle()
    assert pinned(page) == "15"
    page.keyboard.press("c")
    seen.settle()
    assert state_of(page)["covered"] == "15"
    assert "was" in page.locator("#answer").inner_text()
    box = page.locator("#picture .cells").first.bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + box["height"] * 0.4, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    seen.settle()
    assert len(state_of(page)["covered"].split(",")) >= 14
    canvases_drawn(seen)
    page.click("#uncover")
    seen.settle()
    assert "covered" not in state_of(page)


@job("an object is pinned", "scenes-detr")
def objects(seen: Visit) -> None:
    page = seen.at(model="scenes-detr")
    page.locator("#answer li button").nth(1).click()
    seen.settle()
    assert "object" in state_of(page)
    page.keyboard.press("Escape")
    assert "object" not in state_of(page)


@job("every head leads to its head, by a click and by keys", "digits")
def heads(seen: Visit) -> None:
    page = seen.at(model="digits")
    thumbnails = page.locator("#heads button.thumbnail")
    expect(thumbnails).to_have_count(16)
    thumbnails.nth(6).click()
    seen.settle()
    assert (state_of(page)["layer"], state_of(page)["heads"]) == ("1", "2")
    expect(thumbnails.nth(6)).to_have_attribute("aria-pressed", "true")
    thumbnails.nth(6).focus()
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    seen.settle()
    assert (state_of(page)["layer"], state_of(page)["heads"]) == ("2", "3")


@job("a layer is chosen by keys", "digits")
def layer(seen: Visit) -> None:
    page = seen.at(model="digits", method="raw")
    before = page.locator("#picture canvas").first.evaluate(CONTENT)
    page.locator("#layer").focus()
    page.keyboard.press("Home")
    seen.settle()
    assert state_of(page)["layer"] == "0"
    assert page.locator("#picture canvas").first.evaluate(CONTENT) != before


@job("does it matter? Two curves, which stay with the next example", "digits")
def evaluation(seen: Visit) -> None:
    page = seen.at(model="digits")
    page.click("#evaluation summary")
    expect(page.locator("#evaluation svg")).to_have_count(2)
    page.click("#example-1")
    seen.settle()
    expect(page.locator("#evaluation svg")).to_have_count(2)
    assert page.locator("#evaluation details").first.get_attribute("open") is not None


@job("the look is saved as a file", "dates", saves=True)
def saved(seen: Visit, downloads: Path) -> None:
    page = seen.at(model="dates", text=MARCH, method="raw")
    for form, beginning in (("png", b"\x89P"), ("npz", b"PK"), ("json", b'{"')):
        page.click(f"#save-{form}")
        file = downloads / f"dates-raw.{form}"
        until(lambda file=file: file.is_file() and file.stat().st_size, 20)
        assert file.read_bytes()[:2] == beginning


@job("the address and the request are copied", "dates")
def copied(seen: Visit) -> None:
    page = seen.at(model="dates", text=MARCH)
    page.click("#share")
    for button, said, source in (
        ("#copy-link", "#sharing [role=status]", "location.href"),
        ("#copy", "#request [role=status]", "document.querySelector('#request pre').innerText"),
    ):
        text = page.evaluate(source)
        page.click(button)
        expect(page.locator(said)).not_to_be_empty()
        page.locator("#text").focus()
        page.keyboard.press("Control+a")
        page.keyboard.press("Control+v")
        expect(page.locator("#text")).to_have_value(text)


@job("back and forward lead to the looks before", "dates")
def back(seen: Visit) -> None:
    page = seen.at(model="dates", text=MARCH, method="raw")

    def look() -> tuple[str, str, str]:
        return page.locator("#look").inner_text(), page.locator("#answer").inner_text(), page.url

    looks = [look()]
    page.locator("#method input[value=norm]").check(force=True)
    seen.settle()
    looks.append(look())
    page.click("#example-1")
    seen.settle()
    looks.append(look())
    assert len(set(looks)) == 3
    for go, at in ((page.go_back, 1), (page.go_back, 0), (page.go_forward, 1), (page.go_forward, 2)):
        go()
        seen.settle()
        assert look() == looks[at]


def play(model: str) -> None:
    """Enter the job that plays the steps of a model's text."""

    @job(f"the steps of {model} are played", model)
    def steps(seen: Visit) -> None:
        page = seen.at(model=model)
        button, words = page.locator("#play"), page.locator("#look")
        before, waiting = words.inner_html(), button.inner_text()
        button.click()
        expect(button).not_to_have_text(waiting)
        page.wait_for_function("before => document.querySelector('#look').innerHTML !== before", arg=before)
        button.click()
        expect(button).to_have_text(waiting)


for name in ("dates", "captions-soft"):
    play(name)


def narrow(model: str, **selection: str) -> None:
    """Enter the job that looks at a model on the narrowest screen."""
    words = "".join(f", {value}" for value in selection.values())

    @job(f"320 pixels wide: {model}{words}", model, width=320)
    def phone(seen: Visit) -> None:
        page = seen.at(model=model, **selection)
        assert page.evaluate("innerWidth") == 320
        assert page.evaluate(OVERFLOW) <= 0, f"{page.evaluate(OVERFLOW)} pixels stick out"
        canvas = page.locator("#look canvas, #look svg").first
        canvas.scroll_into_view_if_needed()
        assert canvas.bounding_box()["width"] > 100


narrow("digits")
narrow("dates", view="lines")
narrow("dates", view="matrix")
narrow("scenes-detr")


@job("dark", "digits", look="dark")
def dark(seen: Visit) -> None:
    page = seen.at(model="digits")
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert max(page.evaluate(GROUND)) < 80
    canvases_drawn(seen)


@job("forced colours: the picture stays, the pinned patch is framed", "digits", look="forced colours")
def forced(seen: Visit) -> None:
    page = seen.at(model="digits", method="raw", row="15")
    assert page.evaluate("matchMedia('(forced-colors: active)').matches")
    assert seen.shades("#picture canvas")[0] > 10
    canvases_drawn(seen)
    mark = page.locator("#picture .mark").first
    assert mark.bounding_box()["width"] > 5
    assert mark.evaluate("mark => getComputedStyle(mark).outlineStyle") == "solid"
    framed = "one => getComputedStyle(one).outlineStyle"
    assert page.locator("#method :checked + span").evaluate(framed) == "solid"
    colours = [page.locator(bar).first.evaluate("bar => getComputedStyle(bar).backgroundColor") for bar in BARS]
    assert colours[0] != colours[1], "the bars of the answer are not seen"


@job("one step inside, what was fed, and a set", "digits")
def opened(seen: Visit) -> None:
    page = seen.at(model="digits", method="raw")
    page.click("#inside summary")
    page.locator("#inside h3").nth(2).wait_for()
    page.click("#fed summary")
    page.locator("#fed img").wait_for()
    page.set_input_files("#choose-file", [SEVEN, FOUR])
    page.locator("#several", has_text="2 asked").wait_for()


@job("a look is kept, and saved in a file of its own", "dates", saves=True)
def kept(seen: Visit, downloads: Path) -> None:
    page = seen.at(model="dates")
    for button in ("#share", "#keep-look", "#kept a", "#save-html"):
        page.click(button)
    until(lambda: any(one.stat().st_size > 100_000 for one in downloads.glob("*.html")))
