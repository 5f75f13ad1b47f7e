"""The page in a real browser: a running service with models of every task, and visits that watch what the page does."""

import base64
import io
import json
import shutil
import urllib.parse
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import regard
from PIL import Image

from tests.conftest import ROOT, served
from tests.samples.browser import chromium, require
from tests.samples.views_page import static_server, view_in

FAILED_LOAD = "Failed to load resource"
"""Chromium says this on the console of every answer that is a refusal."""
STILL = """() => {
  const busy = document.body.dataset.busy === 'true'
    || document.querySelector('section.stale') && !document.querySelector('#problem > *') // what was refused stays dim
  const waits = performance.getEntriesByType('resource').length
  if (busy || waits !== window.waited) Object.assign(window, { waited: waits, since: performance.now() })
  return performance.now() - window.since > 150
}"""
"""Nothing was asked for, and nothing is awaited, for a while: one question leads to the next."""

DROP = """(files) => {
  const dataTransfer = new DataTransfer()
  for (const [name, type, content] of files) dataTransfer.items.add(new File([content], name, { type }))
  dispatchEvent(new DragEvent('drop', { dataTransfer, cancelable: true }))
}"""
"""Drop files on the page: (name, type, content) each."""

SHADES = """(canvas) => {
  const { width, height } = canvas
  const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true })
  copy.drawImage(canvas, 0, 0)
  return new Set(new Uint32Array(copy.getImageData(0, 0, width, height).data.buffer)).size
}"""
"""How many colours a canvas holds."""


def settled(page):
    """Wait until nothing is asked any more, and what was asked is drawn.

    The wait begins now: the page asks a moment after what was typed, so the calm from before says nothing.
    """
    page.evaluate("delete window.waited")
    page.wait_for_selector("body[data-busy=false] main")
    page.wait_for_function(STILL, polling=50)


def drawn(page):
    """Wait until what was done is drawn."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def state_of(page):
    """Return what the page's address says."""
    drawn(page)
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page.url).fragment))


def asked(page, part):
    """Return the options of what was fetched from addresses that hold some words, in order."""
    names = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    return [dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(name).query)) for name in names if part in name]


def canvas_of(canvas):
    """Return the pixels of a canvas (height, width, 3), once what changed is drawn."""
    drawn(canvas.page)
    data = canvas.evaluate("canvas => canvas.toDataURL()")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data.partition(",")[2]))).convert("RGB")).astype(int)


def draw(page, *places):
    """Draw a line on the pad through some places, in shares of its sides; the pen stays on it."""
    box = page.locator("#pad").bounding_box()
    for at, (across, down) in enumerate(places):
        page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"], steps=4)
        if not at:
            page.mouse.down()


def stroke(page, *places):
    """Draw such a line and lift the pen."""
    draw(page, *places)
    page.mouse.up()


def violations(page, **options):
    """Return what axe finds: rules, and the elements that break them."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is missing").Axe()
    found = axe.run(page, **options).response["violations"]
    return {one["id"]: [node["html"][:200] for node in one["nodes"]] for one in found}


def pytest_collection_modifyitems(items):
    """Mark what is in this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.page)


@pytest.fixture(scope="session")
def needed():
    """Skip before minutes go into models that no browser will show."""
    require()


@pytest.fixture(scope="session")
def encoders(needed):
    """The folders of the artifacts of small BERTs that rank, tag, answer, and say whether a text entails another."""
    from tests.samples.checkpoints import artifact_of  # needs the reference libraries, which take seconds to import

    return [artifact_of(name) for name in ("bert-rank", "bert-tags", "bert-answer", "bert-nli")]


@pytest.fixture(scope="session")
def models(needed, tmp_path_factory, captions, minilm, language_models, classifier, encoders, scenes, detectors):
    """A folder with a model of every task that the page shows, and with `digits` once more under another name."""
    folder = tmp_path_factory.mktemp("page")
    for source in (ROOT / "model/artifacts", captions, minilm, language_models, scenes):
        for path in source.iterdir():
            (folder / path.name).symlink_to(path)
    for made in (classifier, *encoders, detectors / "fitted", detectors / "sequence"):
        (folder / made.name).symlink_to(made)
    twin = shutil.copytree(ROOT / "model/artifacts/digits", folder / "digits-twin") / "1/manifest.json"
    twin.write_text(json.dumps(json.loads(twin.read_text()) | {"name": "digits-twin"}))
    return folder


