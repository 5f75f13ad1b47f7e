"""What the papers say of their models of graphs, on weights that are kept, and what is measured of these."""

from pathlib import Path

import pytest
import torch

from model.architectures.graphormer import GRAPHORMER_SIZES, graphormer
from model.catalogue import bundled
from model.vocabularies import LINKING_PATHS
from model.weights import load_weights
from tests.train.conftest import same
from train.data.graphs import Graph, coloured_graph, linked_graph, padded
from train.fit import Run
from train.recipes import graphs

WITHOUT_PATHS = Path("tests/data/graphs-without-paths.safetensors")
CHANCE = 1 / 3
"""One of the three colours of a graph is its class."""


def some(draw, count=300):
    return graphs.held_out(draw, count)


def test_a_graphormer_needs_to_be_told_of_distances():
    """Ying et al. 2021, section 3.1.2: without the bias by distance the class is known by chance."""
    told = bundled("graphs-graphormer")
    untold = graphs.without_paths("graphs-graphormer")
    load_weights(untold.eval(), WITHOUT_PATHS)
    assert graphs.accuracy(told, some(coloured_graph)) > 0.99
    assert graphs.accuracy(untold, some(coloured_graph)) == pytest.approx(CHANCE, abs=0.08)


def test_shares_of_the_class_point_at_the_node_that_tells_it():
    points = graphs.pointing(bundled("graphs-graphormer"), some(coloured_graph, 100))
    assert min(*points["libra"], *points["rollout"]) > 0.95


def test_a_graph_transformer_network_names_paths_that_tell_the_class():
    """Yun et al. 2019, section 4.3: the softmax over relations says which paths matter."""
    module = bundled("graphs-gtn")
    assert graphs.accuracy(module, some(linked_graph)) > 0.99
    assert graphs.named_paths(module) >= 2
    with torch.no_grad():
        for selection in (module.first, module.layers[0].selection):
            selection.weight[:, 1:] = 0
    assert graphs.named_paths(module) <= 1


def test_the_hottest_node_is_looked_for_among_visible_ones_and_among_coloured_ones(monkeypatch):
    """Nodes 0 and 1 are marked and plain, 2 and 3 coloured; node 3 tells the class."""
    graph = Graph(torch.tensor([1, 0, 2, 3]), torch.zeros(1, 4, 4, dtype=torch.bool), 1, (3,))
    larger = Graph(torch.zeros(6, dtype=torch.long), torch.zeros(1, 6, 6, dtype=torch.bool), 0, (0,))
    heat = {"a": [9, 0, 0, 1, 0, 0], "b": [0, 0, 2, 1, 0, 0], "c": [0, 0, 0, 1, 0, 0]}
    values = {name: torch.tensor([own, [1, 0, 0, 0, 0, 0]], dtype=torch.float32) for name, own in heat.items()}
    monkeypatch.setattr(graphs, "heat", lambda module, inputs: values)
    found = graphs.pointing(None, [graph, larger])
    assert {name: of_all for name, (of_all, _) in found.items()} == {"a": 0.5, "b": 0.5, "c": 1.0}
    assert [of_coloured for _, of_coloured in found.values()] == [1.0, 0.5, 1.0]


def test_padding_and_the_virtual_node_are_no_nodes_to_point_at():
    module = graphormer(GRAPHORMER_SIZES["graphs-graphormer"]).eval()
    drawn = some(coloured_graph, 4)
    *inputs, _ = padded(drawn)
    found = graphs.heat(module, inputs)
    assert set(found) == {"rollout", "relevance", "libra"}
    for values in found.values():
        assert values.shape == inputs[2].shape
        assert torch.equal(values.isfinite(), inputs[2])
        for row, one in enumerate(drawn):
            *own, _ = padded([one])
            alone = graphs.heat(module, own)
            assert all(torch.allclose(found[name][row, : len(one.nodes)], alone[name][0], atol=1e-5) for name in found)


def test_the_same_seed_trains_the_same_model():
    trained = [graphs.train("graphs-gtn", Run(2, 4))[0] for _ in range(2)]
    assert same(*trained)
    assert len(LINKING_PATHS) == 4
