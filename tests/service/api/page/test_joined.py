"""Modules joined into one script: it does the same, where nothing can be imported, and other forms are refused."""

import html
import re

import pytest

from service.api.page.joined import JoinError, joined, read
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
    (tmp_path / "preact.js").write_text((read.__globals__["PAGE"] / "preact.js").read_text())
    return tmp_path


def test_a_joined_script_runs_in_a_sandboxed_frame_of_a_file(folder):
    document = f"<!doctype html><body><script>{joined('main.js', folder)}</script></body>"
    page = folder / "page.html"
    page.write_text(f'<!doctype html><iframe sandbox="allow-scripts" srcdoc="{html.escape(document)}"></iframe>')
    with chromium() as browser:
        tab = browser.new_page()
        said, asked = [], []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(page.as_uri())
        seen = tab.frame_locator("iframe").locator("#seen")
        seen.wait_for(timeout=5000)
        assert seen.inner_text() == "42!2<!-- one!2<!-- 41"
        assert (said, asked) == ([], [page.as_uri()])


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
