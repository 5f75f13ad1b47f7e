"""Graphs for a GPU: the same numbers in fewer nodes, and nothing is rewritten that would change them."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from export.checks.comparison import run
from export.graphs import gpu_rewrites
from export.graphs.cleanup import extract
from export.graphs.gpu_rewrites import rewrite_for_gpus
from export.graphs.top_k import without_top_k
from tests.samples.export_graphs import kinds, session, traced_in
from tests.samples.export_models import classifier, translator


@pytest.fixture(scope="module")
def graphs():
    """Plans and their graphs as traced, in full precision, with biases that are not small."""
    image, pair = classifier(), translator()
    made = {}
    for name, source, plan in (
        ("images", image, image.plan("predict")),
        ("texts", pair, pair.plan("predict")),
        ("encode", pair, pair.plan("encode")),
        ("decode", pair, without_top_k(pair.plan("decode"))),
    ):
        whole = traced_in(source.base if name in ("images", "texts") else plan, source.traced_at)
        graph = extract(whole, plan)
        rng = np.random.default_rng(0)
        for tensor in graph.graph.initializer:
            if tensor.name.endswith("bias"):
                drawn = rng.normal(size=tensor.dims).astype(np.float32)
                tensor.CopyFrom(numpy_helper.from_array(drawn, tensor.name))
        made[name] = (source, plan, graph)
    return made


def copied(graph):
    return onnx.ModelProto.FromString(graph.SerializeToString())


def nodes(graph, kind):
    return [node for node in graph.graph.node if node.op_type == kind]


@pytest.mark.parametrize(("name", "norms"), [("images", 4), ("texts", 10), ("encode", 4), ("decode", 6)])
def test_a_rewritten_graph_answers_as_the_plain_one(graphs, name, norms):
    source, plan, graph = graphs[name]
    one = rewrite_for_gpus(copied(graph), plan)
    assert kinds(one).count("SkipLayerNormalization") == norms
    assert {node.domain for node in one.graph.node} == {known.domain for known in one.opset_import}
    plain, ours = session(graph), session(one)
    for sizes in source.verified_at:
        for seed in (1, 2):
            given = [tensor.numpy() for tensor in plan.example(sizes, seed)]
            answers = (run(plan, each, given) for each in (plain, ours))  # caches are written where they lie
            for port, wanted, found in zip(plan.outputs, *answers, strict=True):
                assert np.isfinite(found).all()
                np.testing.assert_allclose(found, wanted, atol=1e-4, err_msg=f"{port.name} at {sizes}")


def test_nothing_of_a_block_is_read_and_written_once_more(graphs):
    """Of an encoder's block, two sums are left: the bias of queries, and that before the activation."""
    *_, plan, graph = graphs["images"]
    one = rewrite_for_gpus(copied(graph), plan)
    assert kinds(one).count("Add") == 2 * 2 + 2  # of the patches, and of their positions
    assert kinds(one).count("LayerNormalization") == 1  # the first, before which nothing is added


def test_a_step_has_one_node_for_each_attention_and_turns_nothing(graphs):
    """Of a block with a cache and a source: six products with their biases, two attentions, no transpose."""
    *_, plan, graph = graphs["decode"]
    one = kinds(rewrite_for_gpus(copied(graph), plan))
    assert [one.count(kind) for kind in ("GroupQueryAttention", "Attention", "Transpose", "ScatterND")] == [2, 2, 0, 0]
    assert one.count("MatMul") == 2 * 6


def test_patches_are_a_product(graphs):
    *_, plan, graph = graphs["images"]
    assert "Conv" in kinds(graph)
    one = rewrite_for_gpus(copied(graph), plan)
    assert "Conv" not in kinds(one)
    assert kinds(one).count("Transpose") == 1


def test_weights_in_a_file_are_read_from_it(graphs, tmp_path):
    source, plan, graph = graphs["images"]
    stored = copied(graph)
    onnx.save(stored, tmp_path / "graph.onnx", save_as_external_data=True, location="weights.bin", size_threshold=200)
    one = rewrite_for_gpus(onnx.load(tmp_path / "graph.onnx", load_external_data=False), plan, tmp_path)
    onnx.load_external_data_for_model(one, str(tmp_path))
    (pixels,) = plan.example(source.traced_at, 1)
    wanted, found = (session(each).run(None, {"pixels": pixels.numpy()})[0] for each in (graph, one))
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def sum_and_norm(*shapes):
    """Return a graph of two inputs, their sum and its norm, both returned."""
    width = shapes[0][-1]
    weights = [numpy_helper.from_array(np.full(width, value, np.float32), name) for name, value in (("g", 2), ("b", 3))]
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in zip("xy", shapes, strict=True)
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("s", "n")]
    made = [
        helper.make_node("Identity", ["x"], ["one"]),
        helper.make_node("Identity", ["y"], ["other"]),
        helper.make_node("Add", ["one", "other"], ["s"]),
        helper.make_node("LayerNormalization", ["s", "g", "b"], ["n"], axis=-1, epsilon=1e-6),
    ]
    graph = helper.make_graph(made, "small", ports, ends, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize(
    ("shapes", "fused"),
    [
        ((["batch", "t", 4], ["batch", "t", 4]), True),
        ((["batch", 1, 4], ["batch", 1, 4]), True),
        ((["batch", 3, 4], [1, 3, 4]), False),  # broadcast
        ((["batch", 3, 4], [3, 4]), False),
        ((["batch", 2, 3, 4], ["batch", 2, 3, 4]), False),  # the kernel takes three axes
    ],
)
def test_a_norm_is_fused_with_a_sum_of_two_sequences_alone(shapes, fused):
    graph = sum_and_norm(*shapes)
    one = copied(graph)
    gpu_rewrites._Norms(one, gpu_rewrites._shapes(one), Path()).apply()
    assert ("SkipLayerNormalization" in kinds(one)) == fused
    rng = np.random.default_rng(0)
    sizes = [[{"batch": 2, "t": 5}.get(axis, axis) for axis in shape] for shape in shapes]
    feed = {name: rng.normal(size=shape).astype(np.float32) for name, shape in zip("xy", sizes, strict=True)}
    for wanted, found in zip(session(graph).run(None, feed), session(one).run(None, feed), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)
