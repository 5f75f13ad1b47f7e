"""The import arrows: model -> export -> artifact -> service, and contract below export and service."""

import ast
import tomllib

import pytest

from service import VERSION
from tests.conftest import ROOT

MAY_NOT = {
    "contract": {"model", "export", "service", "torch", "onnx", "onnxruntime", "fastapi", "numpy"},
    "model": {"contract", "export", "service", "onnx", "onnxruntime", "onnxscript", "fastapi", "starlette"},
    "export": {"service", "fastapi", "starlette", "uvicorn"},
    "service": {"model", "export", "torch", "onnx", "onnxscript", "safetensors"},
}


def imports(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("package", MAY_NOT)
def test_a_package_imports_only_what_lies_below_it(package):
    files = list((ROOT / package).rglob("*.py"))
    assert files
    for file in files:
        assert not set(imports(file)) & MAY_NOT[package], file


def test_only_two_files_of_the_service_know_onnxruntime():
    knowing = {file.name for file in (ROOT / "service").rglob("*.py") if "onnxruntime" in set(imports(file))}
    assert knowing == {"binding.py", "run.py"}


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
    assert (
        f"## {VERSION}" in (ROOT / "CHANGELOG.md").read_text() or "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()
    )
