"""Memory that is held: what a GPU does, by the same code on a CPU."""

import contextlib
import gc
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from contract.manifest import Graph, Port
from service.runtime import io_binding
from service.runtime.io_binding import Binding, Captured, DeviceRows, HostRows, on_host, run_bits, settle
from service.runtime.session import Session
from service.settings import Settings
from tests.samples.fake_gpu import fake_gpu


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


def test_bfloat16_is_passed_to_and_from_the_runtime_as_bits():
    small, x, z = Small(), np.array([[1.5, -2], [0, 256]], np.float32), np.array([[3, 0.5], [-1, 8]], np.float32)
    out = run_bits(small.session, small.graph, {"x": x, "z": bits(z)}, ort.RunOptions())
    np.testing.assert_array_equal(out["y"], bits(x))
    np.testing.assert_array_equal(out["w"], z)


def test_a_cache_in_bfloat16_is_bound_as_bits():
    small, z, y = Small(), bits([[3, 0.5]]), np.zeros((1, 2), np.uint16)
    held, into = {"z": on_host(z)}, {"y": on_host(y)}
    bound = Binding(small.session, lambda: contextlib.nullcontext(ort.RunOptions()), held, {}, ["w"], into)
    np.testing.assert_array_equal(bound.run({"x": np.array([[7, 9]], np.float32)})["w"], [[3, 0.5]])
    np.testing.assert_array_equal(y, bits([[7, 9]]))
    z[:] = bits([[4, 4]])  # where it stays
    np.testing.assert_array_equal(bound.run({"x": np.array([[1, 2]], np.float32)})["w"], [[4, 4]])


@pytest.mark.parametrize(("most", "sizes"), [(1, (1,)), (2, (1, 2)), (20, (1, 2, 4, 8, 16, 20)), (4, (1, 2, 4))])
def test_batches_are_captured_by_powers_of_two_and_the_largest(digits, most, sizes):
    session = Session(digits, "predict", "cpu", Settings())
    assert Captured(session._session, session.graph, "cpu", most).sizes == sizes


@pytest.mark.parametrize("large", [1 << 30, 1])
def test_captured_batches_give_the_same_results_whatever_ran_before(digits, monkeypatch, large):
    """Rows behind a batch are of an earlier one, and what is longer than the largest runs in pieces."""
    monkeypatch.setattr(io_binding, "LARGE_BYTES", large)
    session = Session(digits, "predict", "cpu", Settings())
    captured = Captured(session._session, session.graph, "cpu", 4)
    rng = np.random.default_rng(0)
    for count in (4, 1, 3, 2, 4, 9, 1, 8):
        pixels = rng.integers(0, 256, (count, 28, 28, 1), np.uint8)
        wanted, found = session.run({"pixels": pixels}), captured.run({"pixels": pixels}, ort.RunOptions())
        assert list(wanted) == list(found)
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, atol=1e-5)


def test_a_captured_answer_is_not_overwritten_by_the_next(digits):
    session = Session(digits, "predict", "cpu", Settings())
    captured = Captured(session._session, session.graph, "cpu", 1)
    images = np.random.default_rng(0).integers(0, 256, (2, 1, 28, 28, 1), np.uint8)
    first, second = (captured.run({"pixels": image}, ort.RunOptions())["logits"] for image in images)
    np.testing.assert_array_equal(first, captured.run({"pixels": images[0]}, ort.RunOptions())["logits"])
    assert np.abs(first - second).max() > 1e-3


def test_each_captured_size_has_buffers_and_a_number_of_its_own(digits, monkeypatch):
    numbers = []
    batch = io_binding._Batch
    monkeypatch.setattr(io_binding, "_Batch", lambda *given: numbers.append(given[-1]) or batch(*given))
    session = Session(digits, "predict", "cpu", Settings())
    session._captured = Captured(session._session, session.graph, "cpu", 6)
    session.warm_up()
    assert numbers == [1, 2, 3, 4]  # neither 0 nor -1, which mean something else
    session.run({"pixels": np.zeros((5, 28, 28, 1), np.uint8)})
    assert numbers == [1, 2, 3, 4]


@pytest.fixture
def recorded(digits):
    """A session of predictions on an imitated GPU, its runs recorded for up to 4 images; and the GPU."""
    session, real = (Session(digits, "predict", "cpu", Settings()) for _ in range(2))
    with fake_gpu(session) as gpu:
        session._captured = Captured(session._session, session.graph, "cuda", 4)
        session.warm_up()
        yield session, real, gpu


