"""Rules of the Makefile that no other test runs."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 10, 13), (3, 11, 0), (4, 0, 0)])
def test_a_python_that_is_too_old_is_one_line_and_makes_no_environment(tmp_path, version):
    python = tmp_path / "python"
    pretended = f"import sys; sys.version_info = {version}; exec(sys.argv[1])"
    python.write_text(f"#!/bin/sh\n[ \"$1\" = -c ] && exec '{sys.executable}' -c '{pretended}' \"$2\"\nexit 7\n")
    python.chmod(0o755)
    command = ["make", "--no-print-directory", "--file", ROOT / "Makefile", f"PYTHON={python}", ".venv/bin/python"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    major, minor, _ = version
    words = f"{python}: must be Python 3.11 or newer, given {major}.{minor}; make PYTHON=... names another\n"
    is_old = version < (3, 11)
    assert done.stderr.startswith(words) == is_old
    assert ("creating .venv" in done.stdout) != is_old
    assert done.returncode == 2
    assert not (tmp_path / ".venv").exists()


def git(folder, *words):
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def written(folder, weights, schema=1):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(f'{{"schema_version": {schema}, "sha256": "{weights}"}}')
    (folder / "weights.bin").write_text(weights)


@pytest.fixture
def made(tmp_path):
    """Make the artifact of digits in a repository whose bundled one is new; return what make says."""
    git(tmp_path, "init", "--quiet")
    bundled, copy = tmp_path / "model/artifacts/digits/1", tmp_path / "artifacts/digits/1"
    (tmp_path / ".gitignore").write_text("artifacts\n!model/artifacts\n")
    written(bundled, "old")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "old")
    target = "artifacts/digits/1/manifest.json"

    def make():
        command = ["make", "--no-print-directory", "--file", ROOT / "Makefile", "EXTRA=cpu", target]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "up to date" in subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        return done.stdout

    def make_after(weights, schema):
        """Write it as `weights` and make it again, after the bundled one became new."""
        assert make() == ""
        assert (copy / "weights.bin").read_text() == "old"
        written(copy, weights, schema)
        written(bundled, "new")
        os.utime(copy / "manifest.json", (1, 1))
        return make(), copy

    return make_after


@pytest.mark.parametrize("held", ["old", "new"])
def test_a_copy_of_an_older_bundled_artifact_is_replaced(made, held):
    said, copy = made(held, 1)
    assert (said, (copy / "weights.bin").read_text()) == ("", "new")


def test_an_artifact_of_the_user_s_own_stays_and_make_says_so(made):
    said, copy = made("mine", 1)
    assert said.startswith("artifacts/digits/1: is your own and stays; ")
    assert (copy / "weights.bin").read_text() == "mine"


def test_an_artifact_of_the_user_s_own_that_would_be_refused_is_moved_aside(made):
    said, copy = made("mine", 0)
    assert (copy / "weights.bin").read_text() == "new"
    (aside,) = copy.parent.parent.glob(".digits-*")
    assert said.endswith(f"is moved to artifacts/{aside.name}\n")
    assert (aside / "weights.bin").read_text() == "mine"
