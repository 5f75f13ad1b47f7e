"""Graphs whose class is known from how they were drawn, and the nodes that tell it.

The class of a coloured graph is told by distances alone, that of a linked one by paths alone: which types of nodes
there are, how many neighbours they have, and how many edges of each type say nothing of it.
"""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.parts.graphs import adjacency, distances, same_node
from model.vocabularies import COLOURED_NODES, LINKED_NODES, LINKING_PATHS, NODE_COLOURS, PLAIN, RELATIONS

MARKED = COLOURED_NODES.index("marked")
FIRST_COLOUR = COLOURED_NODES.index(NODE_COLOURS[0])
AWAY = (2, 3, 4)  # how many edges lie between the marked node and each of the coloured ones
ASKED = 1  # which of them is asked for

START, END = map(LINKED_NODES.index, ("start", "end"))
EACH = 4  # edges of each relation that leave the start, and that arrive at the end


@dataclass(frozen=True)
class Graph:
    """A graph, its class, and the nodes that tell it."""

    nodes: Tensor
    """Types (node)."""
    edges: Tensor
    """(type, node, node), True where an edge leads from row to column."""
    label: int
    truth: tuple[int, ...]


def padded(graphs: Sequence[Graph]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what models take of a batch: nodes, edges and what is visible of them; and the classes."""
    size = max(len(one.nodes) for one in graphs)
    rest = [size - len(one.nodes) for one in graphs]
    nodes = torch.stack(
        [torch.cat((one.nodes, one.nodes.new_zeros(more))) for one, more in zip(graphs, rest, strict=True)]
    )
    edges = torch.stack(
        [torch.nn.functional.pad(one.edges, (0, more, 0, more)) for one, more in zip(graphs, rest, strict=True)]
    )
    visible = torch.arange(size) < torch.tensor([len(one.nodes) for one in graphs])[:, None]
    return nodes, edges, visible, torch.tensor([one.label for one in graphs])


def coloured_graph(rng: random.Random) -> Graph:
    """Return a graph with a marked node, whose class is the colour of the node three edges away from it.

    Two others are coloured, two and four edges away. All three have equally many neighbours and colours of their own:
    who is not told of distances is right once in three times.
    """
    while True:
        count = rng.randint(10, 20)
        linked = torch.zeros(count, count, dtype=torch.bool)
        _tree(rng, linked, range(count))
        for _ in range(rng.randint(0, 2)):
            _link(linked, *rng.sample(range(count), 2))
        edges = linked[None, None]
        apart = distances(adjacency(edges, torch.float32), same_node(edges, torch.float32), max(AWAY), count)[
            0
        ].tolist()
        degree = linked.sum(0).tolist()
        marked = rng.randrange(count)
        rings = [[node for node in range(count) if apart[marked][node] == far] for far in AWAY]
        shared = set.intersection(*({degree[node] for node in ring} for ring in rings))
        if not shared:
            continue
        neighbours = rng.choice(sorted(shared))
        chosen = [rng.choice([node for node in ring if degree[node] == neighbours]) for ring in rings]
        colours = rng.sample(range(len(NODE_COLOURS)), len(AWAY))
        nodes = torch.full((count,), PLAIN)
        nodes[marked] = MARKED
        nodes[chosen] = torch.tensor(colours) + FIRST_COLOUR
        return Graph(nodes, edges[0], colours[ASKED], (chosen[ASKED],))


def linked_graph(rng: random.Random) -> Graph:
    """Return a graph with a start and an end, whose class is which of `LINKING_PATHS` links them.

    As many edges of each relation leave the start, and as many arrive at the end, so that only which of them meet tells
    the class. All other edges lead away, to nodes that do not lead to the end.
    """
    middles = EACH * len(RELATIONS)
    while True:
        leaving, arriving = ([*range(len(RELATIONS))] * EACH for _ in range(2))
        rng.shuffle(leaving)
        rng.shuffle(arriving)
        told = [middle for middle, path in enumerate(zip(leaving, arriving, strict=True)) if path in LINKING_PATHS]
        if len(told) == 1:
            break
    beside = rng.randint(1, 4)
    order = rng.sample(range(2 + middles + beside), 2 + middles + beside)
    (start, end), between, others = order[:2], order[2 : 2 + middles], order[2 + middles :]
    edges = torch.zeros(len(RELATIONS), len(order), len(order), dtype=torch.bool)
    for node, relation, next_relation in zip(between, leaving, arriving, strict=True):
        edges[relation, start, node] = edges[next_relation, node, end] = True
    for _ in range(rng.randint(4, 12)):
        edges[rng.randrange(len(RELATIONS)), rng.choice(between + others), rng.choice(others)] = True
    nodes = torch.full((len(order),), PLAIN)
    nodes[start], nodes[end] = START, END
    (middle,) = told
    return Graph(nodes, edges, LINKING_PATHS.index((leaving[middle], arriving[middle])), (between[middle],))


def cyclic_graph(rng: random.Random) -> Graph:
    """Return a graph of plain nodes whose class is whether it has a cycle.

    It has one to three parts, each a tree, of which an edge more may close a cycle: its class is told by the numbers of
    nodes, edges and parts together, and by no two of them.
    """
    sizes = [rng.randint(4, 8) for _ in range(rng.randint(1, 3))]
    count, label = sum(sizes), rng.randrange(2)
    order = rng.sample(range(count), count)
    parts = [order[end - size : end] for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)]
    linked = torch.zeros(count, count, dtype=torch.bool)
    for part in parts:
        _tree(rng, linked, part)
    if label:
        _link(linked, *rng.choice([pair for pair in itertools.combinations(parts[0], 2) if not linked[pair]]))
    return Graph(torch.full((count,), PLAIN), linked[None], label, _on_cycles(linked))


def _tree(rng: random.Random, linked: Tensor, nodes: Sequence[int]) -> None:
    """Link each of the nodes to one of those shortly before it."""
    for place in range(1, len(nodes)):
        _link(linked, nodes[place], nodes[rng.randrange(max(0, place - 4), place)])


def _link(linked: Tensor, one: int, other: int) -> None:
    linked[one, other] = linked[other, one] = True


def _on_cycles(linked: Tensor) -> tuple[int, ...]:
    """Return the nodes that are left when those with at most one neighbour are taken away, again and again."""
    for _ in range(len(linked)):
        kept = linked.sum(0) > 1
        linked = linked & kept & kept[:, None]
    return tuple(linked.any(0).nonzero()[:, 0].tolist())
