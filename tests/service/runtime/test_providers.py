"""Execution providers: their options, and which device runs which precision and graph."""

import types
from typing import get_args

import onnxruntime as ort
import pytest

from contract.input_rules import TextRule
from contract.manifest import GradientMethod
from service.runtime import providers
from service.runtime.runtime_errors import ProviderError, SessionError
from service.runtime.session import Session
from service.settings import Settings

ROLES = ("predict", "attention", *get_args(GradientMethod))


@pytest.mark.parametrize("scales", ["row", "input", None])
def test_openvino_takes_full_precision_and_scales_that_are_fixed_only(digits, scales):
    lower = digits.manifest.model_copy(update={"precision": "int8", "scales": scales})
    artifact = types.SimpleNamespace(manifest=lower, path=digits.path)
    words = r"^digits/predict: openvino runs artifacts in fp32 or calibrated int8, given int8$"
    with pytest.raises(ProviderError, match=words):
        Session(artifact, "predict", "openvino", Settings())
    fixed = lower.model_copy(update={"scales": "fixed"})
    assert {device: providers.precision_of(fixed) in known for device, known in providers.PRECISIONS.items()} == {
        "cpu": True,
        "cuda": False,
        "openvino": True,
        "tensorrt": False,
    }


def test_openvino_runs_no_int8_where_sums_of_products_saturate(digits, monkeypatch):
    """64 products of 255 and 127 sum to 1,048,544 in place of 2,072,640 in OpenVINO on a processor without VNNI."""
    fixed = digits.manifest.model_copy(update={"precision": "int8", "scales": "fixed"})
    artifact = types.SimpleNamespace(manifest=fixed, path=digits.path)
    monkeypatch.setattr(providers, "products_saturate", lambda: True)
    words = r"^digits/predict: sums of 8-bit products saturate in openvino .*; set REGARD_DEVICE=cpu,"
    with pytest.raises(ProviderError, match=words):
        Session(artifact, "predict", "openvino", Settings())
    exact = types.SimpleNamespace(manifest=digits.manifest, path=digits.path)
    for goes_on, saturate in ((exact, True), (artifact, False)):
        monkeypatch.setattr(providers, "products_saturate", lambda saturate=saturate: saturate)
        with pytest.raises(SessionError, match="cannot be loaded"):  # a graph, of which there is none here
            Session(goes_on, "predict", "openvino", Settings())


@pytest.mark.parametrize(
    ("device", "precision", "words"),
    [
        ("cpu", "bf16", "cpu runs artifacts in fp32, fp16, int8, calibrated int8 or int4, given bf16"),
        ("cuda", "int8", "cuda runs artifacts in fp32, fp16 or bf16, given int8"),
        ("tensorrt", "int8", "tensorrt runs artifacts in fp32, fp16 or bf16, given int8"),
    ],
)
def test_a_precision_that_a_device_does_not_run_is_an_error_at_start(digits, device, precision, words):
    lower = digits.manifest.model_copy(update={"precision": precision})
    artifact = types.SimpleNamespace(manifest=lower, path=digits.path)
    with pytest.raises(ProviderError, match=f"^digits/predict: {words}$"):
        Session(artifact, "predict", device, Settings())


def test_a_provider_that_onnxruntime_replaces_is_an_error(digits):
    if "CUDAExecutionProvider" in ort.get_available_providers():
        pytest.skip("this onnxruntime has CUDA")
    with (
        pytest.warns(UserWarning, match="CUDAExecutionProvider"),
        pytest.raises(ProviderError, match=r"^digits/predict: must run on CUDAExecutionProvider, .* fell back to CPU"),
    ):
        Session(digits, "predict", "cuda", Settings())


def test_options_of_cuda_follow_the_settings(digits):
    def found(role, **settings):
        ((name, given),) = providers.options("cuda", role, digits.manifest, Settings(**settings), 1)
        assert name == "CUDAExecutionProvider"
        return given

    assert found("predict")["enable_cuda_graph"] == "1"
    assert found("predict")["use_tf32"] == "0"
    assert "enable_cuda_graph" not in found("predict", cuda_graphs=False) | found("attention")
    assert "gpu_mem_limit" not in found("predict")
    assert found("attention", device_memory_bytes=1 << 30)["gpu_mem_limit"] == str(1 << 30)


def test_tensorrt_predicts_of_images_and_cuda_does_the_rest(digits, tmp_path):
    manifest, settings = digits.manifest, Settings(engine_cache=tmp_path, batch_tokens=200)
    where = {role: providers.device_of("tensorrt", role, manifest) for role in ROLES}
    assert where == {**dict.fromkeys(ROLES, "cuda"), "predict": "tensorrt"}
    of_texts = manifest.model_copy(update={"inputs": (TextRule(tokenizer="tokenizer.json", max_tokens=8),)})
    assert providers.device_of("tensorrt", "predict", of_texts) == "cuda"
    (first, given), (second, _) = providers.options("tensorrt", "predict", manifest, settings, 1)
    assert (first, second) == ("TensorrtExecutionProvider", "CUDAExecutionProvider")
    assert given["trt_profile_min_shapes"] == "pixels:1x28x28x1"
    assert given["trt_profile_max_shapes"] == "pixels:4x28x28x1"  # of 50 tokens each
    assert given["trt_engine_cache_path"].startswith(str(tmp_path / "digits-"))
    other = manifest.model_copy(update={"files": manifest.files[:-1]})
    ((_, changed), _) = providers.options("tensorrt", "predict", other, settings, 1)
    assert changed["trt_engine_cache_path"] != given["trt_engine_cache_path"]
