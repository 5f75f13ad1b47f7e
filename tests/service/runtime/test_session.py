"""Sessions: which share weights, and what their failures mean."""

import dataclasses
import json
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import get_args

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from contract.manifest import LIGHT_BYTES, GradientMethod
from service.errors import DeviceFull
from service.runtime import providers, threads
from service.runtime import session as session_module
from service.runtime.device import Device
from service.runtime.runtime_errors import DeviceLost, ProviderError, SessionError
from service.runtime.session import Session, choose_device, is_light, open_sessions
from service.settings import Settings
from tests.conftest import ROOT

EXPLAINING = get_args(GradientMethod)
ROLES = ("predict", "attention", *EXPLAINING)
TRANSPOSED_EMBEDDING = (128, 75)
"""Width and vocabulary of `dates`."""


def test_predictions_and_attention_share_a_session_unless_the_model_is_light(digits, monkeypatch):
    """Two would hold the weights twice."""
    pixels = np.random.default_rng(0).integers(0, 256, (3, 28, 28, 1), np.uint8)
    apart = open_sessions(digits, ROLES, "cpu", Settings())
    assert len({id(session._session) for session in apart.values()}) == len(ROLES)
    monkeypatch.setattr(session_module, "LIGHT_BYTES", 0)
    merged = open_sessions(digits, ROLES, "cpu", Settings())
    assert list(merged) == list(ROLES)
    assert merged["predict"]._session is merged["attention"]._session
    assert len({id(merged[role]._session) for role in ("attention", *EXPLAINING)}) == 1 + len(EXPLAINING)
    one, other = apart["predict"].run({"pixels": pixels}), merged["predict"].run({"pixels": pixels})
    assert list(one) == list(other) == [port.name for port in digits.manifest.graphs["predict"].outputs]
    np.testing.assert_array_equal(*one.values(), *other.values())
    merged["predict"].warm_up()


def test_a_model_is_light_by_its_weights_alone(dates):
    def with_bytes(weights, rest):
        sizes = {file: weights if file.file == "weights.bin" else rest for file in dates.manifest.files}
        files = tuple(file.model_copy(update={"bytes": size}) for file, size in sizes.items())
        return dataclasses.replace(dates, manifest=dates.manifest.model_copy(update={"files": files}))

    assert is_light(with_bytes(LIGHT_BYTES - 1, 1 << 40)), "the other files are a tokenizer and examples' pictures"
    assert not is_light(with_bytes(LIGHT_BYTES, 0))


@pytest.mark.parametrize("light", [True, False])
def test_a_session_that_reads_the_mapped_weights_keeps_no_transposed_copy_of_one(dates, monkeypatch, tmp_path, light):
    """The embedding of tokens, transposed, is the matrix of the output."""
    monkeypatch.setattr(session_module, "LIGHT_BYTES", 1 << 40 if light else 0)
    session = ort.InferenceSession

    def opened(path, options, providers):
        options.optimized_model_filepath = str(tmp_path / Path(path).name)
        return session(path, options, providers)

    monkeypatch.setattr(ort, "InferenceSession", opened)
    open_sessions(dates, ("encode", "decode", "attention", *EXPLAINING), "cpu", Settings())
    copies = {}
    for role in ("attention", *EXPLAINING):
        tensors = onnx.load(tmp_path / f"{role}.onnx", load_external_data=False).graph.initializer
        shapes = [tuple(tensor.dims) for tensor in tensors]
        copies[role] = shapes.count(TRANSPOSED_EMBEDDING)
    assert copies == dict.fromkeys(copies, 1 if light else 0)  # all sessions of a light model are packed


