"""Models of graphs. A virtual node is the first of the inputs; the definition has one of its own."""

from torch import Tensor

from export.traced.base import Observed, Traced, values_of
from model.architectures.graph_transformer_network import GraphTransformerNetwork
from model.architectures.graphormer import Graphormer
from model.parts.attention import KeyValue
from model.parts.cache import recording


class TracedGraphormer(Traced):
    """A Graphormer: types of nodes (batch, node), node_visible and edges -> the answer of its head."""

    model: Graphormer
    stacks = ("encoder",)

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        nodes, visible, edges = _own_edges(*inputs)
        recorded: list[KeyValue] = []
        recalls = [recording(recorded)] * len(self.kinds[0].maps)
        answer, maps = self.model(nodes[:, 1:], edges[:, :, 1:, 1:], visible[:, 1:], recalls)
        return Observed(answer, self.by_kind(maps), [values_of(recorded)])


class TracedGraphTransformerNetwork(Traced):
    """A Graph Transformer Network: types of nodes (batch, node), node_visible and edges -> the answer of its head."""

    model: GraphTransformerNetwork

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, the paths of each layer, and the states that the last of them weigh."""
        nodes, visible, edges = _own_edges(*inputs)
        answer, maps = self.model(nodes, edges, visible)
        (paths,) = self.by_kind(maps)
        states = self.model.convolution(self.model.nodes(nodes))[:, None].expand(-1, paths[0].shape[1], -1, -1)
        return Observed(answer, [paths], [[states] * len(paths)])


def _own_edges(nodes: Tensor, visible: Tensor, edges: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same without edges of padding."""
    return nodes, visible, edges & visible[:, None, :, None] & visible[:, None, None, :]
