"""On a GPU: the same answers as on the CPU, for every role and precision. `make gpu-test`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from contract.artifact import read_artifact
from contract.manifest import GRADIENT_METHODS
from service.runtime.providers import largest_batch
from service.runtime.runtime_errors import SessionError
from service.runtime.session import DeviceFull, Session, choose_device
from service.settings import Settings
from tests.conftest import ROOT, lines, served, start
from tests.samples.http_requests import DIGIT_FILES, EVERY_MAP, PNG, WRITTEN_DATES

pytestmark = pytest.mark.gpu

PRECISIONS = {"fp32": 1e-4, "fp16": 2e-2, "bf16": 1e-1}
"""Largest difference of a number from the CPU's in full precision, times the largest value where that is over 1."""

DEVICE = os.environ.get("TEST_DEVICE", "cuda")
"""`cpu` runs what of this a CPU can, so that the tests themselves are known to work."""


@pytest.fixture(scope="module")
def folders(request, tmp_path_factory):
    """The bundled models by precision, those of half floats fused."""
    if DEVICE == "cuda" and "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has no CUDA")
    if carried := os.environ.get("TEST_GPU_ARTIFACTS"):  # exported elsewhere: a folder for each precision
        return {folder.name: folder for folder in Path(carried).iterdir() if folder.name in PRECISIONS}
    found = {"fp32": request.getfixturevalue("artifacts")}
    for precision in PRECISIONS.keys() - {"fp32"} - ({"bf16"} if DEVICE == "cpu" else set()):
        found[precision] = tmp_path_factory.mktemp(precision)
        given = ["--precision", precision, "--opset", "24", "--to", found[precision]]
        exported("digits", "dates", *given)
    return found


def exported(*given):
    done = subprocess.run([sys.executable, "-m", "export", *given], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=PRECISIONS)
def both(request, folders):
    """A client of the CPU in full precision, one of the GPU, and how near they must be."""
    if request.param not in folders:
        pytest.skip(f"{DEVICE} does not run {request.param}")
    with served(folders["fp32"], device="cpu") as cpu, served(folders[request.param], device=DEVICE) as gpu:
        yield cpu, gpu, PRECISIONS[request.param]


@pytest.fixture(scope="module", params=PRECISIONS)
def artifact(request, folders):
    if request.param not in folders:
        pytest.skip(f"{DEVICE} does not run {request.param}")
    return read_artifact(folders[request.param] / "digits" / "1")


