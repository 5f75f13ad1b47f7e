"""The version stands in many files, and is one; a release has notes."""

import shutil
import subprocess

import pytest

from deploy import version
from service import VERSION
from tests.conftest import ROOT

ELSEWHERE = (
    "CHANGELOG.md",
    "docs/support.md",
    "docs/releases/",
    "benchmarks/",
    "tests/",
    "requirements/",
    "model/",
    "k8s/chart/",
)
"""Say the version of the time when they were written, or another project's; or are written by another command."""


def test_every_place_says_the_same_version():
    said = version.found()
    assert said == {name: {VERSION} for name in version.PLACES}


def test_no_other_file_says_it():
    tracked = subprocess.run(["git", "grep", "-lF", VERSION], cwd=ROOT, capture_output=True, text=True, check=False)
    others = {name for name in tracked.stdout.split() if not name.startswith((*version.PLACES, *ELSEWHERE))}
    assert others <= {"Makefile", "export/packaged.py"}, "these name packages of that version"


def test_a_new_version_is_written_everywhere(tmp_path, monkeypatch):
    for name in version.PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(version, "ROOT", tmp_path)
    version.write("12.3.4")
    assert version.found() == {name: {"12.3.4"} for name in version.PLACES}
    with pytest.raises(ValueError, match="three numbers"):
        version.write("new")


def test_a_release_has_notes_of_one_page():
    notes = (ROOT / f"docs/releases/{VERSION}.md").read_text()
    assert notes.startswith(f"# regard {VERSION}\n")
    assert len(notes.splitlines()) < 60
    assert f"\n## {VERSION}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_card_says_under_which_licence_its_weights_are():
    cards = sorted((ROOT / "model/bundled").glob("*/README.md"))
    assert len(cards) >= 38
    for card in cards:
        assert "\n**Licence.** " in card.read_text(), card.parent.name
