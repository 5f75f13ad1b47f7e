"""The notebooks of docs/ are true: in a real kernel, against a running service, they say what they say in the file."""

import copy
import re
import subprocess
import sys

import nbformat
import pytest

from docs.notebooks import NOTEBOOKS, quiet
from tests.conftest import ROOT

NAMES = sorted(file.stem for file in NOTEBOOKS.glob("*.ipynb"))
MOST_BYTES = 1_500_000
DECIMAL = re.compile(r"-?\d+(?:\.\d*(?:e-?\d+)?|e-?\d+)")
"""A number that may differ a little on another processor. Integers may not."""


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.slow) for name in NAMES])
def name(request):
    """Each notebook; they run calls of the client that its own tests make, and take seconds."""
    return request.param


@pytest.fixture(scope="module")
def run_anew(name, artifacts, captions, minilm, language_models, tmp_path_factory):
    """A folder with the notebook as `make notebooks` writes it."""
    models, to = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("notebooks")
    for folder in (artifacts, captions, minilm, language_models):
        for path in folder.iterdir():
            (models / path.name).symlink_to(path)
    command = [sys.executable, "-m", "docs.notebooks", "--artifacts", models, "--to", to, name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return to


def read(folder, name):
    return nbformat.read(folder / f"{name}.ipynb", as_version=4)


def outputs_of(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def said(output):
    """Return what an output says, word by word, and its decimal numbers apart from that."""
    text = output.text if output.output_type == "stream" else output.data["text/plain"]
    return DECIMAL.sub("#", text).split(), [float(number) for number in DECIMAL.findall(text)]


def test_a_notebook_says_what_it_said(run_anew, name):
    now, then = outputs_of(read(run_anew, name)), outputs_of(read(NOTEBOOKS, name))
    assert len(then) >= 6, "make notebooks"
    assert len(now) == len(then)
    for one, other in zip(now, then, strict=True):
        words, numbers = said(one)
        old_words, old_numbers = said(other)
        assert words == old_words
        assert numbers == pytest.approx(old_numbers, rel=0.1, abs=0.02)


def test_an_answer_is_shown_as_words_as_a_picture_and_as_a_page_that_can_ask_nobody(run_anew, name):
    for folder in (run_anew, NOTEBOOKS):
        shown = [output.data for output in outputs_of(read(folder, name)) if "text/html" in output.get("data", {})]
        assert shown
        for data in shown:
            assert data["text/plain"]
            assert data["image/png"].startswith("iVBORw0KGgo")  # the signature of PNG, in base64
            assert '<iframe sandbox="allow-scripts"' in data["text/html"]


@pytest.mark.parametrize("file", NAMES)
def test_the_file_holds_nothing_that_is_another_in_each_run(file):
    notebook = read(NOTEBOOKS, file)
    quieted = copy.deepcopy(notebook)
    quiet(quieted)
    assert notebook == quieted, "make notebooks"
    assert not [one for one in outputs_of(notebook) if one.output_type == "error" or one.get("name") == "stderr"]
    assert len((NOTEBOOKS / f"{file}.ipynb").read_bytes()) < MOST_BYTES
