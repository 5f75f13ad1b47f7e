"""The page's files: modules that can be joined, one library as it was published, and nothing that the policy stops."""

import hashlib
import re
from pathlib import Path

import pytest

from service.api.page.joined import COMMENT, joined, read
from service.api.page.routes import PAGE
from service.repository.models.tasks import TASKS

LIBRARY = "preact.js"
MODULES = sorted(path.name for path in PAGE.glob("*.js") if path.name != LIBRARY)
STYLED = [*MODULES, *sorted(path.name for path in PAGE.iterdir() if path.suffix in (".css", ".html"))]


def test_the_library_is_the_file_of_its_package():
    content = (PAGE / LIBRARY).read_bytes()
    assert hashlib.sha256(content).hexdigest() == "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7"
    licences = (PAGE / "LICENSES.preact.txt").read_text()
    assert "Apache License" in licences
    assert "The MIT License" in licences


@pytest.mark.parametrize("name", MODULES)
def test_a_module_can_be_joined_with_all_that_it_imports(name):
    assert joined(name)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_short(name):
    assert len((PAGE / name).read_text(encoding="utf-8").splitlines()) <= 300


@pytest.mark.parametrize("name", STYLED)
def test_a_line_is_short_and_ends_without_semicolon_and_space(name):
    lines = (PAGE / name).read_text(encoding="utf-8").splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > 120] == []
    assert [number for number, line in enumerate(lines, 1) if line != line.rstrip()] == []
    if name.endswith(".js"):
        assert [number for number, line in enumerate(lines, 1) if line.endswith(";")] == []


@pytest.mark.parametrize("name", MODULES)
def test_what_is_left_out_of_a_line_as_its_comment_is_one(name):
    for line in (PAGE / name).read_text(encoding="utf-8").splitlines():
        if found := COMMENT.search(line):
            code = line[: found.start()]
            assert code.count("'") % 2 == 0 and code.count("`") % 2 == 0, line  # noqa: PT018 # else it is a string's


@pytest.mark.parametrize("name", MODULES)
def test_what_is_exported_is_used(name):
    """Views' parts may be exported for tests of theirs alone."""
    others = "".join(path.read_text(encoding="utf-8") for path in _users() if path.name != name)
    assert [export for export in read(name).exports if not re.search(rf"\b{re.escape(export)}\b", others)] == []


def _users():
    return [*PAGE.glob("*.js"), *Path(__file__).parents[3].glob("page/*.py"), *Path(__file__).parent.glob("*.py")]


def test_every_style_is_of_something():
    code = "".join((PAGE / name).read_text(encoding="utf-8") for name in MODULES)
    for path in PAGE.glob("*.css"):
        style = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        names = set(re.findall(r"[.#]([a-zA-Z][\w-]*)(?=[^{}]*\{)", style))
        assert [name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", code)] == [], path


@pytest.mark.parametrize("name", MODULES)
def test_every_export_is_described(name):
    text = (PAGE / name).read_text(encoding="utf-8")
    for export in read(name).exports:
        assert re.search(rf"\*/\nexport (async )?(function|const|class) {re.escape(export)}\b", text), export


@pytest.mark.parametrize("name", MODULES)
def test_what_a_client_sent_never_becomes_markup_or_code(name):
    text = (PAGE / name).read_text(encoding="utf-8")
    stopped = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|parseFromString|\beval\(|new Function"
    assert re.findall(stopped, text) == []


def test_the_first_file_holds_nothing_that_the_policy_stops_and_names_no_stranger():
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]* src=)|http-equiv", text) == []
    for path in PAGE.iterdir():
        if path.suffix in (".html", ".css") or path.name in MODULES:
            found = path.read_text(encoding="utf-8")
            assert (
                re.findall(
                    r"https?://(?!www\.w3\.org/|127\.0\.0\.1|localhost)|@import|\burl\((?!['\"]?(data|#))", found
                )
                == []
            ), path


def test_every_task_that_is_served_has_a_title():
    tasks = re.search(r"^const TASKS = {(.*?)^}", (PAGE / "tasks.js").read_text(), re.DOTALL | re.MULTILINE)
    assert tasks
    assert set(re.findall(r"^  '([a-z0-9-]+)': {.*?title:", tasks[1], re.DOTALL | re.MULTILINE)) == TASKS.keys()