def test_matrices_in_four_bits_are_packed_for_every_graph(dates, monkeypatch):
    """Of those that are not, every run makes floats."""
    monkeypatch.setattr(session_module, "LIGHT_BYTES", 0)
    session, unpacked = ort.InferenceSession, []

    def opened(path, options, providers):
        if options.get_session_config_entry("session.disable_prepacking") == "1":
            unpacked.append(Path(path).stem)
        return session(path, options, providers)

    monkeypatch.setattr(ort, "InferenceSession", opened)
    roles = "predict", "attention", "encode", "decode", *EXPLAINING
    open_sessions(dates, roles, "cpu", Settings())
    assert set(unpacked) == {"encode", "decode", *EXPLAINING}
    unpacked.clear()
    few = dataclasses.replace(dates, manifest=dates.manifest.model_copy(update={"precision": "int4"}))
    open_sessions(few, roles, "cpu", Settings())
    assert not unpacked


@pytest.fixture
def chosen(monkeypatch):
    """The options of each session that is opened."""
    found, session = [], ort.InferenceSession

    def noting(path, options, providers):
        found.append(options)
        return session(path, options, providers)

    monkeypatch.setattr(ort, "InferenceSession", noting)
    return found


def test_a_light_model_runs_on_one_thread_unless_the_settings_say_otherwise(digits, monkeypatch, chosen):
    Session(digits, "predict", "cpu", Settings())
    Session(digits, "predict", "cpu", Settings(threads=3))
    monkeypatch.setattr(session_module, "LIGHT_BYTES", 0)
    monkeypatch.setattr(threads, "usable_cores", lambda: 5)
    Session(digits, "predict", "cpu", Settings())
    monkeypatch.setattr(threads, "usable_cores", lambda: 96)
    Session(digits, "predict", "cpu", Settings())
    Session(digits, "predict", "cpu", Settings(workers=12))
    assert [one.intra_op_num_threads for one in chosen] == [1, 3, 5, threads.MOST_DEFAULT_THREADS, 8]


@pytest.mark.parametrize(
    ("machine", "flags", "asked"),
    [
        ("x86_64", "fma avx2", "1"),
        ("x86_64", "avx2 avx512_vnni", ""),
        ("x86_64", "avx2 avx_vnni", ""),
        ("x86_64", None, "1"),
        ("aarch64", None, ""),
    ],
)
def test_weights_become_unsigned_only_where_sums_of_products_would_overflow(
    digits, monkeypatch, tmp_path, chosen, machine, flags, asked
):
    monkeypatch.setattr(providers, "CPU_FACTS", tmp_path / "cpuinfo")
    monkeypatch.setattr(providers.platform, "machine", lambda: machine)
    if flags:
        (tmp_path / "cpuinfo").write_text(f"flags\t\t: fpu {flags}\n")
    providers.products_saturate.cache_clear()
    Session(digits, "predict", "cpu", Settings())
    providers.products_saturate.cache_clear()
    (options,) = chosen
    try:
        assert options.get_session_config_entry("session.x64quantprecision") == asked
    except RuntimeError:  # there is no such entry
        assert not asked


def test_the_largest_products_of_8_bits_are_summed_exactly_as_the_service_opens_a_graph(digits, chosen):
    """With pairs of products in 16 bits each sum would be less."""
    width = 64
    Session(digits, "predict", "cpu", Settings())
    weights = [
        helper.make_tensor("b", TensorProto.INT8, [width, width], np.full(width * width, 127).tolist()),
        helper.make_tensor("zero", TensorProto.UINT8, [], [0]),
        helper.make_tensor("none", TensorProto.INT8, [], [0]),
    ]
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b", "zero", "none"], ["y"])],
        "g",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, ["row", width])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, ["row", width])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    opened = ort.InferenceSession(model.SerializeToString(), chosen[0], ["CPUExecutionProvider"])
    for rows in (1, 8):
        (sums,) = opened.run(None, {"a": np.full((rows, width), 255, np.uint8)})
        assert (sums == width * 255 * 127).all()


