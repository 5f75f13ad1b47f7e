"""Graphs: how far apart nodes are, how many neighbours they have, and which edges lie between them.

The edges of a graph are (batch, type, node, node), True where an edge of a type leads from one node (row) to another
(column). An edge without a direction leads both ways. Nodes of padding have no edges. No order of the nodes is used, so
that to number them otherwise changes nothing but the order of what is returned.
"""

import torch
from torch import Tensor, nn


def adjacency(edges: Tensor, dtype: torch.dtype) -> Tensor:
    """Return (batch, node, node), 1 where an edge of any type leads from row to column, else 0."""
    return edges.any(dim=1).to(dtype)


def same_node(edges: Tensor, dtype: torch.dtype) -> Tensor:
    """Return (node, node), 1 on the diagonal, else 0."""
    index = torch.arange(edges.shape[-1], device=edges.device)
    return (index[:, None] == index).to(dtype)


def distances(adjacent: Tensor, same: Tensor, farthest: int, nodes: int) -> Tensor:
    """Return the number of edges on a shortest path from row to column, (batch, node, node).

    It is `farthest` + 1 for all that are farther, and `farthest` + 2 where no path leads. A graph has at most `nodes`.
    """
    step = adjacent + same
    reached = same.expand_as(adjacent)  # in at most as many steps as were taken
    found = torch.zeros_like(adjacent, dtype=torch.long)
    for _ in range(farthest + 1):
        found = found + (reached == 0).long()
        reached = (reached @ step > 0).to(step.dtype)
    for _ in range(nodes.bit_length()):  # each doubles the steps
        reached = (reached @ reached > 0).to(step.dtype)
    return found + (reached == 0).long()


class Centrality(nn.Module):
    """z⁻ + z⁺: a vector for how many nodes lead to a node, and one for how many it leads to.

    Ying et al. 2021, "Do Transformers Really Perform Badly for Graph Representation?", equation 5. Those with `most`
    neighbours or more share a vector.
    """

    def __init__(self, most: int, width: int) -> None:
        super().__init__()
        self.most = most
        self.arriving = nn.Embedding(most + 1, width)
        self.leaving = nn.Embedding(most + 1, width)

    def forward(self, adjacent: Tensor) -> Tensor:
        """Take adjacent (batch, node, node) -> (batch, node, width)."""
        arriving, leaving = (adjacent.sum(dim).long().clamp(max=self.most) for dim in (1, 2))
        return self.arriving(arriving) + self.leaving(leaving)


class PathBias(nn.Module):
    """b + c: for each head a number of the distance, and one of the edges (Ying et al. 2021, equations 6 and 7).

    c is the mean, over the edges of a shortest path of at most `farthest`, of wₙ ∙ x, where x is 1 for each type that
    the nth edge has. Of several shortest paths the mean is taken; the authors' code takes any one, which depends on how
    nodes are numbered. The virtual node stands before the others, at a distance of its own (section 3.2).
    """

    def __init__(self, heads: int, types: int, farthest: int, nodes: int) -> None:
        super().__init__()
        self.farthest, self.nodes = farthest, nodes
        self.distance = nn.Embedding(farthest + 4, heads)  # also of farther nodes, of none that leads there, of virtual
        self.edges = nn.Parameter(torch.empty(farthest, types, heads))
        nn.init.normal_(self.distance.weight, std=0.02)
        nn.init.normal_(self.edges, std=0.02)

    def forward(self, edges: Tensor) -> Tensor:
        """Take edges (batch, type, node, node) -> (batch, heads, 1 + node, 1 + node)."""
        dtype = self.edges.dtype
        adjacent, same = adjacency(edges, dtype), same_node(edges, dtype)
        apart = distances(adjacent, same, self.farthest, self.nodes)
        bias = self.distance(_behind_virtual(apart, self.farthest + 3)).movedim(-1, 1)  # (batch, heads, query, key)
        return bias + _behind_virtual(self._along(edges.to(dtype), adjacent[:, None], same, apart[:, None]), 0)

    def _along(self, edges: Tensor, adjacent: Tensor, same: Tensor, apart: Tensor) -> Tensor:
        """Return c (batch, heads, node, node).

        A walk of as many steps as the distance is a shortest path. `walks` counts those of n steps, and `summed` is the
        sum of w ∙ x over their edges: M(n) = M(n - 1) A + Aⁿ⁻¹ (wₙ ∙ x).
        """
        walks = same.expand_as(adjacent)
        summed = found = torch.zeros_like(adjacent)
        for steps, weight in enumerate(self.edges, 1):
            last = (edges.movedim(1, -1) @ weight).movedim(-1, 1)  # (batch, heads, node, node)
            summed = summed @ adjacent + walks @ last
            walks = walks @ adjacent
            found = found + torch.where(apart == steps, summed / (steps * walks.clamp(min=1)), 0)
        return found


def _behind_virtual(x: Tensor, value: int) -> Tensor:
    """Put a row and a column of a value before those of x (..., node, node)."""
    x = torch.cat((torch.full_like(x[..., :1], value), x), dim=-1)
    return torch.cat((torch.full_like(x[..., :1, :], value), x), dim=-2)
