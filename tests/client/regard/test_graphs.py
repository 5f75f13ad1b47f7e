"""Graphs are sent as JSON, whatever holds them."""

import json
import sys

import numpy as np
import pytest
from regard import BadInput
from regard.calls import batches
from regard.graphs import graph_of
from regard.inputs import encode

from tests.client.conftest import described

SHORT = {"nodes": [0, "plain", {"type": 1}], "edges": [[0, 1], [1, 2, "likes"]], "directed": False}


def graph_model():
    return described("graph-classification", inputs={"node_types": ["plain"], "edge_types": ["a", "b"]})


def test_a_dictionary_is_sent_as_it_is_and_arrays_as_lists():
    assert encode(SHORT, "graph").json == SHORT
    given = {"nodes": np.array([0, 1]), "edges": np.array([[0, 1]])}
    assert encode(given, "graph").json == {"nodes": [0, 1], "edges": [[0, 1]]}
    encoded = encode(SHORT, "graph")
    assert (encoded.field, encoded.size) == ("graphs", len(json.dumps(SHORT)))


def test_a_file_is_read_by_its_path_or_from_its_bytes(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(SHORT))
    for given in (path, str(path), path.read_bytes()):
        assert encode(given, "graph").json == SHORT


@pytest.mark.parametrize("name", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
def test_a_graph_of_networkx_is_sent_in_its_node_link_form_with_types_alone(name):
    networkx = pytest.importorskip("networkx")
    given = getattr(networkx, name)(title="none of the service's")
    given.add_node("a", type="marked", weight=object())
    given.add_node(("b", 1))
    given.add_node(7, type=np.int64(2))
    given.add_edge("a", ("b", 1), type="likes", weight=0.5)
    given.add_edge(7, ("b", 1))
    found = encode(given, "graph").json
    assert found["directed"] == given.is_directed()
    assert found["nodes"] == [{"id": 0, "type": "marked"}, {"id": 1}, {"id": 2, "type": 2}]
    ends = [({one["source"], one["target"]}, one.get("type")) for one in found["edges"]]
    assert sorted(ends, key=str) == sorted([({0, 1}, "likes"), ({1, 2}, None)], key=str)
    if given.is_directed():
        assert [(one["source"], one["target"]) for one in found["edges"]] == [(0, 1), (2, 1)]


def test_parallel_edges_are_sent_each():
    networkx = pytest.importorskip("networkx")
    given = networkx.MultiDiGraph()
    given.add_edges_from([(0, 1, {"type": "a"}), (0, 1, {"type": "b"})])
    assert [one["type"] for one in graph_of(given)["edges"]] == ["a", "b"]


def test_what_networkx_writes_is_sent_as_it_is():
    networkx = pytest.importorskip("networkx")
    given = networkx.node_link_data(networkx.path_graph(3), edges="links")
    assert graph_of(given) == given


def test_what_holds_a_graph_is_recognised_without_networkx(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)  # which refuses its import

    class Held:
        nodes = type("Nodes", (dict,), {"__call__": lambda self, data: self.items()})({"a": {"type": 1}, "b": {}})

        def edges(self, data):
            return [("b", "a", {})]

        def is_directed(self):
            return True

    assert graph_of(Held()) == {
        "directed": True,
        "nodes": [{"id": 0, "type": 1}, {"id": 1}],
        "edges": [{"source": 1, "target": 0}],
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("none.json", "graph: 'none.json' cannot be read: No such file or directory; a str is a path here"),
        (b"{", "graph: a file must be JSON"),
        (b"[]", "graph: must be a dictionary, a graph of networkx, or a file of JSON for this model, given list"),
        (7, "given int"),
        ({"edges": []}, "graph: must have nodes"),
        ({"nodes": [object()]}, "graph: must be of what JSON holds"),
        ({"nodes": [float("nan")]}, "graph: must be of what JSON holds"),
    ],
)
def test_what_is_no_graph_is_refused_before_it_is_sent(given, said):
    with pytest.raises(BadInput) as caught:
        encode(given, "graph")
    assert said in str(caught.value)


def test_one_graph_is_no_batch_of_them():
    networkx = pytest.importorskip("networkx")
    model = graph_model()
    for given in (SHORT, networkx.path_graph(2)):
        with pytest.raises(BadInput, match="must be a list, given one input"):
            list(batches(model, given))
    ((start, batch),) = batches(model, [SHORT, networkx.path_graph(2)])
    assert (start, [one.field for one in batch]) == (0, ["graphs", "graphs"])


def test_many_values_are_sent_in_several_requests():
    large = {"nodes": [0] * 100, "edges": [[0, 1]] * 2000}
    values = len(large["nodes"]) + 2000 * 3 + 2  # each node, each edge with its ends, the lists and what holds them
    assert encode(large, "graph").values == pytest.approx(values, abs=3)
    shown = [(start, len(some)) for start, some in batches(graph_model(), [large, large, SHORT, large, SHORT])]
    assert shown == [(0, 3), (3, 2)]
