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


@pytest.mark.parametrize(
    ("arguments", "status"), [(["--help"], 0), ([], 2), (["digits", "--precison", "int8"], 2), (["--opset", "1"], 2)]
)
def test_for_help_or_a_wrong_argument_nothing_is_installed(without_torch, monkeypatch, capsys, arguments, status):
    monkeypatch.setattr(sys, "base_prefix", "/elsewhere")
    monkeypatch.setattr(sys, "argv", ["export", *arguments])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert (ended.value.code, without_torch) == (status, [])
    said = capsys.readouterr()
    assert "--precision" in (said.err if status else said.out)


def test_a_list_installs_nothing_and_has_the_bundled_models(without_torch, monkeypatch, capsys):
    monkeypatch.setattr(sys, "base_prefix", "/elsewhere")
    monkeypatch.setattr(sys, "argv", ["export", "--list"])
    assert entry.main() == 2
    assert without_torch == []
    said = capsys.readouterr().err
    assert "digits, digits-dino" in said
    size = "0.2 GB to download, 0.8 GB in all"
    assert size in said
    assert size in (entry.ROOT / "deploy/install.py").read_text(), "the installer says the same"


def test_arguments_are_read_without_pytorch():
    code = "import sys, export.command; export.command._parser(); print(sys.modules.keys() & {'torch', 'onnx'})"
    done = subprocess.run([sys.executable, "-c", code], cwd=entry.ROOT, capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_where_not_even_the_service_is_installed_it_says_what_to_run(without_torch, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pydantic" else found(name))
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    monkeypatch.setattr(entry.importlib, "import_module", None)
    assert entry.main() == 2
    assert "pip install --editable" in capsys.readouterr().err
