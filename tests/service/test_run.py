"""Sessions: what shares weights, and which device runs what."""

import types

import numpy as np
import onnxruntime as ort
import pytest
from fastapi.routing import APIRoute
from onnx import TensorProto, helper

from contract.manifest import Graph, Port
from service import providers, run
from service.errors import DeviceFull
from service.hot import PREFIX, Hot
from service.routes import router
from service.run import ProviderError, Session, SessionError, choose_device, open_sessions
from service.served import load
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
    with pytest.raises(ProviderError, match=r"^digits/predict: openvino runs artifacts in fp32, given int8$"):
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


# What a GPU does, by the same code on a CPU


class Small:
    """A graph y = bfloat16(x) + z of a batch, of which a CPU can move and widen the numbers, if not add them."""

    def __init__(self):
        names = {"x": TensorProto.FLOAT, "z": TensorProto.BFLOAT16, "y": TensorProto.BFLOAT16, "w": TensorProto.FLOAT}
        ports = {name: helper.make_tensor_value_info(name, kind, ["batch", 2]) for name, kind in names.items()}
        nodes = [
            helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16),
            helper.make_node("Cast", ["z"], ["w"], to=TensorProto.FLOAT),
        ]
        graph = helper.make_graph(nodes, "small", [ports["x"], ports["z"]], [ports["y"], ports["w"]])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        self.session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        kinds = {name: "float32" if kind == TensorProto.FLOAT else "bfloat16" for name, kind in names.items()}
        x, z, y, w = (Port(name=name, dtype=kinds[name], axes=("batch", 2)) for name in names)
        self.graph = Graph(file="small.onnx", sha256="0" * 64, bytes=0, inputs=(x, z), outputs=(y, w))


def bits(array):
    """Return the bits of numbers that bfloat16 holds exactly."""
    return (np.asarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def test_bfloat16_comes_and_goes_as_bits():
    small, x, z = Small(), np.array([[1.5, -2], [0, 256]], np.float32), np.array([[3, 0.5], [-1, 8]], np.float32)
    out = run.run_bits(small.session, small.graph, {"x": x, "z": bits(z)})
    np.testing.assert_array_equal(out["y"], bits(x))
    np.testing.assert_array_equal(out["w"], z)


def test_a_cache_in_bfloat16_is_bound_as_bits():
    small, z, y = Small(), bits([[3, 0.5]]), np.zeros((1, 2), np.uint16)
    binding = run.Binding(small.session, {"z": z}, {}, ["w"], {"y": y})
    np.testing.assert_array_equal(binding.run({"x": np.array([[7, 9]], np.float32)})["w"], [[3, 0.5]])
    np.testing.assert_array_equal(y, bits([[7, 9]]))
    z[:] = bits([[4, 4]])  # where it stays
    np.testing.assert_array_equal(binding.run({"x": np.array([[1, 2]], np.float32)})["w"], [[4, 4]])


@pytest.mark.parametrize(("most", "sizes"), [(1, (1,)), (2, (1, 2)), (20, (1, 2, 4, 8, 16, 20)), (4, (1, 2, 4))])
def test_batches_are_captured_by_powers_of_two_and_the_largest(digits, most, sizes):
    session = Session(digits, "predict", "cpu", Settings())
    assert run.Captured(session._session, session.graph, "cpu", most).sizes == sizes


def test_captured_batches_answer_as_others_whatever_ran_before(digits):
    """Rows behind a batch are of an earlier one, and what is longer than the largest runs in pieces."""
    session = Session(digits, "predict", "cpu", Settings())
    captured = run.Captured(session._session, session.graph, "cpu", 4)
    rng = np.random.default_rng(0)
    for count in (4, 1, 3, 2, 4, 9, 1, 8):
        pixels = rng.integers(0, 256, (count, 28, 28, 1), np.uint8)
        wanted, found = session.run({"pixels": pixels}), captured.run({"pixels": pixels})
        assert list(wanted) == list(found)
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, atol=1e-5)


