"""model/artifacts: what the repository holds is what the export makes of its definitions and weights today."""

import importlib.metadata
import json
import re

import pytest

from tests.conftest import ROOT
from tests.samples.exports import export, once

HELD = ROOT / "model/artifacts"
NAMES = ["dates", "digits"]
MAKERS = ["torch", "onnx", "onnxscript", "onnx-ir"]
"""Packages whose versions change the bytes of a graph."""


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def pinned():
    """Return the versions that the image of the exporter has."""
    lines = "".join((ROOT / "requirements" / name).read_text() for name in ("export.lock", "torch.txt"))
    return dict(re.findall(r"^([a-z0-9-]+)==([^ \n]+)", lines, re.MULTILINE))


def test_the_repository_holds_the_models_that_make_serve_needs():
    assert sorted(path.name for path in HELD.iterdir()) == NAMES
    assert f"SERVED := {' '.join(reversed(NAMES))}\n" in (ROOT / "Makefile").read_text()
    assert all([one.name for one in (HELD / name).iterdir()] == ["1"] for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_repository_holds_was_made_with_the_versions_that_are_pinned(name):
    made_by, pins = manifest(HELD / name / "1")["made_by"], pinned()
    assert [made_by[one] for one in ("torch", "onnx")] == [pins[one] for one in ("torch", "onnx")], "make bundled"


@pytest.fixture(scope="module")
def exported():
    """A folder with what the export makes of them today."""
    return once("bundled", export(*NAMES, traces_anew=True))


@pytest.mark.families
@pytest.mark.parametrize("name", NAMES)
def test_an_export_of_today_makes_the_same_files(exported, name):
    pins = pinned()
    installed = {one: importlib.metadata.version(one).partition("+")[0] for one in MAKERS}
    if installed != {one: pins[one] for one in MAKERS}:
        pytest.skip(f"made with {[(one, pins[one]) for one in MAKERS]}, here are {installed}")
    held, made = (
        {file.name: file.read_bytes() for file in (root / name / "1").iterdir() if file.name != "manifest.json"}
        for root in (HELD, exported)
    )
    assert held.keys() == made.keys()
    assert [file for file in held if held[file] != made[file]] == [], "make bundled exports them anew"


@pytest.mark.families
@pytest.mark.parametrize("name", NAMES)
def test_the_manifest_of_today_differs_only_in_versions_and_in_what_was_measured(exported, name):
    held, made = (manifest(root / name / "1") for root in (HELD, exported))
    measured, again = held.pop("verified"), made.pop("verified")
    for versions in (held["made_by"], made["made_by"]):
        assert versions.pop("torch")
        assert versions.pop("onnx")
    assert made == held
    assert again.keys() == measured.keys()
    for what, value in again.items():
        if isinstance(value, str):
            assert value == measured[what]
        else:
            assert value <= 10 * measured[what] + 1e-6, what
