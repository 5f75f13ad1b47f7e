"""Decoders of real size are exported and served within the memory that is said before; every number is random."""

import os
import re
import subprocess
import sys

import pytest

from contract.artifact import read_manifest
from contract.manifest import GRADIENT_METHODS
from export.cost import free_bytes
from tests import conftest
from tests.conftest import ROOT, served
from tests.samples.large_decoders import write_checkpoint

pytestmark = pytest.mark.slow

GB = 1e9
METHODS = "raw", "rollout", "norm", "relevance", "libra", "integrated"
SIZES = {
    ("qwen3-quarter", "int8"): (4, 600),
    ("qwen3-quarter", "int4"): (4, 600),
    ("qwen3-0.6b", "fp32"): (8, 1800),
    ("llama-1b", "fp32"): (13, 3600),
}
"""Shape and precision -> the most GB of memory, and the most seconds of processor time."""


def exported(folder, shape, precision):
    """Export a checkpoint of a shape; return what was said, and what the process has used."""
    checkpoint = write_checkpoint(folder / shape, shape)
    command = [sys.executable, "-m", "export", checkpoint, "--to", folder / "artifacts", "--precision", precision]
    with (folder / "said").open("w+") as said:
        child = subprocess.Popen(
            [*command, "--force"] if precision != "fp32" else command, stdout=said, stderr=subprocess.STDOUT, cwd=ROOT
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    assert child.returncode == 0, text
    return text, used


@pytest.mark.parametrize(("shape", "precision"), SIZES)
def test_a_decoder_is_exported_and_served_within_the_memory_that_is_said(tmp_path, monkeypatch, shape, precision):
    most, longest = SIZES[shape, precision]
    if (free_bytes() or 0) < most * GB:
        pytest.skip(f"needs {most} GB of memory")
    said, used = exported(tmp_path, shape, precision)
    peak = used.ru_maxrss * 1024
    told = float(re.search(r"takes +about ([\d.]+) GB", said)[1])
    assert peak < most * GB
    assert 0.8 < told * GB / peak < 1.35, f"{told} GB were said, {peak / GB:.2f} were taken"
    assert used.ru_utime + used.ru_stime < longest
    artifact = tmp_path / "artifacts" / shape / "1"
    manifest = read_manifest(artifact)
    files = (artifact / "weights.bin").stat().st_size
    numbers = float(re.search(r"([\d.]+) million parameters", said)[1]) * 1e6
    assert files < (1.01 * 4 if precision == "fp32" else 3) * numbers, "graphs share their weights"
    assert precision == "fp32" or any("perplexity" in what for what in manifest.verified)
    monkeypatch.setattr(conftest, "START_SECONDS", 600)
    with served(tmp_path / "artifacts") as client:
        client.timeout = 300
        asked = {"inputs": "the cat sat", "max_new_tokens": 4}
        (result,) = client.post(f"/v1/models/{shape}/generate", json=asked).json()["results"]
        assert len(result["tokens"]) == 4
        for method in METHODS[: None if precision == "fp32" else 3]:
            look = {"method": method} | ({"target": [0]} if method in GRADIENT_METHODS else {})
            answer = client.post(f"/v1/models/{shape}/attention", json={**asked, "attention": look})
            assert answer.status_code == 200, answer.text[:500]
