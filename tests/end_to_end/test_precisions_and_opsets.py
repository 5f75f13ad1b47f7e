"""Lower precisions and other opsets: what is exported is served, near to what full precision answers."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from contract.artifact import read_artifact
from service.runtime.runtime_errors import ProviderError
from service.runtime.session import open_sessions
from service.settings import Settings
from tests.conftest import ROOT
from tests.samples.in_process import in_process

EXPORTS = {
    "bart-fp16": ("bart", "--precision", "fp16"),
    "bart-int8": ("bart", "--precision", "int8"),
    "deit-fp16": ("deit", "--precision", "fp16"),
    "bert-int8": ("bert", "--precision", "int8"),
    "bert-18": ("bert", "--opset", "18"),
    "gpt2-24": ("gpt2", "--opset", "24"),
    "gpt2-fp16-24": ("gpt2", "--precision", "fp16", "--opset", "24"),
}


@pytest.fixture(scope="module")
def folder(families, tmp_path_factory):
    folder = tmp_path_factory.mktemp("precision")

    def export(name):
        checkpoint, *options = EXPORTS[name]
        given = ["--name", name, "--to", str(folder), *options]
        command = [sys.executable, "-m", "export", str(families / "checkpoints" / checkpoint), *given]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    with ThreadPoolExecutor(2) as two:
        list(two.map(export, EXPORTS))
    for name in ("bart", "deit", "bert", "gpt2"):
        (folder / name).symlink_to(families / "artifacts" / name)
    return folder


@pytest.fixture(scope="module")
def client(folder):
    with in_process(folder) as client:
        yield client


def test_a_manifest_names_precision_and_opset_and_caches_are_float16(folder):
    manifests = {name: read_artifact(folder / name / "1").manifest for name in EXPORTS}
    for name, manifest in manifests.items():
        assert manifest.precision == ("fp16" if "fp16" in name else "int8" if "int8" in name else "fp32")
        assert manifest.made_by["opset"] == (18 if "18" in name else 24 if "24" in name else 20)
    ports = {port.name: port.dtype for port in manifests["bart-fp16"].graphs["decode"].inputs}
    assert {dtype for name, dtype in ports.items() if name.startswith("past.")} == {"float16"}
    assert manifests["bart-fp16"].graphs["decode"].outputs[0].dtype == "float32"


@pytest.mark.parametrize("name", EXPORTS)
def test_answers_are_near_those_of_full_precision(client, name):
    full = EXPORTS[name][0]
    near = 2e-2 if "fp16" in name else 0.35 if "int8" in name else 1e-4
    look = {"method": "raw", "layers": "all", "heads": "all", "queries": "all", "digits": 6}
    if full == "deit":
        image = (ROOT / "tests/data/digits/seven.png").read_bytes()
        answers = [
            client.post(f"/v1/models/{one}/classify?attention=raw&heads=all", files={"image": image}).json()["results"][
                0
            ]
            for one in (name, full)
        ]
    else:
        endpoint = "classify" if full == "bert" else "generate"
        body = {"inputs": "the old cat sat", "attention": look} | (
            {"max_new_tokens": 1} if endpoint == "generate" else {}
        )
        answers = [client.post(f"/v1/models/{one}/{endpoint}", json=body).json()["results"][0] for one in (name, full)]
    lower, exact = answers
    for ours, theirs in zip(lower["attention"]["maps"], exact["attention"]["maps"], strict=True):
        assert np.abs(np.subtract(ours["values"], theirs["values"])).max() < near
    if "labels" in exact:
        probabilities = {label["index"]: label["probability"] for label in exact["labels"]}
        for label in lower["labels"]:
            assert label["probability"] == pytest.approx(probabilities[label["index"]], abs=near)


@pytest.mark.slow
def test_bfloat16_is_exported_as_far_as_a_cpu_can_verify_it_and_refused_by_a_cpu(families, tmp_path):
    given = ["--precision", "bf16", "--opset", "24", "--name", "low", "--to", str(tmp_path)]
    command = [sys.executable, "-m", "export", str(families / "checkpoints" / "bart"), *given]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "not verified: rounding of what bf16 computes" in done.stdout
    assert "6 of 6 attentions" in done.stdout
    artifact = read_artifact(tmp_path / "low" / "1")
    assert artifact.manifest.precision == "bf16"
    assert artifact.manifest.verified["run in"] == "fp32, weights as rounded to bf16"
    ports = {port.name: port.dtype for port in artifact.manifest.graphs["decode"].inputs}
    assert {dtype for name, dtype in ports.items() if name.startswith("past.")} == {"bfloat16"}
    with pytest.raises(
        ProviderError, match=r"^low/predict: cpu runs artifacts in fp32, fp16, int8 or calibrated int8, given bf16$"
    ):
        open_sessions(artifact, ("predict", "attention"), "cpu", Settings())


def test_half_precision_generates_the_same_text(client):
    texts = ["the cat", "a dog ran to the old house", "good"]
    lower, exact = (
        client.post(f"/v1/models/{one}/generate", json={"inputs": texts, "num_beams": 1}).json()["results"]
        for one in ("bart-fp16", "bart")
    )
    assert [one["text"] for one in lower] == [one["text"] for one in exact]
