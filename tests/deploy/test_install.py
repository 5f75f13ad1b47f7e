"""What installs the project: uv where it works, pip where not, and PyTorch's CPU build where there is one."""

import importlib.metadata
import subprocess
import sys

import pytest

from deploy import install

UV = ["/found/uv", "pip", "install", "--python", sys.executable]
PROJECT = ["--editable", ".[cpu,export]"]


class Commands:
    """Stands for all programs: notes what is run, and fails what is said to fail."""

    def __init__(self):
        self.run, self.failing, self.configured = [], [], ""

    def __call__(self, command, **options):
        self.run.append([part for part in command if part not in install.PIP])
        fails = any(part in " ".join(command) for part in self.failing)
        output = self.configured if command[-2:] == ["config", "list"] else ""
        return subprocess.CompletedProcess(command, int(fails), output)

    def installs(self):
        return [
            [part for part in command if part not in UV] for command in self.run if command[-2:] != ["config", "list"]
        ]


@pytest.fixture
def commands(monkeypatch):
    commands = Commands()
    monkeypatch.setattr(subprocess, "run", commands)
    monkeypatch.setattr(install.shutil, "which", lambda name, path=None: "/found/uv")
    monkeypatch.setattr(install, "missing_torch", lambda extras: "torch==2.13.0" if "export" in extras else None)
    monkeypatch.delenv("PIP_ARGS", raising=False)
    return commands


def test_the_service_is_installed_by_uv_and_without_torch(commands):
    assert install.install(["cpu"]) == 0
    (one,) = [command for command in commands.run if "config" not in command]
    assert one[:5] == UV
    assert one[-2:] == ["--editable", ".[cpu]"]
    assert not any("torch" in part for part in one)


def test_uv_looks_where_pip_is_configured_to_look(commands):
    commands.configured = (
        ":env:.index-url='https://one.example/simple'\nglobal.extra-index-url='https://two.example file:///three'\n"
        "global.find-links='/wheels'\nglobal.timeout='9'\n"
    )
    assert install.index_options() == [
        "--index-strategy", "unsafe-best-match", "--default-index", "https://one.example/simple",
        "--index", "https://two.example", "--index", "file:///three", "--find-links", "/wheels",
    ]  # fmt: skip


def test_pip_installs_where_uv_fails(commands):
    commands.failing = ["--index-strategy"]
    assert install.install(["cpu"]) == 0
    assert commands.installs()[-1] == ["install", "--quiet", "--editable", ".[cpu]"]


def test_pip_installs_where_uv_cannot_be_had(commands, monkeypatch):
    monkeypatch.setattr(install.shutil, "which", lambda name, path=None: None)
    commands.failing = ["uv>="]
    assert install.install(["cpu"]) == 0
    assert commands.installs()[-1] == ["install", "--quiet", "--editable", ".[cpu]"]


def test_arguments_for_pip_go_to_pip_alone(commands, monkeypatch):
    monkeypatch.setenv("PIP_ARGS", "--index-url 'https://own.example/a b'")
    assert install.install(["cpu"]) == 0
    assert commands.run == [["install", "--quiet", "--index-url", "https://own.example/a b", "--editable", ".[cpu]"]]


@pytest.mark.parametrize(
    ("failing", "tried"),
    [
        ([], [["install", "torch==2.13.0+cpu"]]),
        (["+cpu"], [["install", "torch==2.13.0+cpu"], ["--torch-backend", "cpu", "torch==2.13.0"]]),
        (
            ["+cpu", "--torch-backend"],
            [
                ["install", "torch==2.13.0+cpu"],
                ["--torch-backend", "cpu", "torch==2.13.0"],
                ["install", "torch==2.13.0"],
            ],
        ),
    ],
    ids=["an index has it", "PyTorch's own index", "neither"],
)
def test_the_cpu_build_of_torch_is_looked_for_before_that_with_cuda(commands, capsys, failing, tried):
    commands.failing = failing
    assert install.install(["cpu", "export"]) == 0
    assert [[part for part in one if part != "install" or one[0] == part] for one in commands.installs()[:-1]] == tried
    said = capsys.readouterr().out
    assert said.startswith("installing PyTorch (torch==2.13.0): about 0.2 GB")
    assert ("several gigabytes" in said) == (len(tried) == 3)


def test_with_a_gpu_torch_is_the_build_with_cuda(commands):
    assert install.install(["gpu", "export"]) == 0
    assert commands.installs()[0] == ["install", "torch==2.13.0"]


def test_nothing_else_is_installed_after_torch_failed(commands):
    commands.failing = ["torch"]
    assert install.install(["cpu", "export"]) == 1
    assert not any(PROJECT[-1] in command for command in commands.run)


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
