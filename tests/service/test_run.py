"""Sessions: what shares weights, and which device runs what."""

import types

import numpy as np
import onnxruntime as ort
import pytest
from fastapi.routing import APIRoute

from service import run
from service.hot import PREFIX, Hot
from service.models import load
from service.routes import router
from service.run import ProviderError, Session, choose_device, open_sessions
from service.settings import Settings

ROLES = ("predict", "attention", "relevance")


@pytest.fixture(scope="module")
def digits(artifacts):
    return load(Settings(artifacts=artifacts))["digits"].artifact


def test_predictions_and_attention_are_one_session_unless_the_model_is_light(digits, monkeypatch):
    """Two would hold the weights twice."""
    pixels = np.random.default_rng(0).integers(0, 256, (3, 28, 28, 1), np.uint8)
    apart = open_sessions(digits, ROLES, "cpu", Settings())
    assert len({id(session._session) for session in apart.values()}) == 3
    monkeypatch.setattr(run, "LIGHT", 0)
    merged = open_sessions(digits, ROLES, "cpu", Settings())
    assert list(merged) == list(ROLES)
    assert merged["predict"]._session is merged["attention"]._session
    assert merged["relevance"]._session is not merged["attention"]._session
    one, other = apart["predict"].run({"pixels": pixels}), merged["predict"].run({"pixels": pixels})
    assert list(one) == list(other) == [port.name for port in digits.manifest.graphs["predict"].outputs]
    np.testing.assert_array_equal(*one.values(), *other.values())
    merged["predict"].warm_up()


def test_a_light_model_runs_on_one_thread_unless_the_settings_say_otherwise(digits, monkeypatch):
    chosen = []
    session = ort.InferenceSession
    monkeypatch.setattr(
        ort, "InferenceSession", lambda path, options, providers: chosen.append(options.intra_op_num_threads)
        or session(path, options, providers)
    )  # fmt: skip
    Session(digits, "predict", "cpu", Settings())
    Session(digits, "predict", "cpu", Settings(threads=3))
    monkeypatch.setattr(run, "LIGHT", 0)
    monkeypatch.setattr(run, "usable_cores", lambda: 5)
    Session(digits, "predict", "cpu", Settings())
    assert chosen == [1, 3, 5]


def test_a_provider_that_is_missing_is_said_with_what_installs_it():
    if "OpenVINOExecutionProvider" in ort.get_available_providers():
        pytest.skip("this onnxruntime has OpenVINO")
    with pytest.raises(
        ProviderError, match=r"^device: openvino needs .*; install the extra openvino or set REGARD_DEV"
    ):
        choose_device("openvino")


def test_openvino_takes_artifacts_in_full_precision_only(digits):
    lower = digits.manifest.model_copy(update={"precision": "int8"})
    artifact = types.SimpleNamespace(manifest=lower, path=digits.path)
    with pytest.raises(ProviderError, match=r"^digits/predict: openvino runs artifacts in fp32, .* given int8$"):
        Session(artifact, "predict", "openvino", Settings())


def test_openvino_predicts_and_the_processor_attends(digits):
    if "OpenVINOExecutionProvider" not in ort.get_available_providers():
        pytest.skip("needs the extra openvino in place of cpu")
    exact, lower = (open_sessions(digits, ROLES[:2], device, Settings()) for device in ("cpu", "openvino"))
    assert [lower[role].provider for role in ROLES[:2]] == ["OpenVINOExecutionProvider", "CPUExecutionProvider"]
    pixels = np.random.default_rng(0).integers(0, 256, (3, 28, 28, 1), np.uint8)
    (one,), (other,) = (sessions["predict"].run({"pixels": pixels}).values() for sessions in (exact, lower))
    assert np.abs(one - other).max() < 0.05 * np.abs(one).max()


def test_every_route_of_a_models_endpoint_is_taken_past_the_router():
    posted = {
        route.path.removeprefix(PREFIX)
        for route in router.routes
        if isinstance(route, APIRoute) and "POST" in route.methods
    }
    assert posted == set(Hot(None, router.routes).routes) == {"classify", "embed", "fill-mask", "generate", "attention"}