def test_a_captured_answer_is_not_overwritten_by_the_next(digits):
    session = Session(digits, "predict", "cpu", Settings())
    captured = run.Captured(session._session, session.graph, "cpu", 1)
    images = np.random.default_rng(0).integers(0, 256, (2, 1, 28, 28, 1), np.uint8)
    first, second = (captured.run({"pixels": image})["logits"] for image in images)
    np.testing.assert_array_equal(first, captured.run({"pixels": images[0]})["logits"])
    assert np.abs(first - second).max() > 1e-3


def test_each_captured_size_has_buffers_and_a_number_of_its_own(digits, monkeypatch):
    numbers = []
    batch = run._Batch
    monkeypatch.setattr(run, "_Batch", lambda *given: numbers.append(given[-1]) or batch(*given))
    session = Session(digits, "predict", "cpu", Settings())
    session._captured = run.Captured(session._session, session.graph, "cpu", 6)
    session.warm_up()
    assert numbers == [1, 2, 3, 4]  # neither 0 nor -1, which mean something else
    session.run({"pixels": np.zeros((5, 28, 28, 1), np.uint8)})
    assert numbers == [1, 2, 3, 4]


class Full:
    """A session whose device has no room for more than one row."""

    def __init__(self, session):
        self._session = session

    def run(self, wanted, given):
        if len(given["pixels"]) > 1:
            raise RuntimeError("bfc_arena.cc: Failed to allocate memory for requested buffer of size 12345")
        return self._session.run(wanted, given)


def test_no_room_on_the_device_is_a_refusal_that_says_nothing_of_what_was_sent(digits):
    session = Session(digits, "predict", "cpu", Settings())
    session._session = Full(session._session)
    with pytest.raises(DeviceFull, match=r"^digits/predict: the memory of the device has no room for this batch$"):
        session.run({"pixels": np.zeros((2, 28, 28, 1), np.uint8)})
    session.run({"pixels": np.zeros((1, 28, 28, 1), np.uint8)})


def test_a_captured_batch_without_room_is_said_at_start(digits):
    session = Session(digits, "predict", "cpu", Settings())
    full = Full(session._session)
    session._captured = types.SimpleNamespace(sizes=(1, 2, 4), run=lambda feed: {"logits": full.run(None, feed)[0]})
    with pytest.raises(SessionError, match=r"^digits/predict: a batch of 2 has no room .* lower REGARD_BATCH_TOKENS$"):
        session.warm_up()


# Providers


@pytest.mark.parametrize(
    ("device", "precision", "words"),
    [
        ("cpu", "bf16", "cpu runs artifacts in fp32, fp16 or int8, given bf16"),
        ("cuda", "int8", "cuda runs artifacts in fp32, fp16 or bf16, given int8"),
        ("tensorrt", "int8", "tensorrt runs artifacts in fp32, fp16 or bf16, given int8"),
    ],
)
def test_a_precision_that_a_device_does_not_run_is_said_at_start(digits, device, precision, words):
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
    assert where == {"predict": "tensorrt", "attention": "cuda", "relevance": "cuda"}
    assert providers.device_of("tensorrt", "predict", manifest.model_copy(update={"image": None})) == "cuda"
    (first, given), (second, _) = providers.options("tensorrt", "predict", manifest, settings, 1)
    assert (first, second) == ("TensorrtExecutionProvider", "CUDAExecutionProvider")
    assert given["trt_profile_min_shapes"] == "pixels:1x28x28x1"
    assert given["trt_profile_max_shapes"] == "pixels:4x28x28x1"  # of 50 tokens each
    assert given["trt_engine_cache_path"].startswith(str(tmp_path / "digits-"))
    other = manifest.model_copy(update={"files": manifest.files[:-1]})
    ((_, changed), _) = providers.options("tensorrt", "predict", other, settings, 1)
    assert changed["trt_engine_cache_path"] != given["trt_engine_cache_path"]
