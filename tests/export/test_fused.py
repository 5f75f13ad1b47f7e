"""Attention as one node: the same numbers, nothing left of what it replaces, and weights that are read stay."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from export.errors import ExportError
from export.graphs.bfloat16 import KERNELS, widened, with_kernels
from export.graphs.cleanup import optimize, part
from export.graphs.float16 import lowered
from export.graphs.fusion import OPSET, fused
from export.graphs.top_k import stepping
from export.graphs.torch_export import trace
from tests.export.test_export import classifier, translator


def traced(plan, sizes, precision="fp32"):
    plan = lowered(plan, precision)
    return optimize(trace(plan, sizes, OPSET), plan)


@pytest.fixture(scope="module")
def graphs():
    """Plans and their graphs in full precision, of images, of pairs of texts, and of both graphs that generate."""
    image, pair = classifier(), translator()
    made = {"images": (image, image.plan("predict"), part(traced(image.base, image.traced), image.plan("predict")))}
    made["texts"] = (pair, pair.plan("predict"), part(traced(pair.base, pair.traced), pair.plan("predict")))
    made["encode"] = (pair, pair.plan("encode"), traced(pair.plan("encode"), pair.traced))
    step = stepping(pair.plan("decode"))
    made["decode"] = (pair, step, traced(step, pair.traced))
    return made


def copied(graph):
    return onnx.ModelProto.FromString(graph.SerializeToString())


def session(graph):
    return ort.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])


def kinds(graph):
    return [node.op_type for node in graph.graph.node]


def attributes(node):
    return {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}


@pytest.mark.parametrize("name", ["images", "texts", "encode", "decode"])
def test_a_fused_graph_answers_as_the_plain_one(graphs, name):
    source, plan, graph = graphs[name]
    one = fused(copied(graph), plan)
    onnx.checker.check_model(one)
    assert kinds(one).count("Attention") == plan.attentions
    assert not {"Softmax", "Where", "Not"} & set(kinds(one))
    plain, ours = session(graph), session(one)
    for sizes in source.tried:
        for seed in (1, 2):
            given = plan.example(sizes, seed)
            feed = {port.name: tensor.numpy() for port, tensor in zip(plan.inputs, given, strict=True)}
            for port, wanted, found in zip(plan.outputs, plain.run(None, feed), ours.run(None, feed), strict=True):
                assert np.isfinite(found).all()
                np.testing.assert_allclose(found, wanted, atol=2e-5, err_msg=f"{port.name} at {sizes}")


def test_heads_are_not_split_in_memory_and_no_key_is_masked(graphs):
    """Flash kernels take no mask: there are true lengths, or causality, or nothing."""
    *_, plan, graph = graphs["images"]
    one = fused(copied(graph), plan)
    assert kinds(one).count("Transpose") == 2  # of pixels and of patches
    for node in one.graph.node:
        if node.op_type == "Attention":
            assert len(node.input) == 3
            assert attributes(node)["q_num_heads"] == 2
    *_, plan, graph = graphs["texts"]
    found = [node for node in fused(copied(graph), plan).graph.node if node.op_type == "Attention"]
    assert not any(len(node.input) > 3 and node.input[3] for node in found)
    lengths = {node.input[6] for node in found if len(node.input) == 7}
    assert len(lengths) == 1  # of the source, counted once
    assert [attributes(node).get("is_causal", 0) for node in found].count(1) == 2


def test_weights_that_are_returned_are_computed(graphs):
    source, *_ = graphs["images"]
    base = traced(source.base, source.traced)
    assert "Attention" not in kinds(fused(copied(base), source.base))


def test_a_mask_of_another_kind_stays(graphs):
    *_, plan, graph = graphs["texts"]
    other = copied(graph)
    for node in other.graph.node:
        if node.op_type == "LessOrEqual":
            node.op_type = "Less"
    found = kinds(fused(other, plan))
    assert (found.count("Attention"), found.count("Softmax")) == (plan.attentions - 2, 2)


def test_an_attention_that_is_gone_is_noticed_in_a_fused_graph(graphs):
    *_, plan, graph = graphs["images"]
    one = fused(copied(graph), plan)
    node = next(node for node in one.graph.node if node.op_type == "Attention")
    node.op_type, node.input[:] = "Identity", node.input[:1]
    del node.attribute[:]
    with pytest.raises(ExportError, match="must attend 2 times, the graph does 1 times"):
        fused(one, plan)


# bfloat16


def test_the_twin_of_a_bfloat16_graph_is_the_same_graph_in_single_floats(graphs):
    source, plan, graph = graphs["images"]
    low = part(traced(source.base, source.traced, "bf16"), plan)
    twin = widened(low)
    assert kinds(twin) == kinds(low)
    assert onnx.TensorProto.BFLOAT16 in {tensor.data_type for tensor in low.graph.initializer}
    assert onnx.TensorProto.BFLOAT16 not in {tensor.data_type for tensor in twin.graph.initializer}
    feed = {"pixels": plan.example(source.tried[-1], 1)[0].numpy()}
    exact, near = session(graph).run(None, feed)[0], session(twin).run(None, feed)[0]
    assert 0 < np.abs(exact - near).max() < 0.05 * np.abs(exact).max()  # weights are rounded


def test_what_has_no_kernel_in_bfloat16_computes_in_single_floats():
    kind, shape = onnx.TensorProto.BFLOAT16, ["batch", 4]
    x, y = (onnx.helper.make_tensor_value_info(name, kind, shape) for name in "xy")
    nodes = [
        onnx.helper.make_node("Add", ["x", "x"], ["twice"]),
        onnx.helper.make_node("Ceil", ["twice"], ["up"]),
        onnx.helper.make_node("Mul", ["up", "x"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    assert "Ceil" not in KERNELS
    made = with_kernels(model)
    onnx.checker.check_model(made, full_check=True)
    assert kinds(made) == ["Add", "Cast", "Ceil", "Cast", "Mul"]
    feed = {"x": np.array([[0.1, 1.5, -0.7, 2]], np.float32)}
    np.testing.assert_allclose(session(widened(made)).run(None, feed)[0], np.ceil(2 * feed["x"]) * feed["x"], atol=1e-6)
