"""Graphormer (Ying et al. 2021, "Do Transformers Really Perform Badly for Graph Representation?")."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.parts.attention import Context, Maps, Recall, under, visible_keys
from model.parts.blocks import PreNormBlock, Stack
from model.parts.graphs import Centrality, PathBias, adjacency
from model.parts.heads import FirstLinear, head_width
from model.parts.stacks import BlockSizes


@dataclass(frozen=True)
class GraphormerConfig(BlockSizes):
    """Sizes of a Graphormer; `nodes` is the most of a graph, of which there are `node_types` and `edge_types`.

    Distances up to `farthest` edges, and up to `degree` neighbours, are told apart. `hidden`, the width inside the
    feed-forward, is `width` in the paper.
    """

    nodes: int
    node_types: int
    edge_types: int
    degree: int
    farthest: int
    width: int
    layers: int
    heads: int
    hidden: int
    classes: int
    activation: str = "gelu"
    epsilon: float = 1e-5


GRAPHORMER_SIZES = {
    "graphs-graphormer": GraphormerConfig(
        nodes=128, node_types=6, edge_types=1, degree=8, farthest=5, width=32, layers=2, heads=4, hidden=32, classes=4
    )
}


class Graphormer(nn.Module):
    """A virtual node and the nodes of a graph, an encoder whose scores are told of their paths, and a head."""

    def __init__(
        self, nodes: nn.Embedding, centrality: Centrality, paths: PathBias, encoder: Stack, head: nn.Module
    ) -> None:
        super().__init__()
        self.nodes = nodes
        self.centrality = centrality
        self.paths = paths
        self.encoder = encoder
        self.head = head
        self.virtual_node = nn.Parameter(torch.zeros(1, 1, nodes.embedding_dim))

    @property
    def width(self) -> int:
        """How many numbers the head returns for a graph."""
        return head_width(self.head, self.nodes.embedding_dim)

    def forward(
        self, nodes: Tensor, edges: Tensor, visible: Tensor, recalls: Sequence[Recall] | None = None
    ) -> tuple[Tensor, Maps]:
        """Return the head's answer, and the encoder's maps, in which the virtual node stands first.

        nodes (batch, node) are types, edges (batch, type, node, node) as in `parts/graphs.py`, and visible (batch,
        node) is False on padding.
        """
        x = self.nodes(nodes) + self.centrality(adjacency(edges, self.virtual_node.dtype))  # equation 5
        x = torch.cat((self.virtual_node.expand(x.shape[0], -1, -1), x), dim=1)  # (batch, 1 + node, width)
        shown = torch.cat((torch.ones_like(visible[:, :1]), visible), dim=1)
        x, maps = self.encoder(x, Context(visible_keys(shown), self.paths(edges)), recalls)
        return self.head(x), under("encoder", maps)


def graphormer(config: GraphormerConfig, head: nn.Module | None = None) -> Graphormer:
    """Compose a Graphormer of the given sizes with freshly initialised weights; by default it classifies graphs.

    All layers share one bias, and each is x + f(norm(x)) (equations 8 and 9). What is read is the virtual node's state.
    """
    return Graphormer(
        nodes=nn.Embedding(config.node_types, config.width),
        centrality=Centrality(config.degree, config.width),
        paths=PathBias(config.heads, config.edge_types, config.farthest, config.nodes),
        encoder=Stack(config.blocks(PreNormBlock), config.norm()),
        head=head or FirstLinear(config.width, config.classes),
    )
