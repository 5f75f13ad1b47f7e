"""Graphormer against its paper's equations."""

import numpy as np
import pytest
import torch

from model.architectures.graphormer import GraphormerConfig, graphormer
from model.parts.heads import FirstState
from tests.samples.attention_reference import (
    assert_same,
    assert_same_maps,
    encoder_block,
    gelu,
    layer_norm,
    linear,
    sharpen,
    weights_of,
)
from tests.samples.graphs import LARGEST, NODE_TYPES, SIZES, TYPES, alone, batch, renumbered

SIZES_OF_MODEL = GraphormerConfig(
    LARGEST, NODE_TYPES, TYPES, degree=2, farthest=2, width=8, layers=2, heads=2, hidden=8, classes=3
)


@pytest.fixture(scope="module")
def model():
    return sharpen(graphormer(SIZES_OF_MODEL))


@pytest.mark.parametrize("index", range(len(SIZES)))
def test_a_graphormer_is_its_equations(model, index):
    """Ying et al. 2021, equations 5 to 9; the parts of graphs have tests of their own."""
    nodes, edges, visible = alone(batch(), index)
    answer, maps = model(nodes, edges, visible)
    w, linked = weights_of(model), edges[0].any(0).numpy()
    arriving, leaving = (
        w[f"module.centrality.{way}.weight"][np.minimum(linked.sum(axis), 2)]
        for axis, way in enumerate(("arriving", "leaving"))
    )
    x = w["module.nodes.weight"][nodes[0].numpy()] + arriving + leaving
    x = np.concatenate((w["module.virtual_node"], x[None]), axis=1)
    bias = model.paths(edges).detach().numpy()
    for layer in range(SIZES_OF_MODEL.layers):
        name = f"module.encoder.blocks.{layer}"
        x, found = encoder_block(w, name, 2, x, pre_norm=True, activation=gelu, bias=bias)
        assert_same(maps[f"encoder.blocks.{layer}.attention"], found, 1e-9)
    assert len(maps) == SIZES_OF_MODEL.layers
    assert_same(answer, linear(w, "module.head", layer_norm(w, "module.encoder.norm", x)[:, 0]), 1e-9)


def test_padding_changes_nothing(model):
    answers, maps = model(*batch())
    for index, size in enumerate(SIZES):
        answer, found = model(*alone(batch(), index))
        assert_same(answers[index : index + 1], answer)
        assert_same_maps({name: one[index : index + 1, :, : size + 1, : size + 1] for name, one in maps.items()}, found)
        assert all(not one[index, :, :, size + 1 :].any() for one in maps.values())


def test_to_number_nodes_otherwise_changes_no_answer(model):
    order = torch.randperm(LARGEST, generator=torch.Generator().manual_seed(2))
    moved = torch.cat((torch.zeros(1, dtype=torch.long), 1 + order))
    answers, maps = model(*batch())
    others, found = model(*renumbered(batch(), order))
    assert_same(others, answers)
    assert_same_maps(found, {name: one[:, :, moved][:, :, :, moved] for name, one in maps.items()})


def test_a_head_of_states_embeds_a_graph():
    model = sharpen(graphormer(SIZES_OF_MODEL, FirstState()))
    assert model(*batch())[0].shape == (len(SIZES), model.width) == (3, 8)


def test_edges_and_their_types_are_seen(model):
    nodes, edges, visible = alone(batch(), 1)
    answer, _ = model(nodes, edges, visible)
    retyped, _ = model(nodes, edges.roll(1, dims=1), visible)
    assert (answer - retyped).abs().max() > 1e-3
