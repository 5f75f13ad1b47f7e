"""`python -m export` where PyTorch is not installed."""

import importlib.util
import subprocess
import sys

import pytest

from export import __main__ as entry


@pytest.fixture
def without_torch(monkeypatch):
    """Let torch look as if it were not installed; return the commands that are run."""
    found, ran = importlib.util.find_spec, []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in {"onnx", "pynvml"} else found(name))

    def run(command, **_):
        ran.append(command[1:])
        return subprocess.CompletedProcess(command, 7)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["export", "digits"])
    return ran


def test_what_is_missing_is_installed_and_a_failure_of_that_ends_the_command(without_torch, monkeypatch, capsys):
    monkeypatch.setattr(sys, "base_prefix", "/elsewhere")
    assert entry.main() == 7
    assert without_torch == [["-m", "deploy.install", "cpu", "export"]]
    assert "needs PyTorch" in capsys.readouterr().err


def test_nothing_is_installed_into_an_environment_that_is_not_virtual(without_torch, monkeypatch, capsys):
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    assert entry.main() == 2
    assert without_torch == []
    assert f"pip install --editable '{entry.ROOT}[cpu,export]'" in capsys.readouterr().err


def test_an_interruption_while_pytorch_is_loaded_is_one_line(monkeypatch, capsys):
    def interrupt(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(entry.importlib, "import_module", interrupt)
    assert entry.main() == 130
    assert capsys.readouterr().err.endswith("not exported: interrupted\n")


@pytest.mark.parametrize("question", ["--help", "--list"])
def test_a_question_installs_nothing(without_torch, monkeypatch, capsys, question):
    monkeypatch.setattr(sys, "base_prefix", "/elsewhere")
    monkeypatch.setattr(sys, "argv", ["export", question])
    assert entry.main() == 2
    assert without_torch == []
    assert "python -m export NAME" in capsys.readouterr().err
