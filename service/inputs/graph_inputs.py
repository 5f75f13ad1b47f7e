"""Graphs as the inputs of a model: types of nodes, and edges by type.

A graph comes as JSON, in a short form or as networkx writes it (`node_link_data`):

    {"nodes": [3, "plain", {"type": 1}], "edges": [[0, 1], [1, 2, "likes"]]}
    {"directed": false, "nodes": [{"id": "a", "type": 3}, ...], "edges": [{"source": "a", "target": "b"}, ...]}

Types are given by index or name. Edges name nodes by their ids where they have some, else by their places.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from contract.artifact import Artifact
from contract.input_rules import EDGES, NODES, GraphRule
from service.errors import TooLarge, Unacceptable
from service.inputs.model_input import Graph, ModelInput, Token

MEMBERS = {"nodes", "edges", "links", "directed", "multigraph", "graph"}
"""What a graph may hold. networkx wrote `links` for `edges` up to 3.3; what it says of the graph is not read."""
SAMPLE_GRAPH = '{"nodes": [0, 0], "edges": [[0, 1, 0]]}'
"""A graph that every model takes."""
ENDS = ("source", "target")
BYTES_OF_A_NODE = 2  # at least


class GraphInputs:
    """The inputs of a model that takes graphs. The number of nodes differs between graphs."""

    modality = "graph"
    plural = "graphs"
    axis = NODES
    confined = False
    """True if inputs are decoded in confined processes."""
    padded = True
    """True if the inputs of a batch may be padded to one size."""
    tokenizer = None

    def __init__(self, artifact: Artifact, rule: GraphRule) -> None:
        self.rule = rule
        self.lengths: Mapping[str, int] = {}
        """Lengths of the axes that are the same for every input."""
        self.longest: Mapping[str, int] = {NODES: rule.most_tokens}
        """The largest number along each axis whose length varies."""
        self.shortest: Mapping[str, int] = {NODES: 1 + rule.virtual}
        """The smallest number along an axis, where that is not 1."""

    def estimated(self, text: str) -> Mapping[str, int]:
        """Return the most nodes that a graph of a text may have."""
        return {NODES: min(len(text) // BYTES_OF_A_NODE + self.rule.virtual, self.rule.most_tokens)}

    def graph_input(self, text: str) -> ModelInput:
        """Return a graph from JSON. Raises Unacceptable for what is no graph of this model, and TooLarge."""
        graph = read_graph(text, self.rule)
        before = int(self.rule.virtual)
        count = len(graph.types) + before
        edges = np.zeros((len(self.rule.edge_types), count, count), np.bool_)
        for source, target, kind in graph.edges:
            edges[kind, source + before, target + before] = True
        if not graph.directed:
            edges |= edges.swapaxes(1, 2)
        types = np.array([0] * before + graph.types)
        special = np.arange(count) < before
        names = self.rule.node_types
        tokens = [
            *[Token(0, "virtual", None)] * before,
            *(Token(kind, names[kind], (place, place + 1)) for place, kind in enumerate(graph.types)),
        ]
        arrays = {NODES: types, f"{NODES}_visible": np.ones(count, np.bool_), EDGES: edges}
        return ModelInput(arrays, {NODES: count}, {NODES: special}, tokens, graph=graph)

    def samples(self, form: object) -> Iterator[tuple[str, Callable[[], ModelInput]]]:
        """Yield a graph on which a model is tried, and what makes its input."""
        yield SAMPLE_GRAPH, lambda: self.graph_input(SAMPLE_GRAPH)

    def description(self) -> dict[str, object]:
        """Return the description of the inputs in `GET /v1/models/{model}`."""
        shown = ("nodes", "edges", "node_types", "edge_types", "directed", "plain")
        return self.rule.model_dump(include=set(shown))


def read_graph(text: str, rule: GraphRule) -> Graph:
    """Return a graph from JSON, checked against a rule. Raises Unacceptable, and TooLarge above its limits."""
    try:
        given = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Unacceptable("graph: must be JSON") from error
    if not isinstance(given, dict) or not given.keys() <= MEMBERS or "nodes" not in given:
        raise Unacceptable('graph: must be {"nodes": [...], "edges": [...]}, given another')
    if {"edges", "links"} <= given.keys():
        raise Unacceptable("graph: must have edges or links, given both")
    nodes, edges = _list(given["nodes"], "nodes"), _list(given.get("edges", given.get("links", [])), "edges")
    if not nodes:
        raise Unacceptable(f"nodes: must be 1 to {rule.nodes}, given 0")
    for name, count, most in (("nodes", len(nodes), rule.nodes), ("edges", len(edges), rule.edges)):
        if count > most:
            raise TooLarge(f"{name}: must be at most {most} in a graph, given {count}")
    directed = given.get("directed", rule.directed)
    if not isinstance(directed, bool):
        raise Unacceptable("directed: must be true or false")
    if directed and not rule.directed:
        raise Unacceptable("directed: must be false, in this model edges lead both ways")
    types = [_type_of_node(node, rule) for node in nodes]
    places = _places(nodes)
    return Graph(types, [_edge(edge, places, len(nodes), rule) for edge in edges], directed)


def _list(given: object, name: str) -> list[object]:
    if not isinstance(given, list):
        raise Unacceptable(f"{name}: must be a list")
    return given


def _type_of_node(node: object, rule: GraphRule) -> int:
    """Return the type of a node; of one that does not say, that of a node that says nothing."""
    given = node.get("type", rule.plain) if isinstance(node, dict) else node
    return _index("nodes: the type of each", given, rule.node_types)


def _index(subject: str, given: object, names: Sequence[str]) -> int:
    """Return the index of a type, which is given by it or by name."""
    if type(given) is int and 0 <= given < len(names):
        return given
    if isinstance(given, str) and given in names:
        return names.index(given)
    raise Unacceptable(f"{subject} must be 0 to {len(names) - 1} or a name, one of {', '.join(names)}; given another")


def _places(nodes: Sequence[object]) -> Mapping[Any, int] | None:
    """Return the places of nodes by their ids, or None if they have none."""
    ids = [node["id"] for node in nodes if isinstance(node, dict) and "id" in node]
    if not ids:
        return None
    places = {one: place for place, one in enumerate(ids) if type(one) in (int, str)}
    if len(places) < len(nodes):
        raise Unacceptable("nodes: each must have an id of its own, a number or a string, or none an id")
    return places


def _edge(edge: object, places: Mapping[Any, int] | None, count: int, rule: GraphRule) -> tuple[int, int, int]:
    """Return the places of an edge's ends, and its type."""
    kind: object = 0 if len(rule.edge_types) == 1 else None
    if isinstance(edge, dict) and edge.keys() >= set(ENDS):
        ends, kind = [edge[end] for end in ENDS], edge.get("type", kind)
    elif isinstance(edge, list) and len(edge) in (2, 3):
        ends, kind = edge[:2], edge[2] if len(edge) == 3 else kind
    else:
        raise Unacceptable('edges: each must be [from, to], [from, to, type] or {"source": ..., "target": ...}')
    found = [_place(end, places, count) for end in ends]
    return found[0], found[1], _index("edges: the type of each", kind, rule.edge_types)


def _place(end: object, places: Mapping[Any, int] | None, count: int) -> int:
    if type(end) is int and places is None and 0 <= end < count:
        return end
    if type(end) in (int, str) and places is not None and end in places:
        return places[end]
    of = f"nodes from 0 to {count - 1}" if places is None else "ids of nodes"
    raise Unacceptable(f"edges: must lead from and to {of}, given another")
