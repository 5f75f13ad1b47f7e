"""`make bench-gpu` runs before there is a GPU: at small sizes, on a CPU."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_the_benchmark_of_gpus_runs_on_a_cpu_and_says_what_it_left_out():
    parts = ["--parts", "profile", "predictions", "attention", "losses", "generation"]
    command = [sys.executable, "-m", "benchmarks.gpu", "--device", "cpu", "--quick", *parts]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for printed in (
        "| ours |",
        "attention's graph loaded",
        "| fp16 | 0.99",
        "| ms a step |",
        "a step of",
        "| target | wanted |",
    ):
        assert printed in done.stdout, printed
    assert "generation beside CTranslate2: not measured" in done.stdout


@pytest.mark.slow
def test_without_cuda_the_benchmark_of_gpus_measures_nothing():
    done = subprocess.run([sys.executable, "-m", "benchmarks.gpu"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        pytest.skip("there is CUDA here")
    assert "not measured: device: cuda needs" in done.stderr
