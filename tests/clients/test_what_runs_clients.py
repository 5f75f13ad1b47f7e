"""What runs calls and examples of clients finds those that are wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peers import Unusable, prepare
from deploy import install
from tests.clients import environments, run_calls
from tests.clients.examples import Example

PYTHON = Path(sys.executable)


def example(code, language="python"):
    return Example("curl", language, code, 1).fault(PYTHON, "127.0.0.1:1", Path("/nowhere"))


def test_an_example_that_prints_what_it_says_is_right():
    assert example("print(1 + 1)  # 2") is None
    assert example("print('127.0.0.1:8000')  # 127.0.0.1:1") is None
    assert example("grep -q PNG tests/data/digits/seven.png", "sh") is None


@pytest.mark.parametrize(
    ("code", "language", "words"),
    [
        ("print(1 + 1)  # 3", "python", "printed ['2'], the page says ['3']"),
        ("1 / 0", "python", "ZeroDivisionError"),
        ("false | true; false; true", "sh", "exit status 1"),
    ],
)
def test_an_example_that_is_wrong_is_found(code, language, words):
    assert words in example(code, language)


MODULE = '''
import time
def right(service):
    """Ask rightly."""
    print("not for the table")
    assert service.keyed.url == "a"
def wrong(service):
    """Ask wrongly."""
    assert service.keyed.url == "b"
def late(service):
    """Wait."""
    time.sleep(60)
def again(service):
    """Ask again."""
def helper(service):
    pass
def other(service, name):
    """Help."""
'''


def test_calls_are_told_with_what_was_wrong_and_where(tmp_path):
    (tmp_path / "these_calls.py").write_text(MODULE)
    program = f"import sys; sys.path[:0] = {[str(tmp_path), str(Path(run_calls.__file__).parent)]!r}\n"
    program += "import run_calls; run_calls.SECONDS = 1; run_calls.main()"
    command = [PYTHON, "-c", program, "these_calls", json.dumps({"keyed": {"url": "a"}})]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["call"] for one in found] == ["Ask rightly", "Ask wrongly", "Wait", "Ask again"]
    assert [one["ok"] for one in found] == [True, False, False, True]
    assert found[1]["fault"] == 'AssertionError: assert service.keyed.url == "b" (these_calls.py:9)'
    assert found[2]["fault"] == "no answer within 1 seconds"


def test_a_client_of_node_says_what_it_needs(monkeypatch):
    monkeypatch.setattr(environments.shutil, "which", lambda program: None if program == "npm" else program)
    with pytest.raises(Unusable, match="needs npm: apt-get install nodejs npm"):
        environments.prepared("openapi-fetch")


def test_packages_that_cannot_be_installed_are_said(monkeypatch, tmp_path):
    (tmp_path / "npm").write_text("#!/bin/sh\necho no such package >&2; exit 1\n")
    (tmp_path / "npm").chmod(0o755)
    (tmp_path / "node").symlink_to("npm")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(environments, "CLIENTS_FOLDER", tmp_path)
    with pytest.raises(Unusable, match="npm: cannot install: no such package"):
        environments.prepared("openapi-fetch")


@pytest.mark.parametrize(("uv", "installs"), [("true", False), ("false", True), (None, True)])
def test_pip_installs_where_uv_fails(uv, installs, monkeypatch, tmp_path):
    monkeypatch.setattr(install, "find_uv", lambda interpreter: [uv] if uv else None)
    monkeypatch.setattr(install, "PIP", ["sh", "-c", f'echo "$@" > {tmp_path}/pip.txt', "pip"])
    interpreter = prepare(tmp_path / "client", ["one==1", "two"])
    subprocess.run([interpreter, "-c", "pass"], check=True)
    assert (tmp_path / "pip.txt").exists() == installs
    if installs:
        words = f"--python {interpreter} install --disable-pip-version-check --quiet one==1 two\n"
        assert (tmp_path / "pip.txt").read_text() == words
    monkeypatch.setattr(install, "find_uv", None)
    assert prepare(tmp_path / "client", ["one==1", "two"]) == interpreter, "is made once"


def test_what_the_last_that_installs_says_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(install, "find_uv", lambda interpreter: ["false"])
    monkeypatch.setattr(install, "PIP", ["sh", "-c", "echo first >&2; echo no such package >&2; exit 1", "pip"])
    with pytest.raises(Unusable, match="cannot be installed: no such package"):
        prepare(tmp_path / "client", ["one==1"])
