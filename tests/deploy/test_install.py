"""What installs the project: uv where it works, pip where not, and PyTorch's CPU build where there is one."""

import importlib.metadata
import os
import pty
import subprocess
import sys

import pytest
from packaging.requirements import Requirement

from deploy import install

UV = ["/found/uv", "pip", "install", "--python", sys.executable, "--index-strategy", "unsafe-best-match"]

KEPT = f"--constraint {install.PINS}"
PROJECTS = f"--config-settings editable_mode=compat --editable .[cpu] --editable ./client {KEPT}"


class Commands:
    """Stands for all programs: notes what is run, and fails what is said to fail."""

    def __init__(self):
        self.run, self.failing, self.silenced = [], [], []

    def __call__(self, command, **options):
        line = " ".join(command)
        if line == "/found/uv --version":
            return subprocess.CompletedProcess(command, 0, "uv 0.13.9")
        self.run.append(line.replace(" ".join(UV), "uv").replace(" ".join(install.PIP), "pip"))
        if options["stderr"] == subprocess.DEVNULL:
            self.silenced.append(self.run[-1])
        return subprocess.CompletedProcess(command, int(any(part in line for part in self.failing)))


def test_an_extra_that_is_none_is_named_before_anything_is_installed(capsys):
    assert install.install(["cup"]) == 2
    assert capsys.readouterr().err == "EXTRA: must be one of cpu, gpu, openvino, given cup\n"


@pytest.fixture
def commands(monkeypatch):
    commands = Commands()
    monkeypatch.setattr(subprocess, "run", commands)
    monkeypatch.setattr(install.shutil, "which", lambda name, path=None: "/found/uv")
    monkeypatch.setattr(install, "pip_setting", lambda name: None)
    monkeypatch.setattr(install, "missing_torch", lambda extras: "torch==2.13.0" if "export" in extras else None)
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: iter(()))
    monkeypatch.delenv("PIP_ARGS", raising=False)
    return commands


def test_the_service_is_installed_by_uv_and_without_torch(commands):
    assert install.install(["cpu"]) == 0
    assert commands.run == [f"uv --quiet {PROJECTS}"]


@pytest.mark.parametrize(
    ("extras", "runtime", "nvidia"),
    [
        (["cpu"], "onnxruntime", set()),
        (["gpu"], "onnxruntime-gpu", {"nvidia-ml-py", "nvidia-cudnn-cu13"}),
        (["gpu", "export", "train", "dev"], "onnxruntime-gpu", {"nvidia-ml-py"}),
        (["openvino", "export"], "onnxruntime", set()),
    ],
    ids=["the service", "on a GPU", "beside PyTorch for GPUs, which requires its own libraries", "openvino"],
)
def test_what_the_images_have_too_is_installed_as_their_locks_pin_it(monkeypatch, tmp_path, extras, runtime, nvidia):
    monkeypatch.setattr(install, "PINS", tmp_path / "build/pins.txt")
    assert install.pins(extras) == ["--constraint", str(install.PINS)]
    lines = install.PINS.read_text().splitlines()
    pinned = [Requirement(line) for line in lines]  # without hashes, which pip would want of everything
    assert all(str(one.specifier).startswith("==") for one in pinned)
    assert len(lines) == len(set(lines)) > 30
    names = {one.name for one in pinned}
    assert runtime in names
    assert ("onnx" in names) == ("export" in extras)
    assert {name for name in names if name.startswith("nvidia")} >= nvidia
    assert ("nvidia-cudnn-cu13" in names) == ("nvidia-cudnn-cu13" in nvidia)


