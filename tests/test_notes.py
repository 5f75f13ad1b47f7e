"""docs/notes.md is true: every file, name, test, model, recipe, method, kind, row and heading that it names exists."""

import ast
import functools
import re

import torch

from contract.names import BUNDLED as NAMES
from export.bundled import SOURCES
from model.catalogue import bundled
from service.repository.models.tasks import TASKS
from tests.conftest import ROOT
from train.__main__ import RECIPES
from train.data.handwritten_digits import pixels, scans

DOCS = ROOT / "docs"
ROWS, _, MODELS = (DOCS / "notes.md").read_text().partition("\n## Models\n")
TABLE, _, LINKS = MODELS.partition("\n\n[")
CARDS = dict(re.findall(r"^\[?([a-z-]+)\]: (\S+)$", LINKS, re.MULTILINE))

made = functools.cache(lambda name: SOURCES[name]())


@functools.cache
def named_in(file):
    """Return the names that a module gives, those of methods behind that of their class."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        for target in [*getattr(node, "targets", ()), getattr(node, "target", None), node]:
            found.add(getattr(target, "id", getattr(target, "name", None)))
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


def test_what_is_defined_is_in_its_file():
    named = re.findall(r"`([\w/]+\.py)(?:: ([\w., ]+))?`", ROWS)
    assert len(named) > 100
    wrong = []
    for path, names in named:
        files = [file for file in (ROOT / "model" / path, ROOT / path) if file.is_file()]
        known = named_in(files[0]) if files else set()
        wrong += [f"{path}: {name}" for name in names.split(", ") if not files or name not in {"", *known}]
    assert not wrong


def test_the_tests_that_are_named_exist():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", ROWS)
    assert len(named) == ROWS.count("::") > 100
    tests = ROOT / "tests"
    assert not [one for one in named if not (tests / one[0]).is_file() or one[1] not in named_in(tests / one[0])]


def test_models_are_trained_and_served_as_the_last_table_says():
    rows = [[re.findall(r"[\w.-]+", cell) for cell in row.split(" | ")] for row in re.findall(r"\n(\| \[.*)", TABLE)]
    told = {name: (*recipe, *endpoint, kinds) for names, recipe, endpoint, kinds in rows for name in names}
    assert told.keys() == set(re.findall(r"`([a-z-]+)/[a-z-]+`", ROWS)) & set(NAMES)
    for name, of_table in told.items():
        source = made(name)
        served = TASKS[source.task].endpoints[0]
        assert of_table == (f"{RECIPES[name]}.py", served, [kind.name for kind in source.attention]), name
        assert (ROOT / "model/bundled" / name / "model.safetensors").is_file()


def test_what_is_served_has_these_endpoints_and_methods():
    named = re.findall(r"`([a-z-]+)/([a-z-]+)`((?: `[a-z]+`)*)", ROWS)
    assert len(named) > 80
    for name, endpoint, methods in named:
        source = made(name)
        assert endpoint in TASKS[source.task].endpoints, f"{name}/{endpoint}"
        missing = set(re.findall("[a-z]+", methods)) - {one for kind in source.attention for one in kind.methods}
        assert not missing, f"{name}: {missing}"


def test_rows_are_counted_and_those_that_others_point_to_exist():
    numbers = re.findall(r"^\| (\d\.\d+) \|", ROWS, re.MULTILINE)
    counts = {note: sum(number.startswith(f"{note}.") for number in numbers) for note in range(1, 6)}
    assert numbers == [f"{note}.{row}" for note, count in counts.items() for row in range(1, 1 + count)]
    pointed = " ".join(re.findall(r"→ ((?:\d\.\d+(?:, | to )?)+)", ROWS))
    assert "1.6" in pointed
    assert not set(re.findall(r"\d\.\d+", pointed)) - set(numbers)


def test_links_lead_to_files_and_headings():
    names = re.findall(r"\[([a-z]+(?:-[a-z]+)*)\](?![(:])", ROWS + TABLE)
    assert set(names) == CARDS.keys()
    inline = re.findall(r"\]\(([^)#]*)#?([^)]*)\)", ROWS)
    for path, heading in [*((path, "") for path in CARDS.values()), *inline]:
        file = DOCS / (path or "notes.md")
        assert file.exists(), path
        headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE) if heading else [""]
        slugs = {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in headings}
        assert heading in slugs, f"{path}#{heading}"


def test_figures_are_those_of_the_papers_that_their_rows_link():
    """Per cents with decimals, and shares with three: a paper may have more of them."""
    checked = 0
    for row in re.findall(r"^\| \d\.\d+ \| .*", ROWS, re.MULTILINE):
        paths = re.findall(r"\]\(([^)#]+\.md)", row) + [CARDS[name] for name in CARDS if f"[{name}]" in row]
        text = "".join((DOCS / path).read_text() for path in [*paths, "variants.md"])
        figures = re.findall(r"\d+\.\d+(?= %)|\d\.\d{3}\b", row)
        assert not [figure for figure in figures if figure not in text], row
        checked += len(figures)
    assert checked > 40


def test_a_token_seldom_looks_at_itself_most():
    """Row 2.26, of trained weights: the slides say that it does."""
    fields = scans()[2][:50]
    with torch.no_grad():
        _, maps = bundled("digits")(pixels(fields))
    for weights in maps.values():
        own = weights.argmax(-1) == torch.arange(weights.shape[-1])
        assert own.double().mean((0, 2)).max() < 0.05  # 0.02 by chance
