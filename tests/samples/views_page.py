"""A page that holds one of the page's components, in Chromium, under the service's content security policy."""

import base64
import functools
import http.server
import threading
from contextlib import contextmanager

import numpy as np

from tests.conftest import ROOT

STATIC = ROOT / "service/api/page/static"
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'"
STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#1c2126, #e6eaed); --quiet: light-dark(#5a656e, #9ca8b1);
  --line: light-dark(#d0d7dd, #3a444c); --page: light-dark(#f6f7f8, #14181b); --card: light-dark(#fff, #1d2327);
  --accent: light-dark(#14696a, #5cc9bd); --bad: light-dark(#a3232e, #ff9a9f); }
* { box-sizing: border-box; }
body { margin: 1rem; background: var(--card); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
"""
HTML = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>views</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><link rel="stylesheet" href="/test.css"><link rel="stylesheet" href="/views.css">
<script type="module" src="/test.js"></script></head>
<body><main><h1>views</h1><div id="here"></div></main></body></html>"""
SCRIPT = """
import { html, render } from './preact.js'
import * as values from './values.js'
import * as colours from './colours.js'
import * as canvas from './canvas.js'
import * as legend from './legend.js'
import * as picture from './picture.js'
import * as heads from './heads.js'
import * as tokens from './tokens.js'
import * as lines from './lines.js'
import * as matrix from './matrix.js'
import * as curves from './curves.js'
import * as labels from './labels.js'
const all = {
  ...values, ...colours, ...canvas, ...legend, ...picture, ...heads, ...tokens, ...lines, ...matrix, ...curves,
  ...labels,
}
const bytes = (text) => Uint8ClampedArray.from(atob(text), (one) => one.charCodeAt(0))
const floats = ({ floats }) => new Float32Array(bytes(floats).buffer)
window.packed = (data) => { // a list of many numbers takes seconds on its way
  let text = ''
  for (let at = 0; at < data.length; at += 8192) text += String.fromCharCode(...data.subarray(at, at + 8192))
  return btoa(text)
}
const drawn = ({ width, height, pixels }) => {
  const made = Object.assign(document.createElement('canvas'), { width, height })
  made.getContext('2d').putImageData(new ImageData(bytes(pixels.bytes), width, height), 0, 0)
  return made
}
const live = (props) => ({
  ...props,
  ...(props.values && { values: floats(props.values) }),
  ...(props.cells && { cells: floats(props.cells) }),
  ...(props.maps && { maps: props.maps.map((map) => all.unpackMap({ ...map, values: map.values.floats }, 'raw')) }),
  ...(props.series && { series: props.series.map((one) => ({ ...one, values: floats(one.values) })) }),
  ...(props.source && { source: drawn(props.source) }),
  ...(props.over && { over: { ...props.over, source: drawn(props.over.source) } }),
})
window.views = { ...all, floats, live, log: [], props: null }
const takes = { onHover: 'hovered', onPick: 'picked', onCover: 'covered', onChoose: 'chosen' }
window.show = (name, props) => {
  const here = document.getElementById('here')
  if (!props) return render(null, here)
  const now = (window.views.props = { ...props })
  for (const [event, field] of Object.entries(takes)) {
    now[event] = (given) => {
      window.views.log.push([event, given])
      const own = field === 'picked' ? (name === 'Picture' ? 'query' : 'pinned') : field
      window.show(name, { ...window.views.props, [own]: given, ...(name === 'InPlace' && { row: null }) })
    }
  }
  if (name === 'InPlace') now.row = now.hovered ?? now.pinned ?? 0
  render(html`<${all[name]} ...${now} />`, here)
}
window.frames = (count) => new Promise((done) => {
  const next = (left) => (left ? requestAnimationFrame(() => next(left - 1)) : done())
  next(count)
})
window.ready = true
"""


OWN = {"/": ("text/html", HTML), "/test.js": ("text/javascript", SCRIPT), "/test.css": ("text/css", STYLE)}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the page's static files, and the three of the test."""

    def do_GET(self):
        if self.path not in OWN:
            return super().do_GET()
        media_type, text = OWN[self.path]
        self.send_response(200)
        self.send_header("Content-Type", f"{media_type}; charset=utf-8")
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(text.encode())
        return None

    def log_message(self, *_):
        pass


class View:
    """One component that is shown; what it reports becomes its properties, as the page does."""

    def __init__(self, page):
        self.page = page

    def show(self, component, **props):
        """Show a component and wait until it is drawn. Arrays become Float32Arrays; those of bytes are pixels."""
        code = "([name, props]) => { show(name, null); show(name, views.live(props)) }"
        self.page.evaluate(code, [component, plain(props)])
        self.settle()

    def settle(self):
        self.page.evaluate("frames(3)")

    def call(self, function, *arguments):
        """Return what a function of the modules returns."""
        return self.page.evaluate("([name, given]) => views[name](...given)", [function, list(arguments)])

    def log(self):
        """Return what was reported since the last call, as (event, value)."""
        return [tuple(one) for one in self.page.evaluate("views.log.splice(0)")]

    def last(self, event):
        """Return the value that was reported last of an event."""
        return [value for name, value in self.log() if name == event][-1]

    def pixels(self, selector="#here canvas", at=0):
        """Return what a canvas holds, (rows, columns, 4)."""
        code = """([selector, at]) => { const one = document.querySelectorAll(selector)[at]
          const { width, height } = one
          return [height, width, packed(one.getContext('2d').getImageData(0, 0, width, height).data)] }"""
        height, width, data = self.page.evaluate(code, [selector, at])
        return unpacked(data).reshape(height, width, 4)


def unpacked(text):
    """Return the bytes that `packed` made a text of."""
    return np.frombuffer(base64.b64decode(text), np.uint8)


def plain(value):
    """Return a value for JSON: arrays as base64."""
    if isinstance(value, np.ndarray):
        return packed_array(value)
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def packed_array(array):
    """Return an array for JSON: `{"bytes"}` of pixels, `{"floats"}` of other numbers."""
    name, kind = ("bytes", np.uint8) if array.dtype == np.uint8 else ("floats", "<f4")
    return {name: base64.b64encode(np.ascontiguousarray(array, kind).tobytes()).decode()}


@contextmanager
def static_server():
    """Serve the page's static files and the test's page at a free port; yields its address."""
    handler = functools.partial(Handler, directory=STATIC)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def view_in(browser, address, **options):
    """Open the test's page; yields its View, and fails if the browser reported an error."""
    context = browser.new_context(**{"viewport": {"width": 900, "height": 800}, **options})
    page = context.new_page()
    faults = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(address)
    page.wait_for_function("() => window.ready")
    yield View(page)
    context.close()
    assert faults == [], faults