def test_another_runtime_is_removed_with_what_it_wrote_over(commands, monkeypatch, tmp_path):
    (tmp_path / ".venv").mkdir()
    for name in (".service-cpu", ".dev-cpu", ".service-openvino", "pyvenv.cfg"):
        (tmp_path / ".venv" / name).touch()
    monkeypatch.setattr(install, "ROOT", tmp_path)
    monkeypatch.setattr(install, "is_installed", ["onnxruntime", "onnxruntime-openvino"].__contains__)
    install.remove_other_runtimes(["openvino", "redis"])
    assert commands.run == ["pip uninstall --quiet --yes onnxruntime onnxruntime-openvino"]
    assert sorted(file.name for file in (tmp_path / ".venv").iterdir()) == [".service-openvino", "pyvenv.cfg"]
    install.remove_other_runtimes(["redis"])
    monkeypatch.setattr(install, "is_installed", lambda name: name == "onnxruntime")
    install.remove_other_runtimes(["cpu"])
    assert len(commands.run) == 1


@pytest.fixture
def terminal():
    """Something that writes to a terminal."""
    end, side = pty.openpty()
    with os.fdopen(side, "w") as file:
        yield file
    os.close(end)


def test_on_a_terminal_the_progress_of_uv_is_seen(commands, terminal, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal)
    assert install.install(["cpu"]) == 0
    assert commands.run == [f"uv {PROJECTS}"]
    assert commands.silenced == [], "uv shows it where errors go"


def test_on_a_terminal_the_progress_of_pip_is_seen(commands, terminal, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(install.shutil, "which", lambda name, path=None: None)
    commands.failing = ["uv>="]
    assert install.install(["cpu"]) == 0
    assert commands.run == [f"pip install --target {install.UV_FOLDER} uv>=0.13", f"pip install {PROJECTS}"]
    assert commands.silenced == commands.run[:1], "that uv cannot be had is no error"


def test_uv_installs_for_another_interpreter(commands):
    assert install.find_uv("/other/bin/python")[:5] == ["/found/uv", "pip", "install", "--python", "/other/bin/python"]


def test_without_a_terminal_a_line_says_what_is_installed(commands, capsys):
    assert install.install(["cpu"]) == 0
    assert capsys.readouterr().out == "installing what cpu needs\n"
    assert commands.silenced == commands.run


def test_pip_installs_where_uv_fails(commands):
    commands.failing = ["--index-strategy"]
    assert install.install(["cpu"]) == 0
    assert commands.run[-1] == f"pip install --quiet {PROJECTS}"


def test_pip_installs_where_uv_cannot_be_had(commands, monkeypatch):
    monkeypatch.setattr(install.shutil, "which", lambda name, path=None: None)
    commands.failing = ["uv>="]
    assert install.install(["cpu"]) == 0
    assert commands.run[-1] == f"pip install --quiet {PROJECTS}"


def test_arguments_for_pip_go_to_pip_alone(commands, monkeypatch):
    monkeypatch.setenv("PIP_ARGS", "--index-url 'https://own.example/a b'")
    assert install.install(["cpu"]) == 0
    assert commands.run == [f"pip install --quiet --index-url https://own.example/a b {PROJECTS}"]


class Distribution:
    """Stands for one that is installed, with the file that says from where."""

    def __init__(self, origin):
        self.origin = origin

    def read_text(self, name):
        return self.origin if name == "direct_url.json" else None


@pytest.mark.parametrize(
    ("origins", "goes"),
    [
        ([None, '{"url": "file:///checkout", "dir_info": {"editable": true}}'], True),
        (['{"url": "file:///checkout", "dir_info": {}}'], False),
        ([None], False),
        ([], False),
    ],
    ids=["ours, beside its egg-info", "a copy", "of an index", "none"],
)
def test_what_the_project_installed_by_its_former_name_goes_and_nobody_elses(commands, monkeypatch, origins, goes):
    found = {"regard": [Distribution(origin) for origin in origins]}
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: iter(found.get(name, ())))
    assert install.install(["cpu"]) == 0
    assert ("pip uninstall --quiet --yes regard" in commands.run) == goes


