"""Graph Transformer Networks, which compose paths of relations that they choose (Yun et al. 2019)."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.parts.attention import Maps, under
from model.parts.feed_forward import perceptron
from model.parts.graphs import same_node
from model.parts.heads import Pool, head_width


@dataclass(frozen=True)
class GraphTransformerNetworkConfig:
    """Sizes of a Graph Transformer Network, whose paths have at most one edge more than it has layers.

    It composes a path in each of its channels; `width` is that of states in one channel.
    """

    node_types: int
    edge_types: int
    channels: int
    layers: int
    width: int
    classes: int


GRAPH_TRANSFORMER_NETWORK_SIZES = {
    "graphs-gtn": GraphTransformerNetworkConfig(node_types=3, edge_types=4, channels=4, layers=1, width=16, classes=4)
}


class SoftSelection(nn.Module):
    """Q = Σ softmax(W) A: a mean of relations with weights that each channel learns (Yun et al. 2019, section 3.2).

    The first relation is to stay, by which a path can be shorter.
    """

    def __init__(self, channels: int, relations: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, relations))

    def shares(self) -> Tensor:
        """Return how much each channel takes of each relation, (channels, relations); rows sum to one."""
        return self.weight.softmax(dim=-1)

    def forward(self, relations: Tensor) -> Tensor:
        """Take relations (batch, relation, node, node) -> (batch, channels, node, node)."""
        chosen = self.shares() @ relations.flatten(2)
        return chosen.reshape(*chosen.shape[:2], *relations.shape[2:])


class GraphTransformerLayer(nn.Module):
    """A' = D⁻¹ A Q: paths that go on by one edge (section 3.3)."""

    def __init__(self, selection: SoftSelection) -> None:
        super().__init__()
        self.selection = selection

    def forward(self, paths: Tensor, relations: Tensor) -> tuple[Tensor, Maps]:
        """Take paths (batch, channels, node, node) -> the same shape, which is also the map.

        A row says to which nodes a node's paths lead: it sums to one, or is 0 where none leads anywhere.
        """
        longer = _by_degree(paths @ self.selection(relations))
        return longer, {"": longer}


class GraphTransformerNetwork(nn.Module):
    """Compose paths, convolve the graph of each channel's paths, and pass the nodes' states to a head (section 3.3)."""

    def __init__(
        self,
        nodes: nn.Embedding,
        first: SoftSelection,
        layers: Iterable[GraphTransformerLayer],
        convolution: nn.Linear,
        head: nn.Module,
    ) -> None:
        super().__init__()
        self.nodes = nodes
        self.first = first
        self.layers = nn.ModuleList(layers)
        self.convolution = convolution
        self.head = head

    @property
    def width(self) -> int:
        """How many numbers the head returns for a graph."""
        return head_width(self.head, len(self.first.weight) * self.convolution.out_features)

    def forward(self, nodes: Tensor, edges: Tensor, visible: Tensor) -> tuple[Tensor, Maps]:
        """Return the head's answer, and each layer's paths as maps.

        nodes (batch, node) are types, edges (batch, type, node, node) as in `parts/graphs.py`, and visible (batch,
        node) is False on padding.
        """
        x = self.convolution(self.nodes(nodes))[:, None]  # (batch, 1, node, width)
        same = same_node(edges, x.dtype)
        relations = torch.cat((same.expand_as(edges[:, :1]), edges.to(x.dtype)), dim=1)
        paths = self.first(relations)  # (batch, channels, node, node)
        maps: Maps = {}
        for index, layer in enumerate(self.layers):
            paths, found = layer(paths, relations)
            maps |= under(f"layers.{index}", found)
        states = torch.relu(_by_degree(paths + same) @ x)  # (batch, channels, node, width)
        return self.head(states.transpose(1, 2).flatten(2), visible), maps


def _by_degree(paths: Tensor) -> Tensor:
    """Divide rows by their sums, but those of zeros."""
    degree = paths.sum(dim=-1, keepdim=True)
    return paths / (degree + (degree == 0).to(degree.dtype))


def graph_transformer_network(
    config: GraphTransformerNetworkConfig, head: nn.Module | None = None
) -> GraphTransformerNetwork:
    """Compose a Graph Transformer Network of the given sizes with freshly initialised weights.

    By default it classifies graphs: the paper's two layers classify nodes, and here what is largest of all nodes.
    """

    def selection() -> SoftSelection:
        return SoftSelection(config.channels, 1 + config.edge_types)

    return GraphTransformerNetwork(
        nodes=nn.Embedding(config.node_types, config.width),
        first=selection(),
        layers=[GraphTransformerLayer(selection()) for _ in range(config.layers)],
        convolution=nn.Linear(config.width, config.width, bias=False),
        head=head or Pool("max", perceptron(config.channels * config.width, config.width, config.classes)),
    )
