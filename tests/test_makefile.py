"""Rules of the Makefile that no other test runs."""

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
    command = ["make", "--file", ROOT / "Makefile", f"PYTHON={python}", ".venv/bin/python"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    major, minor, _ = version
    words = f"{python}: must be Python 3.11 or newer, given {major}.{minor}; make PYTHON=... names another\n"
    is_old = version < (3, 11)
    assert done.stderr.startswith(words) == is_old
    assert ("creating .venv" in done.stdout) != is_old
    assert done.returncode == 2
    assert not (tmp_path / ".venv").exists()