def close(one, other, near, where=""):
    """Hold two answers against each other: numbers as near as that, everything else exactly."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for name in one.keys() - {"id", "model", "version"}:
            close(one[name], other[name], near, f"{where}.{name}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for place, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            close(mine, theirs, near, f"{where}[{place}]")
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=near * max(1, abs(one))), where
    else:
        assert one == other, where


def by_index(answer):
    """Return an answer whose labels are in the order of their indices: near ones may have changed places."""
    for result in answer["results"]:
        if "labels" in result:
            result["labels"].sort(key=lambda label: label["index"])
    return answer


def needs(client, model, method):
    """Skip the test if a model in half floats was exported without this method: rounding changed it too much."""
    found = client.get(f"/v1/models/{model}").json()
    if found["precision"] != "fp32" and method not in found["attention"]["methods"]:
        pytest.skip(f"{model} in {found['precision']} has no {method}")


def asked(clients, path, **request):
    for client in clients:
        response = client.post(path, timeout=120, **request)
        assert response.status_code == 200, response.text
        yield by_index(response.json())


def test_the_provider_in_use_is_the_one_asked_for(both):
    for model in both[1].get("/v1/models").json()["models"]:
        assert model["provider"] == ("CPUExecutionProvider" if DEVICE == "cpu" else "CUDAExecutionProvider")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attention": "rollout"},
        {"attention": "raw", "layers": "all", "heads": "all"},
        {"attention": "norm", "layers": "all"},
        *({"attention": method, "target": "3"} for method in GRADIENT_METHODS),
    ],
    ids=lambda options: options.get("attention", "predict"),
)
def test_images_are_answered_as_on_the_cpu(both, options):
    *clients, near = both
    needs(clients[1], "digits", options.get("attention", "raw"))
    for path in DIGIT_FILES:
        given = {"content": path.read_bytes(), "headers": PNG, "params": options}
        close(*asked(clients, "/v1/models/digits/classify", **given), near)


@pytest.mark.parametrize("options", [{}, {"num_beams": 4}], ids=["greedy", "beams"])
def test_texts_are_generated_as_on_the_cpu(both, options):
    *clients, near = both
    close(*asked(clients, "/v1/models/dates/generate", json={"inputs": WRITTEN_DATES, **options}), near)


@pytest.mark.parametrize(
    "attention",
    [EVERY_MAP, {"method": "rollout", "kind": "encoder"}, *({"method": method} for method in GRADIENT_METHODS)],
)
def test_attention_of_texts_is_that_of_the_cpu(both, attention):
    *clients, near = both
    needs(clients[1], "dates", attention["method"])
    close(*asked(clients, "/v1/models/dates/generate", json={"inputs": WRITTEN_DATES, "attention": attention}), near)


def test_texts_that_join_and_leave_are_generated_as_alone(both):
    """Rows come and go between steps, each with caches of its own."""
    _, client, _ = both
    texts = [text for text in WRITTEN_DATES for _ in range(4)]
    together = client.post("/v1/models/dates/generate", json={"inputs": texts}, timeout=120).json()["results"]
    alone = [client.post("/v1/models/dates/generate", json={"inputs": text}).json()["results"][0] for text in texts]
    assert [one["text"] for one in together] == [one["text"] for one in alone]


def test_every_captured_batch_size_is_played_back(artifact):
    """Twice a size, with other images: what was recorded must read what is there now."""
    settings = Settings(batch_tokens=1000)
    session = Session(artifact, "predict", choose_device(DEVICE), settings)
    if DEVICE != "cpu":
        assert session._captured is not None
        assert session._captured.sizes[-1] == largest_batch(artifact.manifest, settings)
    session.warm_up()
    plain = Session(artifact, "predict", choose_device(DEVICE), Settings(cuda_graphs=False))
    rng = np.random.default_rng(0)
    for count in [*range(1, 21), 37, 3, 1]:
        pixels = rng.integers(0, 256, (count, 28, 28, 1), np.uint8)
        (wanted,), (found,) = plain.run({"pixels": pixels}).values(), session.run({"pixels": pixels}).values()
        # (another batch size may choose another kernel)
        near = 1e-5 if artifact.manifest.precision == "fp32" else PRECISIONS[artifact.manifest.precision]
        np.testing.assert_allclose(found, wanted, atol=near * max(1, np.abs(wanted).max()), err_msg=str(count))


@pytest.mark.skipif(DEVICE == "cpu", reason="a CPU's memory is not limited")
def test_a_batch_that_the_limit_of_memory_has_no_room_for_is_refused_and_the_session_lives(folders):
    artifact = read_artifact(folders["fp32"] / "digits" / "1")
    settings = Settings(device_memory_bytes=64 << 20, cuda_graphs=False)
    session = Session(artifact, "predict", choose_device(DEVICE), settings)
    one = {"pixels": np.zeros((1, 28, 28, 1), np.uint8)}
    wanted = session.run(one)["logits"]
    with pytest.raises(DeviceFull):
        session.run({"pixels": np.zeros((20_000, 28, 28, 1), np.uint8)})
    np.testing.assert_allclose(session.run(one)["logits"], wanted, atol=1e-5)


@pytest.mark.skipif(DEVICE == "cpu", reason="a CPU's memory is not limited")
def test_a_captured_batch_that_has_no_room_ends_the_start(folders):
    artifact = read_artifact(folders["fp32"] / "digits" / "1")
    settings = Settings(device_memory_bytes=64 << 20, batch_tokens=1_000_000)
    with pytest.raises(SessionError, match=r"has no room in the memory of the device|cannot be loaded"):
        Session(artifact, "predict", choose_device(DEVICE), settings).warm_up()


@pytest.mark.skipif(DEVICE == "cpu", reason="a CPU's memory is not limited")
def test_a_service_whose_limit_of_memory_is_too_small_says_so_and_ends(folders, tmp_path):
    with (tmp_path / "log").open("w+") as log:
        process = start(folders["fp32"], log, device=DEVICE, device_memory_bytes=1 << 20, port=0)
        assert process.wait(timeout=120) == 4
        said = " ".join(line for line in lines(log) if json.loads(line)["event"] != "settings")
    assert "memory of the device" in said or "cannot be loaded" in said


@pytest.mark.skipif(DEVICE == "cpu", reason="needs TensorRT")
def test_tensorrt_predicts_of_images_as_the_cpu(folders, tmp_path):
    pytest.importorskip("tensorrt", reason="needs the package tensorrt")
    exported("digits", "--precision", "fp16", "--to", tmp_path / "plain")  # it does not know what is fused for CUDA
    engines = tmp_path / "engines"
    with (
        served(folders["fp32"], device="cpu") as cpu,
        served(tmp_path / "plain", device="tensorrt", engine_cache=engines) as gpu,
    ):
        for path in DIGIT_FILES:
            given = {"content": path.read_bytes(), "headers": PNG}
            close(*asked((cpu, gpu), "/v1/models/digits/classify", **given), PRECISIONS["fp16"])
    assert list(engines.rglob("*.engine"))
    assert any("engines are built" in line["event"] for line in gpu.log)
