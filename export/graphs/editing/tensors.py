"""What makes and what reads each tensor of a graph: the base of what finds patterns in it."""

from collections import defaultdict

import onnx


class Tensors:
    """The nodes of a graph by the tensors that they make and read, as they are when it is built."""

    def __init__(self, graph: onnx.ModelProto) -> None:
        self.producers = {name: node for node in graph.graph.node for name in node.output}
        self.users: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in graph.graph.node:
            for name in node.input:
                self.users[name].append(node)
        self.weights = {tensor.name: tensor for tensor in graph.graph.initializer}
        self.outputs = {value.name for value in graph.graph.output}

    def producer(self, kind: str, name: str) -> onnx.NodeProto | None:
        """Return the node of a kind that makes a tensor; None if another makes it."""
        node = self.producers.get(name)
        return node if node is not None and node.op_type == kind else None

    def only_user(self, kind: str, name: str) -> onnx.NodeProto | None:
        """Return the node of a kind that alone reads a tensor, which is not returned; None if there is no such node."""
        users = self.users[name]
        return users[0] if len(users) == 1 and users[0].op_type == kind and name not in self.outputs else None

    def linear(self, name: str) -> tuple[onnx.NodeProto, str] | None:
        """Return the product and the bias of the linear layer x W + b that makes a tensor; None if none does."""
        added = self.producer("Add", name)
        for product, bias in (added.input, reversed(added.input)) if added else ():
            node = self.producer("MatMul", product)
            if node and node.input[1] in self.weights and bias in self.weights:
                matrix = self.weights[node.input[1]].dims
                if len(matrix) == 2 and list(self.weights[bias].dims) == [matrix[1]]:
                    return node, bias
        return None


def permutation(node: onnx.NodeProto) -> list[int]:
    """Return the permutation of a Transpose; [] of another node."""
    return next((list(one.ints) for one in node.attribute if one.name == "perm"), [])
