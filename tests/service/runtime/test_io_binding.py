"""Memory that is held: what a GPU does, by the same code on a CPU."""

import contextlib

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from contract.manifest import Graph, Port
from service.runtime import io_binding
from service.runtime.io_binding import Binding, Captured, run_bits
from service.runtime.session import Session
from service.settings import Settings


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
    bound = Binding(small.session, lambda: contextlib.nullcontext(ort.RunOptions()), {"z": z}, {}, ["w"], {"y": y})
    np.testing.assert_array_equal(bound.run({"x": np.array([[7, 9]], np.float32)})["w"], [[3, 0.5]])
    np.testing.assert_array_equal(y, bits([[7, 9]]))
    z[:] = bits([[4, 4]])  # where it stays
    np.testing.assert_array_equal(bound.run({"x": np.array([[1, 2]], np.float32)})["w"], [[4, 4]])


@pytest.mark.parametrize(("most", "sizes"), [(1, (1,)), (2, (1, 2)), (20, (1, 2, 4, 8, 16, 20)), (4, (1, 2, 4))])
def test_batches_are_captured_by_powers_of_two_and_the_largest(digits, most, sizes):
    session = Session(digits, "predict", "cpu", Settings())
    assert Captured(session._session, session.graph, "cpu", most).sizes == sizes


def test_captured_batches_give_the_same_results_whatever_ran_before(digits):
    """Rows behind a batch are of an earlier one, and what is longer than the largest runs in pieces."""
    session = Session(digits, "predict", "cpu", Settings())
    captured = Captured(session._session, session.graph, "cpu", 4)
    rng = np.random.default_rng(0)
    for count in (4, 1, 3, 2, 4, 9, 1, 8):
        pixels = rng.integers(0, 256, (count, 28, 28, 1), np.uint8)
        wanted, found = session.run({"pixels": pixels}), captured.run({"pixels": pixels})
        assert list(wanted) == list(found)
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, atol=1e-5)


def test_a_captured_answer_is_not_overwritten_by_the_next(digits):
    session = Session(digits, "predict", "cpu", Settings())
    captured = Captured(session._session, session.graph, "cpu", 1)
    images = np.random.default_rng(0).integers(0, 256, (2, 1, 28, 28, 1), np.uint8)
    first, second = (captured.run({"pixels": image})["logits"] for image in images)
    np.testing.assert_array_equal(first, captured.run({"pixels": images[0]})["logits"])
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
