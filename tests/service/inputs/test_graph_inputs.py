"""Graphs in JSON become types of nodes and edges by type, or are refused in words."""

import json

import numpy as np
import pytest

from contract.input_rules import EDGES, NODES, GraphRule
from service.errors import TooLarge, Unacceptable
from service.inputs.graph_inputs import SAMPLE_GRAPH, GraphInputs

UNDIRECTED = GraphRule(
    node_types=("plain", "red", "blue"), edge_types=("edge",), nodes=4, edges=3, virtual=True, plain=0
)
DIRECTED = GraphRule(node_types=("one", "two"), edge_types=("knows", "likes"), nodes=4, edges=9, directed=True)


def read(graph, rule=UNDIRECTED):
    return GraphInputs(None, rule).graph_input(graph if isinstance(graph, str) else json.dumps(graph))


def edges_of(item):
    return {tuple(edge) for edge in np.argwhere(item.arrays[EDGES]).tolist()}


def test_a_graph_of_edges_without_a_direction_has_them_both_ways_behind_its_virtual_node():
    item = read({"nodes": [0, "red", {"type": 2}], "edges": [[0, 1], [2, 1, "edge"]]})
    assert item.arrays[NODES].tolist() == [0, 0, 1, 2]
    assert edges_of(item) == {(0, 1, 2), (0, 2, 1), (0, 3, 2), (0, 2, 3)}
    assert item.arrays[f"{NODES}_visible"].tolist() == [True] * 4
    assert item.special[NODES].tolist() == [True, False, False, False]
    assert item.lengths == {NODES: 4}
    assert [(token.text, token.span) for token in item.tokens] == [
        ("virtual", None), ("plain", (0, 1)), ("red", (1, 2)), ("blue", (2, 3)),
    ]  # fmt: skip


def test_edges_with_a_direction_lead_one_way_unless_the_graph_says_otherwise():
    graph = {"nodes": [0, 1], "edges": [[0, 1, "likes"], [1, 1, 0]]}
    assert edges_of(read(graph, DIRECTED)) == {(1, 0, 1), (0, 1, 1)}
    assert edges_of(read({**graph, "directed": False}, DIRECTED)) == {(1, 0, 1), (1, 1, 0), (0, 1, 1)}
    assert not read(graph, DIRECTED).special[NODES].any()


@pytest.mark.parametrize("name", ["edges", "links"])
def test_the_form_of_networkx_is_the_same_graph(name):
    """As `node_link_data` of networkx 3.6 writes a MultiDiGraph, and of 3.3 with `links`."""
    networkx = {
        "directed": True, "multigraph": True, "graph": {"said": "of all"},
        "nodes": [{"type": "two", "id": "a", "colour": 3}, {"type": 0, "id": "b"}],
        name: [{"type": "likes", "source": "a", "target": "b", "key": 0}, {"type": 0, "source": "b", "target": "a"}],
    }  # fmt: skip
    short = read({"nodes": [1, 0], "edges": [[0, 1, 1], [1, 0, 0]]}, DIRECTED)
    found = read(networkx, DIRECTED)
    assert found.graph == short.graph
    np.testing.assert_array_equal(found.arrays[EDGES], short.arrays[EDGES])


def test_ids_that_are_numbers_are_no_places():
    item = read({"nodes": [{"id": 7}, {"id": 0}], "edges": [{"source": 7, "target": 0}]})
    assert item.graph.edges == [(0, 1, 0)]


@pytest.mark.parametrize(
    "graph",
    [
        {"nodes": [1]},
        {"nodes": [1], "edges": [[0, 0]]},
        {"nodes": [0, 1, 2], "edges": [[0, 1]]},
        {"nodes": [0, 1], "edges": [[0, 1], [0, 1], [1, 0]]},
        {"nodes": [{}, {"id": "a"}]} | {"nodes": [{"id": "b"}, {"id": "a"}]},
        SAMPLE_GRAPH,
    ],
)
def test_one_node_a_loop_several_parts_and_repeated_edges_are_graphs(graph):
    assert read(graph).graph.places.shape == (read(graph).lengths[NODES] - 1, 2)


@pytest.mark.parametrize(
    ("graph", "rule", "words"),
    [
        ("[1", UNDIRECTED, "graph: must be JSON"),
        ([0], UNDIRECTED, "graph: must be {"),
        ({"edges": []}, UNDIRECTED, "graph: must be {"),
        ({"nodes": [0], "secret": 1}, UNDIRECTED, "graph: must be {"),
        ({"nodes": [0], "edges": [], "links": []}, UNDIRECTED, "given both"),
        ({"nodes": 3}, UNDIRECTED, "nodes: must be a list"),
        ({"nodes": []}, UNDIRECTED, "nodes: must be 1 to 4, given 0"),
        ({"nodes": [3]}, UNDIRECTED, "0 to 2 or a name, one of plain, red, blue; given another"),
        ({"nodes": [True]}, UNDIRECTED, "the type of each"),
        ({"nodes": ["secret"]}, UNDIRECTED, "the type of each"),
        ({"nodes": [{"id": "a"}]}, DIRECTED, "the type of each"),
        ({"nodes": [{"id": "a"}, {"id": "a"}]}, UNDIRECTED, "an id of its own"),
        ({"nodes": [{"id": "a"}, 0]}, UNDIRECTED, "an id of its own"),
        ({"nodes": [{"id": None}]}, UNDIRECTED, "an id of its own"),
        ({"nodes": [0], "edges": [[0, 1]]}, UNDIRECTED, "nodes from 0 to 0, given another"),
        ({"nodes": [0], "edges": [[0, -1]]}, UNDIRECTED, "nodes from 0 to 0"),
        ({"nodes": [0, 0], "edges": [[False, 1]]}, UNDIRECTED, "nodes from 0 to 1"),
        ({"nodes": [{"id": "a"}], "edges": [["a", "secret"]]}, UNDIRECTED, "ids of nodes, given another"),
        ({"nodes": [{"id": "a"}], "edges": [["a", []]]}, UNDIRECTED, "ids of nodes, given another"),
        ({"nodes": [0], "edges": [[0]]}, UNDIRECTED, "edges: each must be"),
        ({"nodes": [0], "edges": [{"source": 0}]}, UNDIRECTED, "edges: each must be"),
        ({"nodes": [0, 1], "edges": [[0, 1]]}, DIRECTED, "edges: the type of each must be 0 to 1 or a name"),
        ({"nodes": [0], "edges": [], "directed": 1}, UNDIRECTED, "directed: must be true or false"),
        ({"nodes": [0], "edges": [], "directed": True}, UNDIRECTED, "directed: must be false"),
    ],
)
def test_what_is_no_graph_of_a_model_is_refused_in_words(graph, rule, words):
    with pytest.raises(Unacceptable) as refused:
        read(graph, rule)
    assert words in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        ({"nodes": [0] * 5}, "nodes: must be at most 4 in a graph, given 5"),
        ({"nodes": [0], "edges": [[0, 0]] * 4}, "edges: must be at most 3 in a graph, given 4"),
    ],
)
def test_a_graph_above_the_limits_is_too_large(graph, words):
    with pytest.raises(TooLarge, match=words):
        read(graph)


def test_as_many_nodes_are_expected_as_a_text_has_room_for():
    inputs = GraphInputs(None, UNDIRECTED)
    for count in range(1, 5):
        text = json.dumps({"nodes": [0] * count}, separators=(",", ":"))
        assert inputs.estimated(text)[NODES] >= read(text).lengths[NODES]
    assert inputs.estimated("[" * 10_000) == inputs.longest == {NODES: 5}
