"""Graphs for a GPU: the same numbers in fewer nodes, and nothing is rewritten that would change them."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from export.checks.comparison import run
from export.graphs.editing.cleanup import drop_unused, extract
from export.graphs.lowering import gpu_rewrites
from export.graphs.lowering.gpu_rewrites import rewrite_for_gpus
from tests.samples.export_graphs import copied, kinds, model_of, plain_graphs, session, traced_in


@pytest.fixture(scope="module")
def graphs():
    """Plans and their graphs as traced, with biases that are not small."""
    made = plain_graphs()
    for _, _, graph in made.values():
        rng = np.random.default_rng(0)
        for tensor in graph.graph.initializer:
            if tensor.name.endswith("bias"):
                drawn = rng.normal(size=tensor.dims).astype(np.float32)
                tensor.CopyFrom(numpy_helper.from_array(drawn, tensor.name))
    return made


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


def small(nodes, weights=None, ends=("s", "n"), **inputs):
    """Return a graph of nodes of which some inputs are weights; of the inputs, these shapes are given."""
    made = [helper.make_node(*given, **more) for *given, more in nodes]
    tensors = {
        name: np.asarray(value, np.float32 if name.islower() else np.int64) for name, value in (weights or {}).items()
    }
    return model_of(made, inputs, dict.fromkeys(ends), tensors, opset=24)


def same(graph, one, **sizes):
    """Hold two graphs against each other, on inputs whose named axes have these lengths."""
    rng = np.random.default_rng(0)
    feed = {
        port.name: rng.normal(size=[sizes.get(axis, axis) for axis in port.shape]).astype(np.float32)
        for port in session(graph).get_inputs()
    }
    for wanted, found in zip(session(graph).run(None, feed), session(one).run(None, feed), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def rewritten(graph, rewrite):
    one = copied(graph)
    rewrite(one, gpu_rewrites._shapes(one), Path()).apply()
    return drop_unused(one)


def normed(bias=(1, 2, 3, 4), gamma=(2, 2, 2, 2), beta=(3, 3, 3, 3), axis=-1, between=(), **shapes):
    """A residual stream x, to which y W + b is added, and its norm."""
    nodes = [
        ("Identity", ["x"], ["one"], {}),
        ("MatMul", ["y", "w"], ["product"], {}),
        ("Add", ["product", "b"], ["branch"], {}),
        ("Add", ["one", "branch"], ["s"], {}),
        *between,
        ("LayerNormalization", ["s", "gamma", "beta"], ["n"], {"axis": axis, "epsilon": 1e-6}),
    ]
    matrix = np.arange(16).reshape(4, 4) / 16
    given = {"x": ["batch", "t", 4], "y": ["batch", "t", 4]} | shapes
    return small(nodes, {"w": matrix, "b": bias, "gamma": gamma, "beta": beta}, **given)


def test_a_bias_a_sum_and_its_norm_are_one_node_which_returns_the_sum():
    graph = normed()
    one = rewritten(graph, gpu_rewrites._Norms)
    assert kinds(one) == ["Identity", "MatMul", "SkipLayerNormalization"]
    same(graph, one, batch=2, t=5)


def test_what_reads_the_sum_before_its_norm_finds_it():
    graph = normed(between=[("Mul", ["s", "s"], ["m"], {}), ("Relu", ["m"], ["r"], {})])
    graph.graph.output.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, None))
    one = rewritten(graph, gpu_rewrites._Norms)
    assert "SkipLayerNormalization" in kinds(one)
    same(graph, one, batch=2, t=5)


@pytest.mark.parametrize(
    "given",
    [
        {"x": [1, "t", 4]},  # broadcast
        {"x": ["other", "t", 4]},  # it may be
        {"x": ["t", 4]},
        {"x": ["batch", 2, 3, 4], "y": ["batch", 2, 3, 4]},  # the kernel takes three axes
        {"beta": (3,)},  # as long as the norm, says the kernel
        {"gamma": (2,), "beta": (3,)},
        {"axis": 1, "gamma": np.ones((5, 4)), "beta": np.ones((5, 4)), "x": [2, 5, 4], "y": [2, 5, 4]},
    ],
    ids=["one", "named", "fewer", "more", "beta", "both", "axis"],
)
def test_another_sum_or_norm_stays(given):
    graph = normed(**given)
    one = rewritten(graph, gpu_rewrites._Norms)
    assert "SkipLayerNormalization" not in kinds(one)
    same(graph, one, batch=2, t=5, other=2)


def test_a_bias_of_one_number_stays_beside_its_norm():
    graph = normed(bias=(7,))
    one = rewritten(graph, gpu_rewrites._Norms)
    assert kinds(one) == ["Identity", "MatMul", "Add", "SkipLayerNormalization"]
    same(graph, one, batch=2, t=5)


def attended(heads=(2, 2), width=4, read=()):
    """An attention of one layer each for queries, keys, values and behind it; `read` are tensors that are returned."""
    rng = np.random.default_rng(1)
    weights, nodes = {}, []
    for name, wide in (("q", width), ("k", width // heads[0] * heads[1]), ("v", width // heads[0] * heads[1])):
        weights |= {f"{name}w": rng.normal(size=(4, wide)), f"{name}b": rng.normal(size=wide)}
        nodes += [("MatMul", ["x", f"{name}w"], [f"{name}p"], {}), ("Add", [f"{name}p", f"{name}b"], [name], {})]
    weights |= {"ow": rng.normal(size=(width, 4)), "ob": rng.normal(size=4)}
    counts = {"q_num_heads": heads[0], "kv_num_heads": heads[1]}
    nodes += [
        ("Attention", ["q", "k", "v"], ["a"], counts),
        ("MatMul", ["a", "ow"], ["op"], {}),
        ("Add", ["op", "ob"], ["o"], {}),
    ]
    return small(nodes, weights, ends=("o", *read), x=["batch", "t", 4])


@pytest.mark.parametrize(
    ("given", "sums"),
    [
        ({}, ["q", "o"]),
        ({"read": ("k",)}, ["q", "k", "o"]),
        ({"read": ("v",)}, ["q", "v", "o"]),
        ({"read": ("a",)}, ["q", "v", "o"]),  # what attention returns is to hold its bias
        ({"heads": (4, 2)}, ["q", "v", "o"]),
    ],
    ids=["fused", "keys read", "values read", "output read", "grouped"],
)
def test_biases_go_where_nothing_else_reads_what_they_are_added_to(given, sums):
    graph = attended(**given)
    one = rewritten(graph, gpu_rewrites._Biases)
    assert [node.output[0] for node in nodes(one, "Add")] == sums
    same(graph, one, batch=2, t=5)


def patched(strides=(2, 2), size=(4, 6), mean=(3, 1, 1), read=(), **more):
    """The projection of patches of an image with its channels last, which is normalized once they are first."""
    rng = np.random.default_rng(1)
    weights = {"k": rng.normal(size=(5, 3, 2, 2)), "b": rng.normal(size=5), "SHAPE": [0, 5, -1]}
    weights |= {"most": 255.0, "mean": rng.normal(size=mean), "std": rng.uniform(1, 2, size=(3, 1, 1))}
    nodes = [
        ("Transpose", ["x"], ["first"], {"perm": [0, 3, 1, 2]}),
        ("Div", ["first", "most"], ["part"], {}),
        ("Sub", ["part", "mean"], ["middle"], {}),
        ("Div", ["middle", "std"], ["normal"], {}),
        ("Conv", ["normal", "k", "b"], ["c"], {"strides": strides, **more}),
        ("Reshape", ["c", "SHAPE"], ["flat"], {}),
        ("Transpose", ["flat"], ["o"], {"perm": [0, 2, 1]}),
    ]
    return small(nodes, weights, ends=("o", *read), x=["batch", *size, 3])


def test_patches_that_do_not_overlap_are_a_product():
    graph = patched()
    one = rewritten(graph, gpu_rewrites._Patches)
    assert kinds(one) == ["Reshape", "Transpose", "Div", "Sub", "Div", "Reshape", "MatMul", "Add"]
    same(graph, one, batch=2)


@pytest.mark.parametrize(
    "given",
    [
        {"strides": (1, 1)}, {"size": (5, 6)}, {"pads": [0, 0, 2, 2]}, {"dilations": [2, 2]}, {"mean": (3, 4, 6)},
        {"mean": (1, 3, 4, 1)}, {"read": ("middle",)},
    ],
    ids=["overlapping", "remainder", "padded", "dilated", "a mean of each pixel", "of each row", "read elsewhere"],
)  # fmt: skip
def test_another_convolution_stays(given):
    graph = patched(**given)
    one = rewritten(graph, gpu_rewrites._Patches)
    assert "Conv" in kinds(one)
    same(graph, one, batch=2)


@pytest.mark.parametrize(
    ("middle", "shape", "turns"),
    [
        ((1, 3), [-1, 3, 4], 0),
        ((3, 1), [-1, 3, 4], 0),
        ((2, 3), [-1, 6, 4], 1),
        ((1, 3), [0, 0, -1], 0),  # 0 is a length of what is turned, which has another before it is
    ],
)
def test_a_transpose_of_one_token_is_none(middle, shape, turns):
    nodes = [
        ("Relu", ["x"], ["r"], {}),
        ("Transpose", ["r"], ["turned"], {"perm": [0, 2, 1, 3]}),
        ("Reshape", ["turned", "SHAPE"], ["o"], {}),
    ]
    graph = small(nodes, {"SHAPE": shape}, ends=("o",), x=["batch", *middle, 4])
    one = rewritten(graph, gpu_rewrites._Turns)
    assert kinds(one).count("Transpose") == turns
    same(graph, one, batch=2)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_graph_in_half_floats_is_rewritten_as_one_in_single_floats(graphs, precision):
    """Weights that are made keep the type of those that they are made of."""
    source, plan, graph = graphs["images"]
    low = extract(traced_in(source.base, source.traced_at, precision), plan)
    one = rewrite_for_gpus(low, plan)
    assert kinds(one) == [*kinds(rewrite_for_gpus(copied(graph), plan)), "Cast"]  # of the logits
    kind = TensorProto.FLOAT16 if precision == "fp16" else TensorProto.BFLOAT16
    made = [tensor for tensor in one.graph.initializer if tensor.name.startswith(("_biases", "_patches"))]
    assert {tensor.data_type for tensor in made} == {kind, TensorProto.INT64}
