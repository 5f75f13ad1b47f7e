"""How fast the page is in Chromium: `make bench-page`. Each figure is the median of several runs; they are in a table.

First picture: from the navigation of a browser that has nothing yet, to the first frame with a picture of digits'
first example. Heads: 12 layers of 12 heads of a text of 178 tokens, from the end of the answer to the frame in which
all are drawn (minilm has 6 layers, so its answer is doubled on the way). Pen-up: from the pen's lift over the drawing
area to the frame with the answer, and to that with its picture. Hover: from the pointer's event to the token's row.
Photograph: as the first picture, of photos' first example, less the time of one prediction with the attention that is
shown. Part: from the pointer's event over one photograph to the frame in which the other shows what is like it.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.browser import chromium
from benchmarks.peers import ROOT
from benchmarks.running_service import served
from benchmarks.service import heading

TOKENS = 178
FIRST_PICTURE = """
const look = () => {
  const canvas = document.querySelector('#picture canvas')
  const middle = (canvas) => canvas.getContext('2d').getImageData(canvas.width / 2, canvas.height / 2, 1, 1)
  if (canvas?.width > 1 && middle(canvas).data[3]) window.firstPicture = performance.now()
  else requestAnimationFrame(look)
}
requestAnimationFrame(look)
"""
HEADS = """() => {
  const every = ({ name }) => name.includes('layers=all') && name.includes('heads=all')
  const asked = performance.getEntriesByType('resource').findLast(every)
  const drawn = [...document.querySelectorAll('#heads canvas')].filter(({ width }) => width > 1)
  return asked?.responseEnd && drawn.length === 144 ? performance.now() - asked.responseEnd : null
}"""
PEN = """() => {
  const pad = document.querySelector('#pad')
  const dim = (one) => [one, ...one.querySelectorAll('*')].some((part) => part.classList.contains('stale'))
  window.pen = {}
  pad.addEventListener('pointerup', () => {
    const begin = performance.now()
    let asked = false
    const look = () => {
      const [answer, picture] = ['#answer', '#look'].map((name) => dim(document.querySelector(name)))
      asked ||= answer
      if (asked && !answer) window.pen.answer ??= performance.now() - begin
      if (asked && !answer && !picture) window.pen.picture = performance.now() - begin
      else requestAnimationFrame(look)
    }
    requestAnimationFrame(look)
  }, { once: true, capture: true })
}"""
HOVER = """async () => {
  const tokens = [...document.querySelectorAll('#look .in-place [data-at]')]
  const times = []
  for (const token of tokens.slice(1, 41)) {
    const begin = performance.now()
    const marked = new Promise((done) => new MutationObserver(done).observe(token, { attributes: true }))
    token.dispatchEvent(new PointerEvent('pointerover', { bubbles: true }))
    await marked
    document.body.offsetWidth // layout and style
    times.push(performance.now() - begin)
  }
  return times
}"""

PART = """async () => {
  const [cells] = document.querySelectorAll('#picture .cells')
  const other = document.querySelectorAll('#picture canvas')[1]
  const { left, top, width, height } = cells.getBoundingClientRect()
  const frame = () => new Promise((done) => requestAnimationFrame(done))
  const times = []
  for (let at = 0; at < 40; at++) {
    const before = other.toDataURL()
    await frame()
    const begin = performance.now()
    const [across, down] = [(at % 16) + 0.5, ((7 * at) % 16) + 0.5]
    const point = { clientX: left + (across * width) / 16, clientY: top + (down * height) / 16, bubbles: true }
    cells.dispatchEvent(new PointerEvent('pointermove', point))
    let passed = 0
    do {
      await frame()
      passed = performance.now() - begin
    } while (other.toDataURL() === before)
    times.push(passed)
  }
  return times
}"""


def first_picture(browser, base, model="digits"):
    """Return the seconds until a new browser shows a picture."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    context.add_init_script(FIRST_PICTURE)
    page = context.new_page()
    page.goto(f"{base}/#model={model}")
    page.wait_for_function("() => window.firstPicture")
    seconds = page.evaluate("window.firstPicture") / 1000
    context.close()
    return seconds


def doubled(route):
    """Answer with the maps of a model of 6 layers twice, as one of 12 layers would."""
    answer = route.fetch()
    body = answer.json()
    for result in body["results"]:
        attention = result["attention"]
        count = len(attention["maps"])
        attention["maps"] += [{**one, "layer": one["layer"] + count} for one in attention["maps"]]
        for figure in attention.get("diagnostics") or ():
            figure.update({name: figures * 2 for name, figures in figure.items() if isinstance(figures, list)})
    route.fulfill(response=answer, json=body)


