"""Lower precisions and other opsets: what is exported is served, near to what full precision answers."""

import functools
import subprocess
import sys

import numpy as np
import pytest

from contract.artifact import read_artifact
from service.runtime.runtime_errors import ProviderError
from service.runtime.session import open_sessions
from service.settings import Settings
from tests.conftest import ROOT
from tests.samples.checkpoints import READ
from tests.samples.exports import export, once
from tests.samples.http_requests import SEVEN
from tests.samples.in_process import in_process

EXPORTS = {
    "bart-int8": ("bart", "--precision", "int8"),
    "bert-18": ("bert", "--opset", "18"),
    "gpt2-fp16-24": ("gpt2", "--precision", "fp16", "--opset", "24"),
    "bart-fp16": ("bart", "--precision", "fp16"),
    "deit-fp16": ("deit-distilled", "--precision", "fp16"),
    "bert-int8": ("bert", "--precision", "int8"),
    "gpt2-24": ("gpt2", "--opset", "24"),
}
FEW = 3
NAMES = [pytest.param(name, marks=pytest.mark.slow if number >= FEW else ()) for number, name in enumerate(EXPORTS)]
"""Each precision and each opset once; the others, which differ from these by nothing that lowers them, are slow."""


@pytest.fixture(scope="module")
def lowered(families, checkpoints):
    """What returns a client of a service with a checkpoint in another precision or opset, beside its full one."""

    @functools.cache
    def folder(name):
        case, *options = EXPORTS[name]
        made = once(name, export(checkpoints(case), "--name", name, *options), *READ)
        return made / name, families(case)

    return folder


@pytest.fixture
def both(lowered, request, tmp_path):
    """The name of a case in another precision or opset, and a client of a service that has both."""
    name = request.param
    for folder in lowered(name):
        (tmp_path / folder.name).symlink_to(folder)
    with in_process(tmp_path) as client:
        yield name, client


@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_names_precision_and_opset_and_caches_are_float16(lowered, name):
    manifest = read_artifact(lowered(name)[0] / "1").manifest
    assert manifest.precision == ("fp16" if "fp16" in name else "int8" if "int8" in name else "fp32")
    assert manifest.made_by["opset"] == (18 if "18" in name else 24 if "24" in name else 20)
    if "fp16" in name and "decode" in manifest.graphs:
        ports = {port.name: port.dtype for port in manifest.graphs["decode"].inputs}
        assert {dtype for port, dtype in ports.items() if port.startswith("past.")} == {"float16"}
        assert manifest.graphs["decode"].outputs[0].dtype == "float32"


@pytest.mark.parametrize("both", NAMES, indirect=True)
def test_answers_are_near_those_of_full_precision(both):
    name, client = both
    full = EXPORTS[name][0]
    near = 2e-2 if "fp16" in name else 0.35 if "int8" in name else 1e-4
    look = {"method": "raw", "layers": "all", "heads": "all", "queries": "all", "digits": 6}
    if full == "deit-distilled":
        path, sent = "classify?attention=raw&heads=all", {"files": {"image": SEVEN}}
    elif full == "bert":
        path, sent = "classify", {"json": {"inputs": "the old cat sat", "attention": look}}
    else:
        path, sent = "generate", {"json": {"inputs": "the old cat sat", "attention": look, "max_new_tokens": 1}}
    lower, exact = (client.post(f"/v1/models/{one}/{path}", **sent).json()["results"][0] for one in (name, full))
    for ours, theirs in zip(lower["attention"]["maps"], exact["attention"]["maps"], strict=True):
        assert np.abs(np.subtract(ours["values"], theirs["values"])).max() < near
    if "labels" in exact:
        probabilities = {label["index"]: label["probability"] for label in exact["labels"]}
        for label in lower["labels"]:
            assert label["probability"] == pytest.approx(probabilities[label["index"]], abs=near)


@pytest.mark.slow
def test_bfloat16_is_exported_as_far_as_a_cpu_can_verify_it_and_refused_by_a_cpu(checkpoints, tmp_path):
    given = ["--precision", "bf16", "--opset", "24", "--name", "low", "--to", str(tmp_path)]
    command = [sys.executable, "-m", "export", str(checkpoints("bart")), *given]
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
        ProviderError,
        match=r"^low/predict: cpu runs artifacts in fp32, fp16, int8, calibrated int8 or int4, given bf16$",
    ):
        open_sessions(artifact, ("predict", "attention"), "cpu", Settings())


@pytest.mark.parametrize("both", ["gpt2-fp16-24", pytest.param("bart-fp16", marks=pytest.mark.slow)], indirect=True)
def test_half_precision_generates_the_same_text(both):
    name, client = both
    texts = ["the cat", "a dog ran to the old house", "good"]
    lower, exact = (
        client.post(f"/v1/models/{one}/generate", json={"inputs": texts, "num_beams": 1}).json()["results"]
        for one in (name, EXPORTS[name][0])
    )
    assert [one["text"] for one in lower] == [one["text"] for one in exact]