@pytest.fixture(scope="session")
def service(models):
    """A service with these models."""
    with served(models) as client:
        yield client


@pytest.fixture(scope="package")  # not the session: while it runs, no other test may start an event loop
def browser():
    """Chromium."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def view(browser):
    """A page that holds one of the page's components."""
    with static_server() as address, view_in(browser, address) as shown:
        yield shown


@pytest.fixture(scope="module")
def connected(service):
    """The client's view of the service."""
    with regard.connect(str(service.base_url)) as connected:
        yield connected


class Visit:
    """One visit of the page, in a browser that knows nothing of others; `page` is Playwright's."""

    def __init__(self, context, base, refusals):
        self.base = base
        self.said, self.asked = [], []
        self._refusals = refusals
        self.page = context.new_page()
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.said.append(f"{error}\n{error.stack}"))
        self.page.on("request", lambda request: self.asked.append(request))

    @property
    def strangers(self):
        """Return the addresses that were asked and are not the service's. (Nobody was: see `chromium`.)"""
        return [one.url for one in self.asked if not one.url.startswith((f"{self.base}/", "blob:", "data:"))]

    def _hear(self, message):
        if message.type in ("error", "warning") and not (self._refusals and message.text.startswith(FAILED_LOAD)):
            self.said.append(message.text)

    def open(self, address=""):
        """Open the page at an address below the service's, and wait until it has answered."""
        self.page.goto(f"{self.base}/{address}")
        return self.settle()

    def at(self, **selection):
        """Open the page at a selection, and wait until it has answered."""
        return self.open(f"#{urllib.parse.urlencode(selection)}")

    def settle(self):
        """Wait until nothing is asked any more, and what was asked is drawn."""
        settled(self.page)
        return self.page

    def shades(self, selector):
        """Return how many colours each canvas holds that a selector finds: one, if it is blank."""
        return self.page.locator(selector).evaluate_all(f"(found) => found.map({SHADES})")


@pytest.fixture
def visit(browser, service):
    """Return what begins a visit. After the test no visit may have asked a stranger or put an error on the console."""
    visits = []

    def begin(*, width=1440, height=1000, scheme="light", base=None, refusals=False, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        context.set_default_timeout(60_000)
        visits.append((context, Visit(context, base or str(service.base_url).rstrip("/"), refusals)))
        return visits[-1][1]

    yield begin
    for context, _ in visits:
        context.close()
    assert [one.said for _, one in visits if one.said] == []
    assert [one.strangers for _, one in visits if one.strangers] == []


@pytest.fixture
def go(visit):
    """Return what opens the page at a selection, and waits until it is drawn."""
    return lambda refusals=False, **selection: visit(refusals=refusals).at(**selection)


@pytest.fixture
def offline(browser):
    """Return what opens a file or HTML offline. Nothing may be asked for, or be said on the console."""
    contexts, said, requests = [], [], []

    def begin(path=None, *, html=None, width=1000, scheme="light", **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        context.set_default_timeout(60_000)
        context.set_offline(True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        if html is None:
            page.goto(path.as_uri())
        else:
            page.set_content(html)
        return page

    yield SimpleNamespace(begin=begin, said=said, requests=requests)
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:", "about:"))] == []


@contextmanager
def answering(page, pattern, *answers):
    """Answer requests to a path in place of the service: each (status, headers, body) once, then the service itself."""
    left = list(answers)

    def answer(route):
        if left:
            status, headers, body = left.pop(0)
            route.fulfill(status=status, headers=headers, body=body)
        else:
            route.continue_()

    page.route(pattern, answer)
    yield
    page.unroute(pattern, answer)
