"""Why a GPU cannot be used: each reason has its words, which say what to do. NVIDIA's driver is a fake here."""

import ctypes
import re
import types
from collections.abc import Callable

import pytest

from service.runtime import gpu, session
from tests.conftest import ROOT

DOCS = (ROOT / "docs/gpu.md").read_text()


def driver(version: int, capability: tuple[int, int] = (9, 0), status: int = 0) -> types.SimpleNamespace:
    """Stands for libcuda: what it answers of itself and of its first card."""

    def answering(answers: Callable[..., int]) -> Callable[..., int]:
        def function(to, *arguments):
            to._obj.value = answers(*arguments)
            return 0

        return function

    return types.SimpleNamespace(
        cuDriverGetVersion=answering(lambda: version),
        cuInit=lambda flags: status,
        cuDeviceGet=answering(lambda ordinal: 40 + ordinal),
        cuDeviceGetAttribute=answering(
            lambda name, card: {(75, 40): capability[0], (76, 40): capability[1]}[name, card]
        ),
    )


@pytest.fixture
def having(monkeypatch):
    """Loads a driver in place of libcuda; None: there is none."""

    def load(found):
        def library(name):
            assert name == "libcuda.so.1"
            if found is None:
                raise OSError("libcuda.so.1: cannot open shared object file")
            return found

        monkeypatch.setattr(gpu.ctypes, "CDLL", library)

    return load


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, r"must have a driver of 580 or newer, and there is no libcuda\.so\.1 here; .*docker run --gpus all.*"),
        (driver(12020), r"must have a driver that knows CUDA 13 \(580 or newer\), given one of CUDA 12\.2; install .*"),
        (driver(13000, status=100), r"must be seen by the driver, which finds none \(error 100 of cuInit, .*"),
        (
            driver(13000, (10, 0)),
            r"must be of compute capability 7\.5, 8\.0, 8\.6, 8\.9, 9\.0, 12\.0, .* given 10\.0; .*",
        ),
        (driver(13000, (7, 0)), r"must be of compute capability .* given 7\.0; take another card, .*"),
    ],
    ids=["no driver", "a driver of CUDA 12", "no card", "a card that is too new", "a card that is too old"],
)
def test_each_reason_is_a_message_of_its_own_and_is_said_before_a_graph_is_loaded(having, monkeypatch, found, said):
    having(found)
    providers = ["TensorrtExecutionProvider", "CUDAExecutionProvider"]
    monkeypatch.setattr(session.ort, "get_available_providers", lambda: providers)
    for wanted in ("cuda", "tensorrt"):
        with pytest.raises(session.ProviderError, match=f"^device: the GPU {said}$"):
            session.choose_device(wanted)


@pytest.mark.parametrize(("found", "chosen"), [(driver(12020), "cpu"), (None, "cpu"), (driver(13000), "cuda")])
def test_without_a_wish_the_cpu_runs_all_where_the_gpu_cannot(having, monkeypatch, found, chosen):
    having(found)
    monkeypatch.setattr(session.ort, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(session.ort, "preload_dlls", lambda: None)
    monkeypatch.setattr(session.Path, "exists", lambda path: str(path) == "/proc/driver/nvidia/version")
    assert session.choose_device("auto") == chosen


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (12, 0), (12, 1)])
def test_a_card_is_taken_that_has_code_of_its_capability_or_of_an_earlier_minor_one(having, capability):
    having(driver(13000, capability))
    assert gpu.why_not() is None


def test_a_newer_driver_is_taken(having):
    having(driver(13050))
    assert gpu.why_not() is None
    having(driver(14000))
    assert gpu.why_not() is None


def test_the_libraries_are_loaded_once_the_driver_is_known_to_fit(having, monkeypatch):
    loaded = []
    having(driver(13000))
    monkeypatch.setattr(session.ort, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(session.ort, "preload_dlls", lambda: loaded.append(True))
    assert session.choose_device("cuda") == "cuda"
    assert loaded == [True]


def test_what_is_said_of_cards_and_drivers_is_true_of_the_lock_and_stands_in_the_document():
    lock = (ROOT / "requirements/gpu.lock").read_text()
    assert re.search(r"^nvidia-cuda-runtime==(\d+)", lock, re.MULTILINE)[1] == str(gpu.CUDA)
    assert "onnxruntime-gpu==1.31.1 " in lock, "read the capabilities from its wheel, and say its version in gpu.py"
    assert f"driver {gpu.DRIVER}" in DOCS
    for major, minor in gpu.CAPABILITIES:
        assert f"| {major}.{minor} |" in DOCS


def test_a_number_is_asked_as_the_drivers_functions_answer_it():
    """By a function of the C library with the same form: it writes to its first argument."""
    written = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_int)(
        lambda to, value: to.__setitem__(0, value + 1) or 0
    )
    assert gpu._asked(written, 6) == 7
