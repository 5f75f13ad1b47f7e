"""Causal attention in blocks gives the same as in one piece, at every length, and reads fewer keys."""

import copy
import functools

import numpy as np
import onnx
import pytest
import torch

from export import pipeline
from export.bundled import dates_clm
from export.checks.verify import verify
from export.errors import ExportError
from export.graphs.editing.cleanup import extract
from export.graphs.lowering import causal_blocks
from export.graphs.lowering.causal_blocks import BLOCKS, split_causal_attention
from export.graphs.lowering.decode_step import fuse_step
from export.graphs.lowering.masks import add_masks
from export.graphs.lowering.top_k import without_top_k
from export.graphs.tracing.torch_export import DEFAULT_OPSET
from model.architectures.gpt_variants import LlamaConfig
from model.vocabularies import ALPHABET, SPECIALS
from tests.samples.export_graphs import copied, kinds, session, traced_in
from tests.samples.export_models import continuer, opened, sharpened, translator, written

MOST = 5
"""The most tokens that are computed in one piece here."""


@pytest.fixture(autouse=True)
def few_tokens_in_one_piece(monkeypatch):
    monkeypatch.setattr(causal_blocks, "MAX_WHOLE_TOKENS", MOST)


@functools.cache
def sharp_continuer():
    source = dates_clm()
    sharpened(source.traced.model)
    return source


@functools.cache
def turned_continuer():
    """A decoder whose queries and keys are turned, whose heads share keys, and which sees windows in two layers."""
    sizes = {"width": 32, "layers": 4, "heads": 4, "key_heads": 2, "head": 16, "hidden": 24}
    return continuer(
        LlamaConfig(len(SPECIALS) + len(ALPHABET), length=48, near=(0, 2), window=4, heads_normed=True, **sizes)
    )


@functools.cache
def plain(name):
    """Return the plan of a graph in which some attentions are causal, and the graph."""
    source = {"texts": translator, "turned": turned_continuer}.get(name, sharp_continuer)()
    if name in ("prompt", "turned"):
        plan = source.plan("encode")
        return plan, traced_in(plan, source.traced_at, opset=DEFAULT_OPSET)
    plan = source.plan("predict")
    return plan, extract(traced_in(source.base, source.traced_at, opset=DEFAULT_OPSET), plan)


@pytest.mark.parametrize(
    ("name", "causal", "batch"), [("prompt", 2, 1), ("scores", 3, 1), ("texts", 2, 3), ("turned", 3, 2)]
)
def test_blocks_give_the_same_at_every_length(name, causal, batch):
    plan, graph = plain(name)
    blocks = add_masks(split_causal_attention(copied(graph), 48))
    onnx.checker.check_model(blocks)
    assert kinds(blocks).count("If") == causal
    assert kinds(blocks).count("Softmax") == plan.attentions - causal, "the others stay as they are"
    one, other = session(graph), session(blocks)
    for length in (*range(1, 4 * BLOCKS + 1), 48):
        given = plan.example({"batch": batch, "source": length, "target": length, "answered": length}, length)
        feed = {port.name: tensor.numpy() for port, tensor in zip(plan.inputs, given, strict=True)}
        for port, wanted, found in zip(plan.outputs, one.run(None, feed), other.run(None, feed), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-5, rtol=1e-5, err_msg=f"{port.name} at {length}")


@pytest.mark.parametrize("length", [MOST + 1, 19, 48])
def test_a_prompt_of_several_blocks_leaves_the_caches_of_the_definition(length):
    """Keys are turned by their own positions, whatever block their queries are in; windows reach into blocks before."""
    plan, graph = plain("turned")
    blocks = session(add_masks(split_causal_attention(copied(graph), 48)))
    (tokens,) = plan.example({"batch": 2, "source": length}, 7)
    with torch.no_grad():
        wanted = copy.deepcopy(plan.module).double()(tokens)
    for port, exact, found in zip(plan.outputs, wanted, blocks.run(None, {"source": tokens.numpy()}), strict=True):
        limit = 1e-5 * exact.abs().max().item()
        np.testing.assert_allclose(found, exact.numpy(), atol=limit, err_msg=port.name)


