"""Graphs in bfloat16: what has no kernel, and the copy that a CPU can run."""

import numpy as np
import onnx
import pytest

from export.graphs.editing.cleanup import extract
from export.graphs.lowering.bfloat16 import CUDA_OPERATORS, to_float32, with_casts_for_missing_kernels
from tests.samples.export_graphs import kinds, model_of, session, traced_in
from tests.samples.export_models import classifier


def test_the_twin_of_a_bfloat16_graph_is_the_same_graph_in_single_floats():
    source = classifier()
    plan = source.plan("predict")
    graph = extract(traced_in(source.base, source.traced_at), plan)
    low = extract(traced_in(source.base, source.traced_at, "bf16"), plan)
    before = kinds(low)
    assert onnx.TensorProto.BFLOAT16 in {tensor.data_type for tensor in low.graph.initializer}
    twin = to_float32(low)
    assert kinds(twin) == before
    assert onnx.TensorProto.BFLOAT16 not in {tensor.data_type for tensor in twin.graph.initializer}
    feed = {"pixels": plan.example(source.verified_at[-1], 1)[0].numpy()}
    exact, near = session(graph).run(None, feed)[0], session(twin).run(None, feed)[0]
    assert 0 < np.abs(exact - near).max() < 0.05 * np.abs(exact).max()  # weights are rounded


def test_what_has_no_kernel_in_bfloat16_computes_in_single_floats():
    nodes = [
        onnx.helper.make_node("Add", ["x", "x"], ["twice"]),
        onnx.helper.make_node("Ceil", ["twice"], ["up"]),
        onnx.helper.make_node("Mul", ["up", "x"], ["y"]),
    ]
    assert "Ceil" not in CUDA_OPERATORS
    made = with_casts_for_missing_kernels(of_bfloat16(nodes, 20, x=["batch", 4]))
    onnx.checker.check_model(made, full_check=True)
    assert kinds(made) == ["Add", "Cast", "Ceil", "Cast", "Mul"]
    feed = {"x": np.array([[0.1, 1.5, -0.7, 2]], np.float32)}
    np.testing.assert_allclose(
        session(to_float32(made)).run(None, feed)[0], np.ceil(2 * feed["x"]) * feed["x"], atol=1e-6
    )


def of_bfloat16(nodes, opset, **shapes):
    """A graph of nodes that ends in `y`; its inputs are of bfloat16."""
    return model_of(nodes, shapes, {"y": None}, opset=opset, kind=onnx.TensorProto.BFLOAT16)


def test_an_input_that_is_left_out_stays_so():
    """Outputs that are left out have no name either, and no type."""
    nodes = [
        onnx.helper.make_node(
            "SkipLayerNormalization", ["x", "x", "g", "g"], ["n", "", "", "s"], domain="com.microsoft", epsilon=1e-5
        ),
        onnx.helper.make_node("Clip", ["n", "", "h"], ["y"]),
    ]
    model = of_bfloat16(nodes, 20, x=["batch", 2, 4], g=[4], h=[])
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    made = with_casts_for_missing_kernels(model)
    clip = next(node for node in made.graph.node if node.op_type == "Clip")
    assert not clip.input[1]


@pytest.mark.parametrize(("opset", "wanted"), [(20, ["Cast", "Cast", "Conv", "Cast"]), (22, ["Conv"])])
def test_a_convolution_computes_in_single_floats_below_the_opset_that_lets_it_be_of_bfloat16(opset, wanted):
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
    made = with_casts_for_missing_kernels(of_bfloat16([node], opset, x=[1, 2, 4, 4], w=[3, 2, 2, 2]))
    onnx.checker.check_model(made, full_check=True)
    assert kinds(made) == wanted


def test_whole_numbers_of_a_branch_stay_whole_numbers():
    branch = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Shape", ["x"], ["shape"]),
            onnx.helper.make_node("Gather", ["shape", "one"], ["length"]),
            onnx.helper.make_node("Range", ["zero", "length", "step"], ["places"]),
            onnx.helper.make_node("Cast", ["places"], ["found"], to=onnx.TensorProto.BFLOAT16),
        ],
        "branch",
        [],
        [onnx.helper.make_tensor_value_info("found", onnx.TensorProto.BFLOAT16, None)],
        [onnx.numpy_helper.from_array(np.array(value, np.int64), name)
         for name, value in (("one", 1), ("zero", 0), ("step", 1))],
    )  # fmt: skip
    model = of_bfloat16([], 20, x=["batch", 4])
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "yes"))
    model.graph.node.append(onnx.helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch))
    made = with_casts_for_missing_kernels(model)
    onnx.checker.check_model(made, full_check=True)
    session(to_float32(made)).run(None, {"x": np.zeros((1, 4), np.float32)})
