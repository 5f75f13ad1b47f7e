"""requirements/*.lock: complete for pyproject.toml, hashed, and free of addresses."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Each lock with the extras it is made from.
EXTRAS_OF = {"cpu": ["cpu", "redis", "tracing"], "gpu": ["gpu", "redis", "tracing"], "export": ["cpu", "export"]}
IMAGES = [
    {
        "python_version": f"3.{minor}",
        "python_full_version": f"3.{minor}.2",
        "sys_platform": "linux",
        "platform_machine": machine,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    for minor in (11, 12, 13, 14)
    for machine in ("x86_64", "aarch64")
]
"""What a lock is for: each Python that an image may have, on each processor."""
DOWNLOADERS = {"huggingface-hub", "hf-xet", "fsspec", "httpx2", "httpcore2", "truststore", "tqdm", "filelock", "pyyaml"}
PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)(\[[a-z,]+\])?==(?P<version>\S+)( ; (?P<marker>[^\\]+))? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def text(lock: str) -> str:
    return (ROOT / f"requirements/{lock}.lock").read_text()


def pins(lock: str, image: dict[str, str] = IMAGES[2]) -> dict[str, Version]:
    """What a lock installs in an image: the first of Python 3.12, unless another is given."""
    found: dict[str, Version] = {}
    for pin in filter(None, (PIN.match(line) for line in text(lock).splitlines())):
        if not pin["marker"] or Marker(pin["marker"]).evaluate(image):
            assert pin["name"] not in found, f"{pin['name']}: twice"
            found[canonicalize_name(pin["name"])] = Version(pin["version"])
    return found


@pytest.mark.parametrize("lock", [*EXTRAS_OF, "build"])
def test_a_lock_is_made_of_pins_each_followed_by_its_hashes(lock):
    lines = [line for line in text(lock).splitlines() if line and not line.lstrip().startswith("#")]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        assert PIN.match(line) or HASH.match(line), line
        if line.endswith("\\"):
            assert HASH.match(following), line


@pytest.mark.parametrize("lock", [*EXTRAS_OF, "build"])
def test_a_lock_holds_no_address_and_no_path(lock):
    assert not re.search(r"://|^\s*-[a-z-]*(index|find-links|host)|[/\\][a-z]+[/\\]", text(lock), re.MULTILINE)


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: f"{image['python_version']}-{image['platform_machine']}")
@pytest.mark.parametrize("lock", EXTRAS_OF)
def test_a_lock_satisfies_what_the_project_requires(lock, image):
    pinned = pins(lock, image) | {"torch": torch()}
    optional = (line for name in EXTRAS_OF[lock] for line in PROJECT["optional-dependencies"][name])
    for line in [*PROJECT["dependencies"], *optional]:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate(image):
            continue
        name = canonicalize_name(requirement.name)
        assert name in pinned, line
        assert requirement.specifier.contains(pinned[name], prereleases=True), f"{line}: {pinned[name]}"


def torch() -> Version:
    """The version of torch, which no lock holds."""
    (line,) = [line for line in (ROOT / "requirements/torch.txt").read_text().splitlines() if line[0] != "#"]
    return Version(line.removeprefix("torch=="))


@pytest.mark.parametrize("lock", ["cpu", "gpu"])
def test_a_serving_lock_has_nothing_that_downloads_models(lock):
    assert not {name for image in IMAGES for name in pins(lock, image)} & DOWNLOADERS


def test_the_exporters_lock_has_nothing_for_gpus_and_leaves_torch_to_its_cpu_build():
    named = {name for image in IMAGES for name in pins("export", image)}
    assert not [name for name in named if name.startswith(("nvidia", "cuda", "triton", "torch"))]
    assert {"sympy", "networkx", "jinja2", "filelock", "fsspec"} <= named, "which torch requires beside them"


def test_what_downloads_torch_is_pinned_too():
    assert set(pins("build")) == {"uv"}


@pytest.mark.parametrize("lock", ["cpu", "gpu"])
def test_a_serving_lock_has_no_torch(lock):
    assert not [name for name in pins(lock) if name.startswith(("torch", "onnxscript", "triton")) or name == "onnx"]


@pytest.mark.parametrize("lock", EXTRAS_OF)
def test_a_lock_has_nothing_that_only_the_client_needs(lock):
    """An image runs the service or the exporter; who asks them installs the client where that runs."""
    named = {name for image in IMAGES for name in pins(lock, image)}
    client = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]
    required = {canonicalize_name(Requirement(line).name) for line in client["dependencies"]}
    of_project = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    shared = {"anyio", "typing-extensions"}  # which starlette and pydantic need too
    assert named & (required - of_project - shared) == set()
    assert required - of_project == {"httpx", *shared}


@pytest.mark.parametrize("lock", EXTRAS_OF)
def test_a_lock_has_one_onnxruntime(lock):
    expected = "onnxruntime-gpu" if lock == "gpu" else "onnxruntime"
    assert [name for name in pins(lock) if name.startswith("onnxruntime")] == [expected]


@pytest.mark.parametrize("lock", EXTRAS_OF)
def test_the_environment_of_these_tests_has_what_the_images_have(lock):
    """`make` installs it with the pins as constraints: after `make lock`, run `make lint`, which installs them."""
    installed = {canonicalize_name(one.name): Version(one.version) for one in importlib.metadata.distributions()}
    here = {name: version for name, version in pins(lock, here_now()).items() if name in installed}
    assert len(here) > 30
    beside_torch = {name for name in here if name.startswith("nvidia-") and name != "nvidia-ml-py"}
    assert {name: installed[name] for name in here.keys() - beside_torch} == {
        name: here[name] for name in here.keys() - beside_torch
    }
    assert installed["torch"].public == str(torch())


def here_now() -> dict[str, str]:
    """What this Python says of itself, as a lock's markers ask it."""
    return {name: str(value) for name, value in default_environment().items()}


def test_what_verifies_an_artifact_is_what_serves_it():
    """On a GPU it may be an older one, since onnxruntime-gpu is released later."""
    assert pins("cpu")["onnxruntime"] == pins("export")["onnxruntime"]
    assert pins("gpu")["onnxruntime-gpu"] <= pins("cpu")["onnxruntime"]


def test_the_gpu_lock_brings_the_cuda_libraries_that_were_run_on_a_card():
    named = (line for line in (ROOT / "requirements/cuda.txt").read_text().splitlines() if line[0] != "#")
    ran = {name: Version(version) for name, version in (line.split("==") for line in named)}
    assert {"nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-cuda-runtime", "nvidia-cufft"} <= set(ran)
    libraries = {name: one for name, one in pins("gpu").items() if name.startswith("nvidia-")}
    assert libraries == ran | {"nvidia-ml-py": libraries["nvidia-ml-py"]}
    assert ran["nvidia-cuda-runtime"].release[:2] == (13, 0), "a driver of 580 knows CUDA 13.0 and no newer"


@pytest.mark.parametrize("lock", ["gpu", "export"])
def test_the_locks_agree_on_what_the_service_needs(lock):
    cpu, other = pins("cpu"), pins(lock)
    assert {name: other[name] for name in cpu if name in other} == {name: cpu[name] for name in cpu if name in other}


def test_torch_is_named_without_a_build_of_it():
    assert torch().local is None
