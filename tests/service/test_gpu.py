"""On a GPU: the same answers as on the CPU, for every role. `make gpu-test`."""

import numpy as np
import onnxruntime
import pytest

from tests.conftest import served
from tests.service.test_api import ALL, DIGITS, PNG, TEXTS

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def both(artifacts):
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has no CUDA")
    with served(artifacts, device="cpu") as cpu, served(artifacts, device="cuda") as cuda:
        yield cpu, cuda


def close(one, other, where=""):
    """Hold two answers against each other: numbers to 1e-4, everything else exactly."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for name in one.keys() - {"id"}:
            close(one[name], other[name], f"{where}.{name}")
    elif isinstance(one, list):
        assert np.shape(one) == np.shape(other) if one and isinstance(one[0], float) else len(one) == len(other), where
        for place, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            close(mine, theirs, f"{where}[{place}]")
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=1e-4), where
    else:
        assert one == other, where


def test_the_provider_in_use_is_cuda(both):
    for model in both[1].get("/v1/models").json()["models"]:
        assert model["provider"] == "CUDAExecutionProvider"


@pytest.mark.parametrize(
    "options", [{}, {"attention": "rollout"}, {"attention": "raw", "layers": "all", "heads": "all"}]
)
def test_images_are_answered_as_on_the_cpu(both, options):
    for path in DIGITS:
        answers = [
            client.post("/v1/models/digits/classify", content=path.read_bytes(), headers=PNG, params=options).json()
            for client in both
        ]
        close(*answers)


@pytest.mark.parametrize("options", [{}, {"num_beams": 4}, {"attention": ALL}])
def test_texts_are_answered_as_on_the_cpu(both, options):
    close(*(client.post("/v1/models/dates/generate", json={"inputs": TEXTS, **options}).json() for client in both))
