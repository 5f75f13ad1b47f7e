"""The plans of models that classify or embed graphs."""

import dataclasses
from typing import Any

from contract.input_rules import EDGES, NODES, GraphRule
from contract.manifest import Kind, Port, Scores, Task
from export.plan import Source
from export.tasks.ports import (
    MAX_VERIFIED_TOKENS,
    answer_port,
    base_plan,
    derived_plans,
    encoder_kind,
    token_port,
    visible_port,
)
from export.traced.graphs import TracedGraphormer, TracedGraphTransformerNetwork
from model.architectures.graph_transformer_network import GraphTransformerNetwork, GraphTransformerNetworkConfig
from model.architectures.graphormer import Graphormer, GraphormerConfig


def graphormer_model(
    name: str,
    model: Graphormer,
    config: GraphormerConfig,
    *,
    task: Task,
    graph: GraphRule,
    made_by: dict[str, Any],
    labels: tuple[str, ...] = (),
    scores: Scores = "softmax",
) -> Source:
    """Plan the graphs of a Graphormer that classifies graphs or embeds them; its `graph` has a virtual node."""
    traced = TracedGraphormer(model, (encoder_kind(config.layers, config.heads, NODES, prefix=1),))
    return _source(name, traced, config.width, "graphormer", task, graph, made_by, labels, scores)


def path_model(
    name: str,
    model: GraphTransformerNetwork,
    config: GraphTransformerNetworkConfig,
    *,
    task: Task,
    graph: GraphRule,
    made_by: dict[str, Any],
    labels: tuple[str, ...] = (),
    scores: Scores = "softmax",
) -> Source:
    """Plan the graphs of a Graph Transformer Network. Its maps are paths; it has no blocks, whose states would be
    explained."""
    kind = Kind(
        name="path",
        kind="encoder",
        maps=tuple(f"layers.{layer}" for layer in range(config.layers)),
        heads=config.channels,
        query=NODES,
        key=NODES,
        normalized=False,  # a row of a node that no path leaves is 0
        methods=("raw",),
        pooled="all",
    )
    traced = TracedGraphTransformerNetwork(model, (kind,))
    width = config.channels * config.width
    return _source(name, traced, width, "graph-transformer-network", task, graph, made_by, labels, scores)


def _source(
    name: str,
    traced: TracedGraphormer | TracedGraphTransformerNetwork,
    width: int,
    family: str,
    task: Task,
    graph: GraphRule,
    made_by: dict[str, Any],
    labels: tuple[str, ...],
    scores: Scores,
) -> Source:
    edges = Port(name=EDGES, dtype="bool", axes=("batch", len(graph.edge_types), NODES, NODES))
    ports = (token_port(NODES), visible_port(NODES), edges)
    answer = answer_port(traced.model, task, "batch")
    base = base_plan(traced, ports, (answer,), {}, width, {NODES: len(graph.node_types)})
    base = dataclasses.replace(base, attentions=len(traced.attentions))  # selections are the same for every input
    least, long = 1 + graph.virtual, min(graph.most_tokens, MAX_VERIFIED_TOKENS)
    return Source(
        name=name,
        family=family,
        task=task,
        labels=labels,
        scores=scores,
        inputs=(graph,),
        traced=traced,
        base=base,
        plans=derived_plans(traced, base, {}),
        attention=traced.kinds,
        made_by=made_by,
        traced_at={"batch": 4, NODES: 7},
        verified_at=({"batch": 1, NODES: least}, {"batch": 2, NODES: min(13, long)}, {"batch": 3, NODES: long}),
        verified_longest={"batch": 1, NODES: graph.most_tokens},
    )
