"""Graphs of three tasks: what tells their class, and what does not."""

import itertools
import random
from collections import Counter

import pytest
import torch

from model.vocabularies import LINKING_PATHS, NODE_COLOURS, PLAIN, RELATIONS
from tests.samples.graphs import shortest_paths
from train.data.graphs import (
    ASKED,
    AWAY,
    EACH,
    END,
    FIRST_COLOUR,
    MARKED,
    START,
    coloured_graph,
    cyclic_graph,
    linked_graph,
    padded,
)

TASKS = {"coloured": coloured_graph, "linked": linked_graph, "cyclic": cyclic_graph}


def some(task, count=60):
    rng = random.Random(3)
    return [task(rng) for _ in range(count)]


def test_the_class_is_the_colour_of_the_node_at_the_distance_that_is_asked_for():
    for graph in some(coloured_graph):
        assert torch.equal(graph.edges, graph.edges.transpose(1, 2))
        (marked,) = (graph.nodes == MARKED).nonzero()[:, 0].tolist()
        paths, degree = shortest_paths(graph.edges), graph.edges[0].sum(0).tolist()
        coloured = {len(paths[marked, node][0]) - 1: node for node in (graph.nodes > MARKED).nonzero()[:, 0].tolist()}
        assert sorted(coloured) == sorted(AWAY)
        assert graph.truth == (coloured[AWAY[ASKED]],)
        assert graph.label == graph.nodes[graph.truth[0]] - FIRST_COLOUR
        assert len({degree[node] for node in coloured.values()}) == 1
        assert len({graph.nodes[node].item() for node in coloured.values()}) == len(AWAY)


def test_the_class_is_the_path_of_relations_that_links_the_start_to_the_end():
    for graph in some(linked_graph):
        (start,), (end,) = ((graph.nodes == kind).nonzero()[:, 0].tolist() for kind in (START, END))
        found = {
            (first, second): both.nonzero()[:, 0].tolist()
            for first, second in itertools.product(range(len(RELATIONS)), repeat=2)
            if (both := graph.edges[first, start] & graph.edges[second, :, end]).any()
        }
        assert [path for path in LINKING_PATHS if path in found] == [LINKING_PATHS[graph.label]]
        assert found[LINKING_PATHS[graph.label]] == list(graph.truth)
        assert (
            graph.edges[:, start].sum(1).tolist() == graph.edges[:, :, end].sum(1).tolist() == [EACH] * len(RELATIONS)
        )
        assert not graph.edges[:, start, end].any()
        assert len(found) > 1


def test_nothing_else_leads_to_the_end_in_two_steps():
    for graph in some(linked_graph):
        end = (graph.nodes == END).nonzero()[0, 0]
        linked = graph.edges.any(0).long()
        assert torch.equal((linked @ linked)[:, end] > 0, graph.nodes == START)


def test_the_class_is_whether_there_is_a_cycle_and_neither_how_many_edges_nor_how_many_parts():
    seen = set()
    for graph in some(cyclic_graph):
        reached = {node: set() for node in range(len(graph.nodes))}
        for start, end in shortest_paths(graph.edges):
            reached[start].add(end)
        parts = len({frozenset(ends) for ends in reached.values()})
        assert graph.edges[0].sum() // 2 == len(graph.nodes) - parts + graph.label
        seen.add((parts, graph.label))
        assert (len(graph.truth) > 2) == bool(graph.label)
        inside = graph.edges[0][list(graph.truth)][:, list(graph.truth)]
        assert (inside.sum(0) == 2).all()  # each has two neighbours on the cycle
        assert (graph.nodes == PLAIN).all()
    assert seen == set(itertools.product((1, 2, 3), (0, 1)))


@pytest.mark.parametrize(
    ("name", "classes"), [("coloured", len(NODE_COLOURS)), ("linked", len(LINKING_PATHS)), ("cyclic", 2)]
)
def test_classes_are_drawn_evenly(name, classes):
    found = Counter(one.label for one in some(TASKS[name], 400))
    assert len(found) == classes
    assert max(found.values()) - min(found.values()) < 80


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_batch_is_its_graphs_and_padding(task):
    graphs = some(task, 5)
    nodes, edges, visible, labels = padded(graphs)
    for index, graph in enumerate(graphs):
        size = len(graph.nodes)
        assert torch.equal(nodes[index, :size], graph.nodes)
        assert torch.equal(edges[index, :, :size, :size], graph.edges)
        assert edges[index].sum() == graph.edges.sum()
        assert visible[index].tolist() == [place < size for place in range(nodes.shape[1])]
        assert labels[index] == graph.label
