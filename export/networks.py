"""The sources of the bundled models of graphs: the types of nodes and edges that they know."""

from contract.input_rules import GraphRule
from export.plan import Source
from export.tasks.graphs import graphormer_model, path_model
from export.trained import made_by, trained
from model.architectures.graph_transformer_network import GRAPH_TRANSFORMER_NETWORK_SIZES, GraphTransformerNetwork
from model.architectures.graphormer import GRAPHORMER_SIZES, Graphormer
from model.vocabularies import COLOURED_NODES, LINKED_NODES, LINKING_PATHS, NODE_COLOURS, PLAIN, RELATIONS

MOST_NODES, MOST_EDGES = 128, 2048
"""Of a graph of the bundled models."""


def graphs_graphormer() -> Source:
    """Return the classifier of graphs by the colour of the node that is three edges away from the marked one."""
    name = "graphs-graphormer"
    config, model = GRAPHORMER_SIZES[name], trained(name, Graphormer)
    return graphormer_model(
        name,
        model,
        config,
        task="graph-classification",
        graph=GraphRule(
            node_types=COLOURED_NODES, edge_types=("edge",), nodes=config.nodes, edges=MOST_EDGES,
            virtual=True, plain=PLAIN,
        ),
        labels=NODE_COLOURS,
        made_by=made_by(name, config),
    )  # fmt: skip


def graphs_gtn() -> Source:
    """Return the classifier of graphs by the relations that lead from the start to the end."""
    name = "graphs-gtn"
    config, model = GRAPH_TRANSFORMER_NETWORK_SIZES[name], trained(name, GraphTransformerNetwork)
    return path_model(
        name,
        model,
        config,
        task="graph-classification",
        graph=GraphRule(
            node_types=LINKED_NODES, edge_types=RELATIONS, nodes=MOST_NODES, edges=MOST_EDGES,
            directed=True, plain=PLAIN,
        ),
        labels=tuple(f"{RELATIONS[first]}, {RELATIONS[second]}" for first, second in LINKING_PATHS),
        made_by=made_by(name, config),
    )  # fmt: skip