def test_a_recorded_batch_reads_and_writes_where_it_was_recorded(recorded):
    """The imitated GPU refuses a recorded run whose inputs or outputs lie elsewhere."""
    session, real, gpu = recorded
    assert len(gpu.recorded) == 3
    rng = np.random.default_rng(0)
    for count in (4, 1, 3, 2, 4, 9, 1):
        pixels = rng.integers(0, 256, (count, 28, 28, 1), np.uint8)
        (wanted,), (found,) = real.run({"pixels": pixels}).values(), session.run({"pixels": pixels}).values()
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert len(gpu.recorded) == 3


def test_a_recorded_batch_crosses_the_bus_once(recorded):
    """Its images to the device and its logits to the host, padded to the recorded size."""
    session, _, gpu = recorded
    for count, size in ((1, 1), (3, 4), (4, 4)):
        gpu.crossed()
        session.run({"pixels": np.zeros((count, 28, 28, 1), np.uint8)})
        assert gpu.crossed() == (size * 28 * 28, size * 10 * 4)


def test_the_imitated_gpu_copies_from_the_host_when_an_input_is_bound():
    """As onnxruntime does: what is written over an input in the host's memory, the next run on a GPU does not see."""
    x, z = np.array([[1, 2]], np.float32), np.zeros((1, 2), np.float32)
    node = helper.make_node("Add", ["x", "z"], ["w"])
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2]) for name in "xzw"]
    graph = helper.make_graph([node], "sum", ports[:2], ports[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = ort.SessionOptions()
    sums = {}
    with fake_gpu() as gpu:
        session = gpu.InferenceSession(model.SerializeToString(), options, ["CUDAExecutionProvider"])
        for kind, held in {"host": HostRows(z), "device": DeviceRows(z, "cuda")}.items():
            bound = Binding(session, contextlib.nullcontext, {"z": held.front(1)}, {"z": "w"}, [])
            for _ in range(3):
                bound.run({"x": x})
            sums[kind] = held.read().tolist()
    assert sums == {"host": [[1, 2]], "device": [[3, 6]]}


@pytest.mark.parametrize("count", [1, 12, 101])
def test_the_graph_that_copies_rows_is_the_one_described(count):
    graph = onnx.load_from_string(io_binding.graph_that_copies(count))
    onnx.checker.check_model(graph, full_check=True)
    nodes = [(node.op_type, *node.input, *node.output) for node in graph.graph.node]
    assert nodes == [
        node
        for number in (f"{number:03}" for number in range(count))
        for node in (
            ("Gather", f"from{number}", f"rows{number}", f"moved{number}"),
            ("Identity", f"moved{number}", f"kept{number}"),
        )
    ]
    assert not any(node.attribute for node in graph.graph.node)
    ports = {port.name: port.type.tensor_type.elem_type for port in (*graph.graph.input, *graph.graph.output)}
    kinds = {"from": TensorProto.UINT8, "rows": TensorProto.INT64, "kept": TensorProto.UINT8}
    assert ports == {f"{name}{number:03}": kind for number in range(count) for name, kind in kinds.items()}


def test_rows_of_several_arrays_are_copied_in_one_run(monkeypatch):
    """Each by rows of its own, once, or again after a run that failed."""
    rng = np.random.default_rng(0)
    with fake_gpu():
        all_values = [rng.integers(0, 1000, (6, 3, size)) for size in (2, 5, 7)]
        there = [DeviceRows(values, "cuda") for values in all_values]
        wanted = [{0: 4, 1: 4}, {}, {5: 2}]
        for rows, sources in zip(there, wanted, strict=True):
            rows.copy(sources)
        copier = io_binding._copier("cuda", 2)
        with monkeypatch.context() as broken:
            broken.setattr(copier, "run_with_iobinding", Mock(side_effect=MemoryError))
            with pytest.raises(MemoryError):
                settle(there)
        settle(there)
        settle(there)
        assert io_binding._copier.cache_info().currsize == 1
        assert copier.ran == 1
        for rows, values, sources in zip(there, all_values, wanted, strict=True):
            order = [sources.get(row, row) for row in range(6)]
            np.testing.assert_array_equal(rows.read(), values[order])


def test_rows_that_change_places_are_all_read_first():
    """By the real runtime, on memory that it reads and writes: a Gather alone would read what it has written."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1000, (64, 4096))
    there = DeviceRows(values, "cpu")
    for _ in range(20):
        order = rng.permutation(64)
        there.copy(dict(enumerate(order.tolist())))
        values = values[order]
        np.testing.assert_array_equal(there.read(), values)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint16, np.int64, np.bool_])
@pytest.mark.parametrize("device", ["cpu", "imitated"])
def test_rows_on_a_device_are_as_on_the_host(dtype, device):
    """The same writes and copies, by the real runtime on a CPU and on the imitated GPU."""
    rng = np.random.default_rng(0)

    def drawn(*shape):
        return rng.integers(0, 2 if dtype is np.bool_ else 1000, shape).astype(dtype)

    with fake_gpu() if device == "imitated" else contextlib.nullcontext():
        values = drawn(6, 3, 8, 2)
        host, there = HostRows(values.copy()), DeviceRows(values, "cpu" if device == "cpu" else "cuda")
        address = there.front(1).address
        for _ in range(60):
            order = rng.permutation(6).tolist()
            sources_of = {row: order[rng.integers(3, 6)] for row in order[:3]}
            fresh = drawn(2, 3, rng.integers(1, 9), 2)
            for each in (host, there):
                each.copy(sources_of)
                if rng.integers(0, 3) == 0 and each is there:
                    settle([each])
            if rng.integers(0, 2):
                first, sources = int(rng.integers(0, 5)), rng.integers(0, 2, 2).tolist()
                for each in (host, there):
                    each.write(first, sources, fresh)
                written = np.zeros((2, 3, 8, 2), dtype)
                written[:, :, : fresh.shape[2]] = fresh[sources]
                np.testing.assert_array_equal(host.read()[first : first + 2], written)
            if rng.integers(0, 3) == 0:
                np.testing.assert_array_equal(there.read(), host.read())
        np.testing.assert_array_equal(there.read(), host.read())
        place = there.front(4)
    assert place.address == address
    assert place[1:3] == host.front(4)[1:3]


def test_what_several_rows_begin_with_crosses_the_bus_once():
    """The source of a search with beams, and the zeros of caches without tokens."""
    with fake_gpu() as gpu:
        there = DeviceRows(np.ones((6, 2, 8, 2), np.float16), "cuda")
        fresh = np.arange(3 * 2 * 8 * 2, dtype=np.float16).reshape(3, 2, 8, 2)
        for given, sources, sent in ((fresh, [2, 2, 0, 2], 2), (None, [2, 2, 0, 2], 1)):
            gpu.crossed()
            there.write(1, sources, given)
            assert gpu.crossed() == (sent * 2 * 8 * 2 * 2 + 4 * 8, 0)  # rows, and their numbers
            np.testing.assert_array_equal(there.read()[1:5], 0 * fresh[sources] if given is None else fresh[sources])
        assert (there.read()[[0, 5]] == 1).all()


def test_memory_is_locked_for_a_gpu_as_long_as_it_is_used(monkeypatch):
    calls = []

    class Library:
        def __init__(self, name):
            calls.append(name)

        def cudaHostRegister(self, address, size, flags):  # noqa: N802 # CUDA's name
            calls.append(("lock", address.value, size.value, flags))
            return 0

        def cudaHostUnregister(self, address):  # noqa: N802 # CUDA's name
            calls.append(("unlock", address.value))

    monkeypatch.setattr(io_binding.ctypes, "CDLL", Library)
    monkeypatch.setattr(io_binding, "ort", SimpleNamespace(cuda_version="13.0"))
    array = np.zeros((3, 5), np.float32)
    address = array.ctypes.data
    io_binding._lock(array)
    assert calls == ["libcudart.so.13", ("lock", address, 60, 0)]
    del array
    gc.collect()
    assert calls[2:] == [("unlock", address)]


def test_memory_that_cannot_be_locked_is_used_all_the_same(monkeypatch):
    io_binding._lock(np.zeros(4))  # no such library here
    cleared = []
    refused = SimpleNamespace(cudaHostRegister=lambda *_: 712, cudaGetLastError=lambda: cleared.append(712))
    monkeypatch.setattr(io_binding.ctypes, "CDLL", lambda _: refused)
    io_binding._lock(np.zeros(4))
    assert cleared == [712]