def test_a_setting_caps_the_cores_that_the_machine_shows(monkeypatch):
    monkeypatch.setattr(threads, "usable_cores", lambda: 8)
    capped = Settings(cores=4)
    assert (threads.share_of_cores(capped), threads.cores_of_runs(capped), threads.default_threads(capped)) == (4, 3, 4)
    assert threads.share_of_cores(Settings(cores=64)) == 8
    assert threads.share_of_cores(Settings(cores=4, workers=2)) == 2
    assert threads.share_of_cores(Settings(cores=1, workers=2)) == 1


def test_the_error_about_a_missing_provider_names_the_extra_that_installs_it():
    if "OpenVINOExecutionProvider" in ort.get_available_providers():
        pytest.skip("this onnxruntime has OpenVINO")
    with pytest.raises(
        ProviderError, match=r"^device: openvino needs .*; install the extra openvino or set REGARD_DEV"
    ):
        choose_device("openvino")


def test_openvino_predicts_and_the_processor_attends(digits):
    if "OpenVINOExecutionProvider" not in ort.get_available_providers():
        pytest.skip("needs the extra openvino in place of cpu")
    exact, lower = (open_sessions(digits, ROLES[:2], device, Settings()) for device in ("cpu", "openvino"))
    assert [lower[role].provider for role in ROLES[:2]] == ["OpenVINOExecutionProvider", "CPUExecutionProvider"]
    pixels = np.random.default_rng(0).integers(0, 256, (3, 28, 28, 1), np.uint8)
    (one,), (other,) = (sessions["predict"].run({"pixels": pixels}).values() for sessions in (exact, lower))
    assert np.abs(one - other).max() < 0.05 * np.abs(one).max()


def test_the_memory_of_gpus_is_asked_of_the_driver_where_there_is_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert session_module.device_memory() == {}
    used = [types.SimpleNamespace(used=7), types.SimpleNamespace(used=9)]
    driver = types.SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetMemoryInfo=lambda handle: used[handle],
    )
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    assert session_module.device_memory() == {"0": 7, "1": 9}


class Full:
    """A session whose device has no room for more than one row."""

    def __init__(self, session):
        self._session = session

    def run(self, wanted, given, options):
        if len(given["pixels"]) > 1:
            raise RuntimeError("bfc_arena.cc: Failed to allocate memory for requested buffer of size 12345")
        return self._session.run(wanted, given)


@pytest.mark.anyio
async def test_a_run_is_stopped_before_its_next_node(digits):
    """A loop without an end."""
    i, go, x, on, y = (
        helper.make_tensor_value_info(name, kind, [])
        for name, kind in zip(("i", "go", "x", "on", "y"), (TensorProto.INT64, *[TensorProto.BOOL] * 4), strict=True)
    )
    same = [helper.make_node("Identity", [given], [made]) for given, made in (("go", "on"), ("x", "y"))]
    body = helper.make_graph(same, "body", [i, go, x], [on, y])
    true = helper.make_tensor("true", TensorProto.BOOL, [], [True])
    logits = helper.make_tensor("zeros", TensorProto.FLOAT, [1, 10], [0.0] * 10)
    nodes = [
        helper.make_node("Constant", [], ["begin"], value=true),
        helper.make_node("Loop", ["", "begin", "begin"], ["end"], body=body),
        helper.make_node("Constant", [], ["logits"], value=logits),
    ]
    pixels = helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["batch", 28, 28, 1])
    out = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(nodes, "endless", [pixels], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    session = Session(digits, "predict", "cpu", Settings())
    session._session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    device = Device()
    async with device.turn() as run:
        threading.Timer(0.3, run.stop).start()
        with pytest.raises(SessionError, match=r"^digits/predict: cannot be run: .*terminate"):
            await run(session.run, {"pixels": np.zeros((1, 28, 28, 1), np.uint8)})
    device.close()


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("CUDA failure 700: an illegal memory access was encountered", DeviceLost),
        ("CUDA failure 719: unspecified launch failure", DeviceLost),
        ("CUDA failure 2: out of memory", DeviceFull),
        ("std::bad_alloc", DeviceFull),
        ("Non-zero status code returned while running Add node", SessionError),
    ],
)
def test_the_kind_of_a_failure_is_read_from_its_message(digits, words, kind):
    session = Session(digits, "predict", "cpu", Settings())

    def fail(*_):
        raise RuntimeError(words)

    session._session = types.SimpleNamespace(run=fail)
    with pytest.raises(kind) as found:
        session.run({"pixels": np.zeros((1, 28, 28, 1), np.uint8)})
    assert type(found.value) is kind


