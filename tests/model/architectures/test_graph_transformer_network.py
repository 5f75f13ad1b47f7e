"""A Graph Transformer Network against its paper's equations, and what paths it composes."""

import numpy as np
import pytest
import torch

from model.architectures.graph_transformer_network import GraphTransformerNetworkConfig, graph_transformer_network
from model.parts.heads import EachLinear
from tests.samples.attention_reference import (
    assert_same,
    assert_same_maps,
    linear,
    relu,
    sharpen,
    softmax,
    weights_of,
)
from tests.samples.graphs import LARGEST, NODE_TYPES, SIZES, TYPES, alone, batch, renumbered

CONFIG = GraphTransformerNetworkConfig(NODE_TYPES, TYPES, channels=2, layers=2, width=5, classes=3)


@pytest.fixture(scope="module")
def model():
    return sharpen(graph_transformer_network(CONFIG))


def by_degree(paths):
    degree = paths.sum(1)
    return np.diag([1 / one if one else 0 for one in degree]) @ paths


@pytest.mark.parametrize("index", range(len(SIZES)))
def test_a_graph_transformer_network_is_its_equations(model, index):
    """Yun et al. 2019, sections 3.2 and 3.3, of one channel at a time."""
    nodes, edges, visible = alone(batch(), index)
    answer, maps = model(nodes, edges, visible)
    w, size = weights_of(model), SIZES[index]
    relations = np.concatenate((np.eye(size)[None], edges[0].numpy()))  # (relation, node, node)
    x = w["module.nodes.weight"][nodes[0].numpy()] @ w["module.convolution.weight"].T
    states = []
    for channel in range(CONFIG.channels):
        names = ["first", *(f"layers.{layer}.selection" for layer in range(CONFIG.layers))]
        q = [np.einsum("t,tij->ij", softmax(w[f"module.{name}.weight"][channel]), relations) for name in names]
        paths = q[0]
        for layer in range(CONFIG.layers):
            paths = by_degree(paths @ q[layer + 1])
            assert_same(maps[f"layers.{layer}"][0, channel], paths, 1e-9)
        states.append(relu(by_degree(paths + np.eye(size)) @ x))
    largest = np.concatenate(states, -1).max(0)
    hidden = relu(linear(w, "module.head.behind.0", largest))
    assert_same(answer[0], linear(w, "module.head.behind.2", hidden), 1e-9)
    assert len(maps) == CONFIG.layers


def test_padding_changes_nothing(model):
    answers, maps = model(*batch())
    for index, size in enumerate(SIZES):
        answer, found = model(*alone(batch(), index))
        assert_same(answers[index : index + 1], answer)
        assert_same_maps({name: one[index : index + 1, :, :size, :size] for name, one in maps.items()}, found)


def test_to_number_nodes_otherwise_changes_no_answer(model):
    order = torch.randperm(LARGEST, generator=torch.Generator().manual_seed(2))
    answers, maps = model(*batch())
    others, found = model(*renumbered(batch(), order))
    assert_same(others, answers)
    assert_same_maps(found, {name: one[:, :, order][:, :, :, order] for name, one in maps.items()})


def test_sharp_selections_compose_one_path_of_relations():
    """A channel that chooses the relations 1 and 0, then to stay, leads where edges of 1 and then of 0 lead."""
    model = sharpen(graph_transformer_network(CONFIG))
    chosen = [model.first, *(layer.selection for layer in model.layers)]
    with torch.no_grad():
        for selection, relation in zip(chosen, (2, 1, 0), strict=True):  # the last one is to stay
            selection.weight.copy_(1e4 * torch.eye(1 + TYPES)[[relation, relation]])
    nodes, edges, visible = alone(batch(), 0)
    _, maps = model(nodes, edges, visible)
    wanted = edges[0, 1].double() @ edges[0, 0].double() > 0
    assert torch.equal(maps["layers.1"][0, 0] > 0, wanted)
    assert wanted.any()
    assert_same(model.first.shares().sum(1), torch.ones(2, dtype=torch.float64))


def test_a_row_of_paths_is_a_distribution_or_nothing(model):
    for found in model(*batch())[1].values():
        total = found.sum(-1)
        assert ((total - 1).abs() < 1e-12).logical_or(total == 0).all()


def test_another_head_classifies_nodes():
    model = sharpen(graph_transformer_network(CONFIG, EachLinear(CONFIG.channels * CONFIG.width, 4)))
    assert model(*batch())[0].shape == (len(SIZES), LARGEST, 4)
