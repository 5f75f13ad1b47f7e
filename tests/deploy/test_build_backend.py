"""The project is installed from its checkout, and no package of it is built."""

import os
import subprocess
import sys
import tomllib
import zipfile

import pytest

from tests.conftest import ROOT

PIP = [sys.executable, "-m", "pip"]
SAYS = "regard-service: is not built as a package, since it runs from its checkout"


@pytest.fixture
def checkout(tmp_path):
    """A copy of what a build reads, since it writes beside it."""
    (tmp_path / "deploy").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "deploy/build_backend.py"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for name in ("service", "model"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    return tmp_path


def build(checkout, program):
    """Run some lines of Python as an installer runs them beside the backend."""
    lines = f"import sys; sys.path.insert(0, 'deploy'); import build_backend as backend\n{program}"
    return subprocess.run([sys.executable, "-c", lines], cwd=checkout, capture_output=True, text=True)


def test_pip_says_in_a_sentence_why_it_builds_no_wheel(checkout):
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", checkout / "wheels"]
    done = subprocess.run(
        [*PIP, "wheel", *options, checkout], capture_output=True, text=True, env=os.environ | {"PIP_NO_INDEX": "1"}
    )
    assert done.returncode == 1
    assert SAYS in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not [*checkout.rglob("*.whl")]


@pytest.mark.parametrize(
    "hook", ["build_wheel('.')", "build_sdist('.')", "get_requires_for_build_wheel()", "get_requires_for_build_sdist()"]
)
def test_every_way_to_a_package_is_refused(checkout, hook):
    done = build(checkout, f"backend.{hook}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(SAYS)
    assert len(done.stderr.splitlines()) == 1
    assert "regard-client, from the folder client/" in done.stderr


def test_an_editable_install_refers_to_the_checkout(checkout):
    done = build(checkout, "print(backend.get_requires_for_build_editable()); backend.build_editable('.')")
    assert done.returncode == 0, done.stderr
    (wheel,) = checkout.glob("regard_service-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        metadata = packed.read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert not [name for name in names if name.startswith(("service/", "model/"))]
    assert "Name: regard-service\n" in metadata
    assert "Classifier: Private :: Do Not Upload\n" in metadata


def test_the_project_is_built_by_it_and_the_client_is_a_package_like_any_other():
    project, client = (tomllib.loads((ROOT / file).read_text()) for file in ("pyproject.toml", "client/pyproject.toml"))
    assert project["build-system"]["build-backend"] == "build_backend"
    assert project["build-system"]["backend-path"] == ["deploy"]
    assert client["build-system"]["build-backend"] == "setuptools.build_meta"
    assert client["project"]["name"] == "regard-client"