def test_a_batch_without_room_on_the_device_is_refused_and_its_input_not_repeated(digits):
    session = Session(digits, "predict", "cpu", Settings())
    session._session = Full(session._session)
    with pytest.raises(DeviceFull, match=r"^digits/predict: the memory of the device has no room for this batch$"):
        session.run({"pixels": np.zeros((2, 28, 28, 1), np.uint8)})
    session.run({"pixels": np.zeros((1, 28, 28, 1), np.uint8)})


def test_a_captured_batch_without_room_is_an_error_at_start(digits):
    session = Session(digits, "predict", "cpu", Settings())
    full = Full(session._session)
    session._captured = types.SimpleNamespace(
        sizes=(1, 2, 4), run=lambda feed, _: {"logits": full.run(None, feed, None)[0]}
    )
    with pytest.raises(SessionError, match=r"^digits/predict: a batch of 2 has no room .* lower REGARD_BATCH_TOKENS$"):
        session.warm_up()


class Asked:
    """Notes for each run of a session whether it asked for the arena to shrink."""

    def __init__(self, session: object) -> None:
        self._session, self.shrinks = session, []

    def run(self, outputs, feed, options):
        try:
            self.shrinks.append(options.get_run_config_entry("memory.enable_memory_arena_shrinkage"))
        except RuntimeError:  # onnxruntime's answer for an entry that was not made
            self.shrinks.append(None)
        return self._session.run(outputs, feed, options)

    def get_providers(self):
        return self._session.get_providers()


def test_only_a_run_that_is_told_to_shrinks_the_arena(digits):
    session = open_sessions(digits, ROLES, "cpu", Settings())["predict"]
    session._session = asked = Asked(session._session)
    session.warm_up()
    session.run({"pixels": np.zeros((32, 28, 28, 1), np.uint8)})
    session.shrink_arena()
    session.warm_up()
    at = asked.shrinks.index("cpu:0")
    assert set(asked.shrinks[:at]) == set(asked.shrinks[at + 1 :]) == {None}


ARENA = """
import json, sys
from pathlib import Path
import numpy as np
from service.repository.loading.load import load
from service.runtime.memory import resident_bytes
from service.settings import Settings
sessions = load(Settings(artifacts=Path(sys.argv[1])))["digits"].sessions
pixels = np.zeros((240, 28, 28, 1), np.uint8)
rows = np.tile(np.arange(50), (240, 1))
held = [resident_bytes()]
explained, against, layers = np.zeros(240, np.int64), np.full(240, -1), np.arange(4)
given = {"pixels": pixels, "rows": rows, "explained": explained, "against": against, "encoder.layers": layers}
for role in ("relevance", "predict"):
    sessions[role].run({port.name: given[port.name] for port in sessions[role].graph.inputs})
    held.append(resident_bytes())
sessions["predict"].shrink_arena()
print(json.dumps([*held, resident_bytes()]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read as Linux tells it")
def test_sessions_share_one_arena_which_gives_back_what_large_runs_took(artifacts):
    child = subprocess.run(
        [sys.executable, "-c", ARENA, str(artifacts)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    before, relevant, predicted, shrunk = json.loads(child.stdout.splitlines()[-1])
    grown = relevant - before
    assert grown > 200 << 20, "the run must be large, or nothing is compared"
    assert predicted - relevant < grown / 8, "another session's run takes its memory from the same arena"
    assert shrunk - before < grown / 4
