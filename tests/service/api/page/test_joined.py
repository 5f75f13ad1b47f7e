"""Modules joined into one script: it does the same, where nothing can be imported, and other forms are refused."""

import html
import re
import shutil
from contextlib import contextmanager

import pytest

from service.api.page.joined import PAGE, JoinError, joined
from tests.samples.browser import chromium

MODULES = {
    "main.js": """import { html, render } from './preact.js'
import {
  double,
  Counter,
  LIMIT,
} from './numbers.js'
import { shout } from './words.js'

// import { nothing } from 'a comment'
const python = `
import httpx
from numbers import double
`
render(html`<p id="seen">${shout(String(double(LIMIT)))} ${new Counter().next()} ${python.length}</p>`, document.body)
""",
    "numbers.js": """import { shout } from './words.js'
const hidden = 2
/** Twice. */
export function double(x) { return hidden * x }
export const LIMIT = 21
export class Counter { next() { return shout('one') } }
export async function later() { return 1 }
""",
    "words.js": r"""const hidden = '</script><script>document.title = "broken"</script><!-- <script>'
export const shout = text => `${text}!` + (hidden.match(/<\/script>/g).length) + hidden.slice(-4 - 8 - 1, -9)
""",
}


@pytest.fixture
def folder(tmp_path):
    for name, code in MODULES.items():
        (tmp_path / name).write_text(code)
    (tmp_path / "preact.js").write_text((PAGE / "preact.js").read_text())
    return tmp_path


def framed(folder, script):
    """Return what the console says, what is asked, and what opens a file with a script in a sandboxed frame."""
    document = f"<!doctype html><body><script>{script}</script></body>"
    file = folder / "page.html"
    file.write_text(f'<!doctype html><iframe sandbox="allow-scripts" srcdoc="{html.escape(document)}"></iframe>')
    said, asked = [], []

    @contextmanager
    def opened():
        with chromium() as browser:
            tab = browser.new_page()
            tab.on("console", lambda message: said.append(message.text))
            tab.on("pageerror", lambda error: said.append(str(error)))
            tab.on("request", lambda request: asked.append(request.url))
            tab.set_default_timeout(10_000)
            tab.goto(file.as_uri())
            yield tab.frame_locator("iframe")

    return said, asked, opened


def test_a_joined_script_runs_in_a_sandboxed_frame_of_a_file(folder):
    said, asked, frame_of = framed(folder, joined("main.js", folder))
    with frame_of() as frame:
        assert frame.locator("#seen").inner_text() == "42!2<!-- one!2<!-- 41"
    assert (said, len(asked)) == ([], 1)


COMPONENTS = """import { HeadGrid } from './heads.js'
import { Legend } from './legend.js'
import { Matrix } from './matrix.js'
import { html, render } from './preact.js'
import { InPlace } from './tokens.js'
import { unpackMap } from './values.js'

const given = [0.7, 0.2, 0.1, 0.1, 0.8, 0.1, 0.3, 0.3, 0.4]
const map = unpackMap({ layer: 0, heads: 'mean', normalized: true, shape: [1, 3, 3], values: [[
  given.slice(0, 3), given.slice(3, 6), given.slice(6)]] }, 'raw')
const tokens = [...'abc'].map((text, at) => ({ text, span: [at, at + 1], special: false }))
const shown = { rows: tokens, columns: tokens, values: Float32Array.from(given), signed: false, row: 1, top: 1,
  colormap: 'viridis', text: 'abc', hovered: null, pinned: null, label: 'a matrix',
  onHover: () => {}, onPick: () => {} }
render(html`<div style=${{ width: '400px' }}><${InPlace} ...${shown} /><${Matrix} ...${shown} />
  <${Legend} top=${1} signed=${false} colormap="viridis" />
  <${HeadGrid} maps=${[map]} chosen=${{ layer: 0, head: 0 }} onChoose=${() => {}} /></div>`, document.body)
"""


def test_the_pages_components_draw_in_a_sandboxed_frame_of_a_file(tmp_path):
    folder = shutil.copytree(PAGE, tmp_path / "static")
    (folder / "saved.js").write_text(COMPONENTS)
    said, asked, frame_of = framed(tmp_path, joined("saved.js", folder))
    with frame_of() as frame:
        frame.locator("canvas").nth(1).wait_for()
        shades = frame.locator("canvas").evaluate_all(
            """async (found) => {
              await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))
              return found.map((canvas) => {
                const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
                return new Set(new Uint32Array(data.buffer)).size
              })
            }"""
        )
        assert min(shades) > 3
        assert frame.locator(".in-place [style*='--weight']").count() >= 3
    assert (said, len(asked)) == ([], 1)


def test_a_module_comes_after_all_that_it_imports_and_once(folder):
    script = joined("main.js", folder)
    places = [script.index(f"const ${name}_js = ") for name in ("words", "numbers", "main")]
    assert places == sorted(places)
    assert script.count("const $words_js = ") == 1
    assert not re.search(r"^(import|export) ", script.replace("import httpx", ""), re.MULTILINE)


def test_nothing_in_a_joined_script_ends_the_script_that_holds_it(folder):
    script = joined("main.js", folder)
    assert not re.search(r"</script|<!--", script, re.IGNORECASE)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import x from './numbers.js'", "main.js: must import as import { a, b } from './x.js', given line 1"),
        ("\nimport * as x from './numbers.js'", "given line 2"),
        ("import './numbers.js'", "given line 1"),
        ("import { double as twice } from './numbers.js'", "given line 1"),
        ("import { double } from 'numbers.js'", "given line 1"),
        ("import { double } from '../numbers.js'", "given line 1"),
        ('import { double } from "./numbers.js"', "given line 1"),
        ("const x = await import('./numbers.js')", "given line 1"),
        ("const x = import.meta.url", "given line 1"),
        ("import { triple, double } from './numbers.js'", "main.js: numbers.js exports no triple"),
        ("import { a } from './nowhere.js'", "nowhere.js: cannot be read: No such file or directory"),
        ("export default 1", "main.js: must export a function, a const or a class by its name, given line 1"),
        ("const a = 1\nexport { a }", "given line 2"),
        ("export * from './numbers.js'", "given line 1"),
        ("export let a = 1", "given line 1"),
        ("export const { a } = {}", "given line 1"),
    ],
)
def test_another_form_is_refused(folder, code, words):
    (folder / "main.js").write_text(code)
    with pytest.raises(JoinError, match=re.escape(words)):
        joined("main.js", folder)


def test_a_circle_is_refused(folder):
    (folder / "words.js").write_text("import { double } from './numbers.js'\nexport const shout = double\n")
    with pytest.raises(JoinError, match=r"in a circle, given (words|numbers).js"):
        joined("main.js", folder)


def test_a_script_that_comes_behind_another_shares_its_modules_and_has_no_comments(folder):
    (folder / "late.js").write_text(
        "/** A comment. */\nimport { double } from './numbers.js'\nimport { html } from './preact.js'\n"
        "const here = 'http://a//b' // a comment\n// another\n"
        "window.late = double(4) + String(html`<p />`.type) + here\n"
    )
    script = joined("late.js", folder, behind="main.js")
    assert "comment" not in script
    assert "another" not in script
    assert "$preact_js = " not in script
    assert len(script) < 400
    said, _, opened = framed(
        folder, f"{joined('main.js', folder)}</script><script>{script}; document.title = window.late"
    )
    with opened() as frame:
        frame.locator("#seen").wait_for()
        assert frame.locator("html").evaluate("() => window.late") == "8phttp://a//b"
    assert said == []