def heads(browser, base, text):
    """Return the seconds from the answer to 144 drawn heads, and those of each hover over a token of the text."""
    page = browser.new_context(viewport={"width": 1440, "height": 1000}).new_page()
    page.route("**/v1/attention/**layers=all**", doubled)
    page.goto(f"{base}/#model=minilm&view=place&text={text}")
    drawn = page.wait_for_function(HEADS).json_value() / 1000
    page.wait_for_selector("body[data-busy=false] #look .in-place [data-at]")
    hovers = [one / 1000 for one in page.evaluate(HOVER)]
    page.context.close()
    return drawn, hovers


def pen_up(browser, base):
    """Return the seconds from the pen's lift to the answer and to its picture, of the second stroke."""
    page = browser.new_context(viewport={"width": 1440, "height": 1000}).new_page()
    page.goto(f"{base}/#model=digits")
    page.wait_for_selector("body[data-busy=false] #picture canvas")
    box = page.locator("#pad").bounding_box()

    def stroke(*places):
        for at, (across, down) in enumerate(places):
            page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"], steps=4)
            if not at:
                page.mouse.down()
        page.evaluate(PEN)
        page.mouse.up()
        page.wait_for_function("() => window.pen.picture")
        return page.evaluate("window.pen")

    stroke((0.3, 0.2), (0.7, 0.2))
    taken = stroke((0.7, 0.2), (0.5, 0.8))
    page.context.close()
    return taken["answer"] / 1000, taken["picture"] / 1000


def parts(browser, base):
    """Return the seconds of each hover over a photograph until another one shows what is like the part."""
    page = browser.new_context(viewport={"width": 1440, "height": 1000}).new_page()
    page.goto(f"{base}/#model=photos&example=1&other=3&method=similar")
    page.wait_for_function("() => document.querySelectorAll('#picture canvas').length === 2")
    page.wait_for_selector("body[data-busy=false]")
    hovers = [one / 1000 for one in page.evaluate(PART)]
    page.context.close()
    return hovers


def predicted(client, runs):
    """Return the median seconds of a prediction of a photograph with the attention that the page shows."""
    usual = client.get("/v1/models/photos").json()["attention"]["usual"]
    query = {**usual, "attention": usual["method"]}
    del query["method"]
    content, seconds = client.get("/v1/models/photos/examples/0").content, []
    for _ in range(runs):
        begin = time.perf_counter()
        answer = client.post(
            "/v1/models/photos/embed", params=query, content=content, headers={"Content-Type": "image/jpeg"}
        )
        assert answer.status_code == 200, answer.text
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def text_of(client, tokens):
    """Return a text of this number of tokens of minilm, with those that its tokenizer adds."""
    words = "the violin is on the table and she plays it well every day of the year ".split()
    text = " ".join((words * tokens)[: tokens - 2])
    asked = {"inputs": text, "attention": {"method": "raw", "layers": "5", "heads": "mean"}}
    found = client.post("/v1/models/minilm/embed", json=asked).json()["results"][0]["attention"]["tokens"]["source"]
    assert len(found) == tokens, f"{len(found)} tokens"
    return text


def measure(artifacts, runs):
    """Return what was measured, (name, goal in seconds, seconds of each run)."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("digits", "minilm", "photos"):
            (Path(folder) / name).symlink_to((artifacts / name).resolve())
        with served(folder) as client, chromium() as browser:
            base = str(client.base_url).rstrip("/")
            text = text_of(client, TOKENS)
            first_picture(browser, base)  # the service has answered once
            pictures = [first_picture(browser, base) for _ in range(runs)]
            drawn, hovers = zip(*(heads(browser, base, text) for _ in range(runs)), strict=True)
            answers, looks = zip(*(pen_up(browser, base) for _ in range(runs)), strict=True)
            alone = predicted(client, runs)
            photographs = [first_picture(browser, base, "photos") - alone for _ in range(runs)]
            alike = [one for _ in range(runs) for one in parts(browser, base)]
    return [
        ("first picture, cold", 1.0, pictures),
        (f"12 x 12 heads of {TOKENS} tokens, once fetched", 0.5, drawn),
        ("pen-up to answer", 0.3, answers),
        ("pen-up to picture", None, looks),
        (f"hover, {TOKENS} tokens in place", 0.016, [one for some in hovers for one in some]),
        ("photograph, beyond its prediction", 1.5, photographs),
        ("hover of a part, seen in the other photograph", 0.05, alike),
    ]


def main():
    """Print a section for RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", type=Path, default=ROOT / "artifacts", help="has digits and minilm")
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()
    print(heading("make bench-page"))
    print("| the page | goal | median | least | most |\n|---|---|---|---|---|")
    for name, goal, seconds in measure(arguments.artifacts, arguments.runs):
        shown = (f"{1000 * one:.0f} ms" for one in (statistics.median(seconds), min(seconds), max(seconds)))
        print(f"| {name} | {f'{1000 * goal:.0f} ms' if goal else ''} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
