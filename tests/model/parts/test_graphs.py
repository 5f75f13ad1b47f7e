"""What is read off the edges of a graph, against its shortest paths, which are walked one by one."""

import numpy as np
import pytest
import torch

from model.parts.graphs import Centrality, PathBias, adjacency, distances, same_node
from tests.samples.attention_reference import assert_same, sharpen, weights_of
from tests.samples.graphs import LARGEST, TYPES, alone, batch, renumbered, shortest_paths

HEADS, FARTHEST = 2, 2
GRAPHS = range(3)


def edges_of(index):
    return alone(batch(), index)[1]


def apart_in(edges, farthest=FARTHEST, nodes=LARGEST):
    return distances(adjacency(edges, torch.float64), same_node(edges, torch.float64), farthest, nodes)


@pytest.mark.parametrize("index", GRAPHS)
def test_a_distance_is_the_number_of_edges_on_a_shortest_path(index):
    edges = edges_of(index)
    paths = shortest_paths(edges[0])
    size = edges.shape[-1]
    wanted = np.full((size, size), FARTHEST + 2)
    for pair, ways in paths.items():
        wanted[pair] = min(len(ways[0]) - 1, FARTHEST + 1)
    assert np.array_equal(apart_in(edges)[0], wanted)


def test_the_samples_have_all_that_is_special():
    """Paths longer than the farthest, nodes that cannot be reached, and several shortest paths."""
    paths = shortest_paths(edges_of(0)[0])
    assert set(apart_in(edges_of(0)).flatten().tolist()) == set(range(FARTHEST + 3))
    assert any(len(ways) > 1 and len(ways[0]) - 1 <= FARTHEST for ways in paths.values())


@pytest.mark.parametrize("nodes", [2, 3, 8, 9, 40])
def test_the_end_of_the_longest_path_is_reached(nodes):
    edges = torch.diag(torch.ones(nodes - 1), 1)[None, None] > 0
    assert apart_in(edges, 0, nodes)[0, 0, -1] == 1
    assert apart_in(edges, 0, nodes)[0, -1, 0] == 2


def test_the_numbers_of_neighbours_each_have_a_vector():
    edges, module = edges_of(0), sharpen(Centrality(2, 6))
    found, w = module(adjacency(edges, torch.float64)), weights_of(module)
    linked = edges[0].any(0).numpy()
    for node in range(len(linked)):
        arriving, leaving = min(linked[:, node].sum(), 2), min(linked[node].sum(), 2)
        assert_same(found[0, node], w["module.arriving.weight"][arriving] + w["module.leaving.weight"][leaving])
    assert linked.sum(0).max() > 2


@pytest.mark.parametrize("index", GRAPHS)
def test_a_bias_is_that_of_the_distance_and_of_the_edges_on_all_shortest_paths(index):
    """Ying et al. 2021, equations 6 and 7."""
    edges, module = edges_of(index), sharpen(PathBias(HEADS, TYPES, FARTHEST, LARGEST))
    found, w = module(edges)[0].detach().numpy(), weights_of(module)
    b, edge = w["module.distance.weight"], w["module.edges"]
    paths, apart, x = shortest_paths(edges[0]), apart_in(edges)[0].numpy(), edges[0].numpy()
    for (start, end), far in np.ndenumerate(apart):
        wanted = b[far].copy()
        if 0 < far <= FARTHEST:
            ways = paths[start, end]
            wanted += sum(x[:, way[n], way[n + 1]] @ edge[n] for way in ways for n in range(far)) / (far * len(ways))
        assert np.abs(found[:, 1 + start, 1 + end] - wanted).max() < 1e-9
    for virtual in (found[:, 0], found[:, :, 0]):
        assert (virtual == b[FARTHEST + 3][:, None]).all()


def test_nodes_in_another_order_have_the_same_bias_in_that_order():
    given, module = batch(), sharpen(PathBias(HEADS, TYPES, FARTHEST, LARGEST))
    order = torch.randperm(LARGEST, generator=torch.Generator().manual_seed(1))
    moved = torch.cat((torch.zeros(1, dtype=torch.long), 1 + order))
    assert_same(module(renumbered(given, order)[1]), module(given[1])[:, :, moved][:, :, :, moved])
