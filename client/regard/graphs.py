"""Graphs as they are sent: JSON in either form of the service, and what networkx holds."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from regard.errors import BadInput
from regard.fetching import Readable
from regard.plain import plain


@runtime_checkable
class Network(Protocol):
    """What `networkx.Graph` and its classes are. networkx itself is not needed."""

    @property
    def nodes(self) -> Any:  # noqa: ANN401 # networkx has no types
        """The nodes; `nodes(data=True)` has their attributes."""

    @property
    def edges(self) -> Any:  # noqa: ANN401 # as above
        """The edges; `edges(data=True)` has their attributes."""

    def is_directed(self) -> bool:
        """True if edges lead one way."""


Graph: TypeAlias = Mapping[str, Any] | Network | str | os.PathLike[str] | bytes | Readable
"""A dictionary, a graph of networkx, or a file of JSON: its path or address, its bytes, or open.

The dictionary is `{"nodes": [0, "plain"], "edges": [[0, 1], [1, 2, "likes"]]}` or what `networkx.node_link_data`
returns. Types of nodes and edges are numbers or names; networkx has them in the attribute `type`.
"""
Json: TypeAlias = Mapping[str, Any]


def graph_of(given: object) -> Json:
    """Return a graph as JSON has it. Raises BadInput for what is none."""
    if isinstance(given, bytes | bytearray | memoryview):
        given = _parsed(bytes(given))
    if isinstance(given, Network):
        given = _node_link(given)
    if not isinstance(given, Mapping):
        raise BadInput(
            "graph: must be a dictionary, a graph of networkx, or a file of JSON for this model, "
            f"given {type(given).__name__}"
        )
    if "nodes" not in given:
        raise BadInput("graph: must have nodes")
    found: Json = plain(given)
    try:
        json.dumps(found, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BadInput(f"graph: must be of what JSON holds: {error}") from error
    return found


def _parsed(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError as error:
        raise BadInput(f"graph: a file must be JSON: {error}") from error


def _node_link(graph: Network) -> Json:
    """Return a graph of networkx in its node-link form: types alone, and places as ids, since nodes may be anything."""
    places = {node: place for place, node in enumerate(graph.nodes)}
    ends: Iterable[tuple[Any, Any, Json]] = graph.edges(data=True)
    return {
        "directed": graph.is_directed(),
        "nodes": [{"id": places[node], **_type(data)} for node, data in graph.nodes(data=True)],
        "edges": [{"source": places[one], "target": places[other], **_type(data)} for one, other, data in ends],
    }


def _type(data: Json) -> Json:
    return {name: value for name, value in data.items() if name == "type"}
