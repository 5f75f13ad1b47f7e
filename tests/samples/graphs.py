"""Small graphs, and what is known of them by walking along their edges one after the other."""

import itertools

import numpy as np
import torch

TYPES = 3
"""Of edges."""
NODE_TYPES = 4
LARGEST = 9
SIZES = (LARGEST, 6, 1)
"""Nodes of the graphs of a batch."""


def batch():
    """Nodes (batch, node), edges (batch, type, node, node) and visible (batch, node) of graphs padded to one size.

    They have loops, several edges between two nodes, several shortest paths, and nodes that no path leads to.
    """
    random = torch.Generator().manual_seed(5)
    visible = torch.arange(LARGEST) < torch.tensor(SIZES)[:, None]
    edges = torch.rand(len(SIZES), TYPES, LARGEST, LARGEST, generator=random) < 0.09
    edges &= visible[:, None, :, None] & visible[:, None, None, :]
    edges[0, 0, 2, 2] = edges[1, 1, 0, 1] = edges[1, 2, 0, 1] = True
    return torch.randint(NODE_TYPES, visible.shape, generator=random), edges, visible


def alone(given, index):
    """Return one graph of a batch, without its padding."""
    nodes, edges, visible = given
    size = SIZES[index]
    one = slice(index, index + 1)
    return nodes[one, :size], edges[one, :, :size, :size], visible[one, :size]


def renumbered(given, order):
    """Return a batch whose nodes stand in another order."""
    nodes, edges, visible = given
    return nodes[:, order], edges[:, :, order][:, :, :, order], visible[:, order]


def shortest_paths(edges):
    """Return all shortest paths from each node to each that they lead to, as lists of nodes: {(from, to): paths}.

    edges (type, node, node) of one graph.
    """
    after = [np.flatnonzero(row) for row in np.asarray(edges).any(0)]
    found = {}
    for start in range(len(after)):
        found[start, start] = [[start]]
        new = {start: [[start]]}
        while new:
            longer = {}
            for node, paths in new.items():
                for path, other in itertools.product(paths, after[node].tolist()):
                    if (start, other) not in found:
                        longer.setdefault(other, []).append([*path, other])
            found |= {(start, node): paths for node, paths in longer.items()}
            new = longer
    return found
