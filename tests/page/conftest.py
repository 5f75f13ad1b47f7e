"""The page in a real browser: a running service with models of every task, and visits that watch what the page does."""

import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT, served
from tests.samples.browser import chromium, require

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


def settled(page):
    """Wait until nothing is asked any more, and what was asked is drawn.

    The wait begins now: the page asks a moment after what was typed, so the calm from before says nothing.
    """
    page.evaluate("delete window.waited")
    page.wait_for_selector("body[data-busy=false] main")
    page.wait_for_function(STILL, polling=50)


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
def models(needed, tmp_path_factory, captions, minilm, language_models, classifier, scenes, detectors):
    """A folder with a model of every task that the page shows, and with `digits` once more under another name."""
    folder = tmp_path_factory.mktemp("page")
    for source in (ROOT / "model/artifacts", captions, minilm, language_models, scenes):
        for one in source.iterdir():
            (folder / one.name).symlink_to(one)
    for made in (classifier, detectors / "fitted", detectors / "sequence"):
        (folder / made.name).symlink_to(made)
    twin = shutil.copytree(ROOT / "model/artifacts/digits", folder / "digits-twin") / "1/manifest.json"
    twin.write_text(json.dumps(json.loads(twin.read_text()) | {"name": "digits-twin"}))
    return folder


@pytest.fixture(scope="session")
def service(models):
    """A service with these models."""
    with served(models) as client:
        yield client


@pytest.fixture(scope="module")  # not the session: while it runs, no other test may start an event loop
def browser():
    """Chromium."""
    with chromium() as browser:
        yield browser


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

    def settle(self):
        """Wait until nothing is asked any more, and what was asked is drawn."""
        settled(self.page)
        return self.page

    def shades(self, selector):
        """Return how many colours each canvas holds that a selector finds: one, if it is blank."""
        return self.page.locator(selector).evaluate_all(
            """(found) => found.map((canvas) => {
              const { width, height } = canvas
              const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true })
              copy.drawImage(canvas, 0, 0)
              return new Set(new Uint32Array(copy.getImageData(0, 0, width, height).data.buffer)).size
            })"""
        )


@pytest.fixture
def visit(browser, service):
    """Return what begins a visit. After the test no visit may have asked a stranger or put an error on the console."""
    visits = []

    def begin(*, width=1440, height=1000, scheme="light", base=None, refusals=False, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        context.set_default_timeout(15_000)
        visits.append((context, Visit(context, base or str(service.base_url).rstrip("/"), refusals)))
        return visits[-1][1]

    yield begin
    for context, _ in visits:
        context.close()
    assert [one.said for _, one in visits if one.said] == []
    assert [one.strangers for _, one in visits if one.strangers] == []


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