def test_the_former_name_stays_if_nothing_takes_its_place(commands, monkeypatch):
    ours = Distribution('{"dir_info": {"editable": true}}')
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: iter([ours] if name == "regard" else ()))
    commands.failing = ["--editable"]
    assert install.install(["cpu"]) == 1
    assert not any("uninstall" in command for command in commands.run)


TRIES = ["pip install torch==2.13.0+cpu", "uv --torch-backend cpu torch==2.13.0", "pip install torch==2.13.0"]


@pytest.mark.parametrize(
    ("failing", "tries"),
    [([], 1), (["+cpu"], 2), (["+cpu", "--torch-backend"], 3)],
    ids=["an index has it", "PyTorch's own index", "neither"],
)
def test_the_cpu_build_of_torch_is_looked_for_before_that_with_cuda(commands, capsys, failing, tries):
    commands.failing = failing
    assert install.install(["cpu", "export"]) == 0
    assert commands.run[:-1] == TRIES[:tries]
    said = capsys.readouterr().out
    assert said.startswith("installing PyTorch (torch==2.13.0): about 0.2 GB")
    assert ("several gigabytes" in said) == (tries == 3)


def test_with_a_gpu_torch_is_the_build_with_cuda(commands):
    assert install.install(["gpu", "export"]) == 0
    assert commands.run[0] == "pip install torch==2.13.0"


def test_nothing_else_is_installed_after_torch_failed(commands):
    commands.failing = ["torch"]
    assert install.install(["cpu", "export"]) == 1
    assert not any("--editable" in command for command in commands.run)


def test_torch_is_missing_unless_what_is_installed_satisfies_the_project(monkeypatch):
    assert install.missing_torch(["cpu"]) is None
    for installed, missing in (("2.13.0+cpu", None), ("2.13.0", None), ("2.12.0", "torch==2.13.0")):
        monkeypatch.setattr(importlib.metadata, "version", lambda _, version=installed: version)
        assert install.missing_torch(["cpu", "export"]) == missing


def test_a_missing_torch_is_named_by_the_projects_pin(monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    assert install.missing_torch(["cpu", "train"]) == "torch==2.13.0"


@pytest.fixture
def pip_file(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    return tmp_path / "pip.conf"


def test_uv_looks_where_pip_is_configured_to_look(pip_file, monkeypatch):
    pip_file.write_text(
        "[global]\nindex-url = https://one.example/simple\ntimeout = 9\n"
        "find-links = /wheels\ntrusted-host = two.example\nconstraint = /known.txt\n"
        "extra-index-url =\n    https://two.example/simple\n    https://three.example/simple\n"
        "[install]\nindex-url = https://other.example/simple\n"
    )
    options = ["--index", "https://two.example/simple", "--index", "https://three.example/simple"]
    options = ["--index-strategy", "unsafe-best-match", "--default-index", "{}", *options, "--find-links", "/wheels"]
    options += ["--allow-insecure-host", "two.example", "--constraint", "/known.txt"]
    assert install.index_options() == [word.format("https://other.example/simple") for word in options]
    monkeypatch.setenv("PIP_INDEX_URL", "https://own.example/simple")
    assert install.index_options() == [word.format("https://own.example/simple") for word in options]


def test_of_several_files_of_pip_the_one_holds_that_pip_takes(pip_file, tmp_path):
    pip_file.write_text("[global]\nindex-url = https://named.example/simple\n")
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text("[global]\nindex-url = https://user.example/simple\n")
    assert install.pip_setting("index-url") == "https://named.example/simple"
    assert install.pip_setting("no-such-setting") is None


def test_an_old_uv_is_not_taken(monkeypatch):
    said = {"new": "uv 0.13.9 (x86_64)", "later": "uv 1.0.0", "old": "uv 0.4.30", "other": "nothing"}
    monkeypatch.setattr(
        subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, said[command[0]])
    )
    assert [install.is_new(name) for name in said] == [True, True, False, False]
