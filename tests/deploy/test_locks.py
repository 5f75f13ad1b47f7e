"""requirements/*.lock: complete for pyproject.toml, hashed, and free of addresses."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ["cpu", "gpu", "export"]
IMAGE = {
    "python_version": "3.12",
    "python_full_version": "3.12.0",
    "sys_platform": "linux",
    "platform_machine": "x86_64",
}
PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)(\[[a-z,]+\])?==(?P<version>\S+) \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def text(extra: str) -> str:
    return (ROOT / f"requirements/{extra}.lock").read_text()


def pins(extra: str) -> dict[str, Version]:
    found = (PIN.match(line) for line in text(extra).splitlines())
    return {canonicalize_name(pin["name"]): Version(pin["version"]) for pin in found if pin}


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_lock_is_made_of_pins_each_followed_by_its_hashes(extra):
    lines = [line for line in text(extra).splitlines() if not line.lstrip().startswith("#")]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        assert PIN.match(line) or HASH.match(line), line
        if line.endswith("\\"):
            assert HASH.match(following), line


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_lock_holds_no_address_and_no_path(extra):
    assert not re.search(r"://|^\s*-[a-z-]*(index|find-links|host)|[/\\][a-z]+[/\\]", text(extra), re.MULTILINE)


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_lock_satisfies_what_the_project_requires(extra):
    pinned = pins(extra)
    for line in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"][extra]]:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate(IMAGE):
            continue
        name = canonicalize_name(requirement.name)
        assert name in pinned, line
        assert requirement.specifier.contains(pinned[name], prereleases=True), f"{line}: {pinned[name]}"


@pytest.mark.parametrize("extra", ["cpu", "gpu"])
def test_a_serving_lock_has_no_torch(extra):
    assert not [name for name in pins(extra) if name.startswith(("torch", "onnxscript", "triton")) or name == "onnx"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_lock_has_one_onnxruntime(extra):
    expected = "onnxruntime-gpu" if extra == "gpu" else "onnxruntime"
    assert [name for name in pins(extra) if name.startswith("onnxruntime")] == [expected]


def test_what_verifies_an_artifact_is_what_serves_it():
    versions = {pins("cpu")["onnxruntime"], pins("gpu")["onnxruntime-gpu"], pins("export")["onnxruntime"]}
    assert len(versions) == 1


def test_the_gpu_lock_brings_the_cuda_libraries_that_the_runtime_loads():
    assert {"nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-cuda-runtime", "nvidia-cufft"} <= set(pins("gpu"))


@pytest.mark.parametrize("extra", ["gpu", "export"])
def test_the_locks_agree_on_what_the_service_needs(extra):
    cpu, other = pins("cpu"), pins(extra)
    assert {name: other[name] for name in cpu if name in other} == {name: cpu[name] for name in cpu if name in other}


def test_torch_is_the_registrys_build_and_not_a_local_one():
    assert pins("export")["torch"].local is None