def test_steps_behind_a_prompt_of_several_blocks_answer_as_the_whole_text():
    """Behind 41 tokens, which four blocks fill, three steps in 8 bits' form write their keys and see windows."""
    source = turned_continuer()
    (_, graph), step = plain("turned"), without_top_k(source.plan("decode"))
    fill = session(split_causal_attention(copied(graph), 48))
    decode = session(fuse_step(traced_in(step, source.traced_at), step))
    tokens = np.random.default_rng(3).integers(3, 60, (2, 44))
    with torch.no_grad():
        wanted = copy.deepcopy(source.traced.model).double()(torch.from_numpy(tokens))[0].numpy()
    names = [port.name for port in step.inputs if port.name.startswith("past.")]
    filled = fill.run(None, {"source": tokens[:, :41]})
    caches = {name: np.pad(one, [(0, 0), (0, 0), (0, 7), (0, 0)]) for name, one in zip(names, filled, strict=True)}
    for place in range(40, 44):  # the last token of the prompt is fed again
        given = {"token": tokens[:, place], "position": np.full(2, place), **caches}
        logits, *presents = decode.run(None, given)
        np.testing.assert_allclose(logits, wanted[:, place], atol=1e-5 * np.abs(wanted).max())
        caches = dict(zip(names, presents, strict=True))


def weights_of_blocks(name):
    """Return the weights of the blocks of the first attention, of a text of 40 tokens."""
    _, graph = plain(name)
    blocks = add_masks(split_causal_attention(copied(graph), 48))
    made = next(node for node in blocks.graph.node if node.op_type == "If")
    body = next(one.g for one in made.attribute if one.name == "then_branch")
    weights = [node.output[0] for node in body.node if node.op_type == "Softmax"]
    for output in weights:  # a branch cannot return to the graph's outputs, so its nodes become the graph's
        blocks.graph.output.append(onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None))
    where = list(blocks.graph.node).index(made)
    nodes = [*blocks.graph.node[:where], *body.node]
    del blocks.graph.node[:]
    blocks.graph.node.extend(nodes)
    del blocks.graph.output[: -len(weights)]
    return session(blocks).run(None, {"source": np.ones((1, 40), np.int64)})


def test_a_block_reads_the_keys_up_to_its_last_query():
    """Of 40 tokens, 4 blocks of 10 queries read 10, 20, 30 and 40 keys."""
    found = weights_of_blocks("prompt")
    assert [one.shape[-2:] for one in found] == [(10, 10), (10, 20), (10, 30), (10, 40)]
    for block, one in enumerate(found):
        later = np.arange(one.shape[-1]) > np.arange(10 * block, 10 * block + 10)[:, None]
        assert not one[..., later].any()
        assert one[..., ~later].all()


def test_a_block_reads_the_keys_from_the_first_in_its_window():
    """A query sees four keys, so that three are read of the block before."""
    found = weights_of_blocks("turned")
    assert [one.shape[-2:] for one in found] == [(10, 10), (10, 13), (10, 13), (10, 13)]
    for block in found[1:]:
        seen = np.arange(13) - np.arange(10)[:, None]
        np.testing.assert_array_equal(block[0, 0, 0] > 0, (seen >= 0) & (seen < 4))


def test_keys_that_heads_share_are_not_repeated():
    """Of three layers with caches; a zero of no positions is what is left."""
    _, graph = plain("turned")
    blocks = split_causal_attention(copied(graph), 48)
    assert kinds(blocks).count("Expand") == 1 < kinds(graph).count("Expand")


def test_a_graph_that_takes_few_tokens_stays():
    _, graph = plain("prompt")
    assert split_causal_attention(copied(graph), MOST) == graph


def test_an_export_splits_the_graphs_that_return_no_maps(tmp_path):
    source = sharp_continuer()
    folder = written(source, tmp_path)
    split = {plan.role for plan in source.plans if "If" in kinds(onnx.load(folder / f"{plan.role}.onnx"))}
    assert {"predict", "encode"} <= split
    assert "decode" not in split
    assert max(verify(source, opened(folder)).values()) < 1e-4


@pytest.mark.parametrize("role", ["predict", pytest.param("encode", marks=pytest.mark.slow)])
def test_blocks_are_verified_at_full_length(tmp_path, monkeypatch, role):
    """Nothing shorter is split here."""
    source = sharp_continuer()

    def split_wrongly(graph, longest):
        with monkeypatch.context() as changed:
            if (role == "predict") == ("logits" in [one.name for one in graph.graph.output]):
                changed.setattr(causal_blocks, "HIDING", 0.0)  # as if later keys were not hidden
            return split_causal_attention(graph, longest)

    monkeypatch.setattr(causal_blocks, "MAX_WHOLE_TOKENS", 64)
    monkeypatch.setattr(pipeline, "split_causal_attention", split_wrongly)
    folder = written(source, tmp_path)
    with pytest.raises(ExportError, match=f"{role}.*96"):
        verify(source, opened(folder))
