"""Attention as one node: the same numbers, nothing left of what it replaces, and weights that are read stay."""

from dataclasses import replace

import numpy as np
import onnx
import pytest

from export.errors import ExportError
from export.graphs.lowering.fusion import fuse_attention
from tests.samples.export_graphs import copied, kinds, plain_graphs, session, traced_in


@pytest.fixture(scope="module")
def graphs():
    return plain_graphs()


def attributes(node):
    return {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}


@pytest.mark.parametrize("name", ["images", "texts", "encode", "decode"])
def test_a_fused_graph_answers_as_the_plain_one(graphs, name):
    source, plan, graph = graphs[name]
    one = fuse_attention(copied(graph), plan)
    onnx.checker.check_model(one)
    assert kinds(one).count("Attention") == plan.attentions
    assert not {"Softmax", "Where", "Not"} & set(kinds(one))
    plain, ours = session(graph), session(one)
    for sizes in source.verified_at:
        for seed in (1, 2):
            given = plan.example(sizes, seed)
            feed = {port.name: tensor.numpy() for port, tensor in zip(plan.inputs, given, strict=True)}
            for port, wanted, found in zip(plan.outputs, plain.run(None, feed), ours.run(None, feed), strict=True):
                assert np.isfinite(found).all()
                np.testing.assert_allclose(found, wanted, atol=2e-5, err_msg=f"{port.name} at {sizes}")


def test_heads_are_not_split_in_memory_and_no_key_is_masked(graphs):
    """Flash kernels take no mask: there are true lengths, or causality, or nothing."""
    *_, plan, graph = graphs["images"]
    one = fuse_attention(copied(graph), plan)
    assert kinds(one).count("Transpose") == 2  # of pixels and of patches
    for node in one.graph.node:
        if node.op_type == "Attention":
            assert len(node.input) == 3
            assert attributes(node)["q_num_heads"] == 2
    *_, plan, graph = graphs["texts"]
    found = [node for node in fuse_attention(copied(graph), plan).graph.node if node.op_type == "Attention"]
    assert not any(len(node.input) > 3 and node.input[3] for node in found)
    lengths = {node.input[6] for node in found if len(node.input) == 7}
    assert len(lengths) == 1  # of the source, counted once
    assert [attributes(node).get("is_causal", 0) for node in found].count(1) == 2


def test_weights_that_are_returned_are_computed(graphs):
    source, *_ = graphs["images"]
    base = traced_in(source.base, source.traced_at)
    assert "Attention" not in kinds(fuse_attention(copied(base), source.base))


def test_a_mask_of_another_kind_stays(graphs):
    *_, plan, graph = graphs["texts"]
    other = copied(graph)
    for node in other.graph.node:
        if node.op_type == "LessOrEqual":
            node.op_type = "Less"
    found = kinds(fuse_attention(other, plan))
    assert (found.count("Attention"), found.count("Softmax")) == (plan.attentions - 2, 2)


def test_a_mask_that_need_not_be_of_padding_stays(graphs):
    """A count of visible keys says it all of what is padded behind; any cell of an image may be hidden."""
    _, plan, graph = graphs["texts"]
    before = kinds(fuse_attention(copied(graph), plan)).count("Attention")
    fixed = copied(graph)
    mask = next(one for one in fixed.graph.input if one.name == "source_visible")
    mask.type.tensor_type.shape.dim[1].dim_value = 12
    ports = [
        port.model_copy(update={"axes": ("batch", 12)}) if port.name == mask.name else port for port in plan.inputs
    ]
    after = kinds(fuse_attention(fixed, replace(plan, inputs=tuple(ports)))).count("Attention")
    assert (before, after) == (plan.attentions, 2)  # those of what is written do not look at the source


def test_an_attention_that_is_gone_is_noticed_in_a_fused_graph(graphs):
    *_, plan, graph = graphs["images"]
    one = fuse_attention(copied(graph), plan)
    node = next(node for node in one.graph.node if node.op_type == "Attention")
    node.op_type, node.input[:] = "Identity", node.input[:1]
    del node.attribute[:]
    with pytest.raises(ExportError, match="must attend 2 times, the graph does 1 times"):
        fuse_attention(one, plan)
