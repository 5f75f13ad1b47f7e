"""A builder that appends nodes to an ONNX graph, branches included."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


class Builder:
    """Appends nodes to a graph. Every name that it makes begins with its prefix."""

    def __init__(self, model: onnx.ModelProto, prefix: str) -> None:
        self.graph = model.graph
        self._opsets: Any = model.opset_import
        self._prefix = prefix
        self._made = 0
        self._nodes: Any = model.graph.node  # those of the branch that is being built

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:  # noqa: ANN401 # whatever an attribute may be
        """Add a node and return the name of its output."""
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:  # noqa: ANN401 # as above
        """Add a node of several outputs and return their names."""
        names = [self._name() for _ in range(count)]
        domain = attributes.get("domain", "")
        if all(known.domain != domain for known in self._opsets):
            self._opsets.append(helper.make_opsetid(domain, 1))
        self._nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike = np.int64) -> str:
        """Add a constant and return its name."""
        name = self._name()
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def zeros(self, shape: str) -> str:
        """Return float32 zeros of a shape, which is itself a tensor."""
        return self.op("ConstantOfShape", shape, value=numpy_helper.from_array(np.zeros(1, np.float32)))

    def empty(self, *shape: int) -> str:
        """Return an empty tensor: one length of the shape is 0."""
        return self.zeros(self.constant(shape))

    def as_float32(self, x: str) -> str:
        """Cast a tensor to float32, the type of all reductions."""
        return self.op("Cast", x, to=FLOAT)

    def length(self, x: str, axis: int) -> str:
        """Return the length of an axis."""
        return self.op("Gather", self.op("Shape", x), self.constant(axis))

    def one_hot(self, index: str, length: str) -> str:
        """Return (..., length), float32: 1 at each index, 0 elsewhere."""
        return self.op("OneHot", index, length, self.constant([0, 1], np.float32), axis=-1)

    def reduce(self, kind: str, x: str, axis: int, *, keep: bool = True) -> str:
        """Reduce over one axis."""
        return self.op(kind, x, self.constant([axis]), keepdims=int(keep))

    def branch(self, condition: str, yes: Callable[[], Sequence[str]], no: Callable[[], Sequence[str]]) -> list[str]:
        """Run one of two parts of the graph. Both return the same number of float32 tensors."""
        bodies = {"then_branch": self._body(yes), "else_branch": self._body(no)}
        return self.ops("If", len(bodies["then_branch"].output), condition, **bodies)

    def adopt(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Add nodes that were made elsewhere, such as in the graph around a branch."""
        self._nodes.extend(nodes)

    def output(self, name: str, x: str, dtype: int, axes: Sequence[int | str]) -> None:
        """Make a tensor an output of the graph, under a name."""
        self._nodes.append(helper.make_node("Identity", [x], [name]))
        self.graph.output.append(helper.make_tensor_value_info(name, dtype, list(axes)))

    def reads(self, name: str) -> bool:
        """Return whether a node of the graph reads a tensor."""
        return any(name in node.input for node in self.graph.node)

    def begin(self, kind: str, inputs: Sequence[str], output: str) -> None:
        """Make a tensor before all that is there, which reads it under this name."""
        self.graph.node.insert(0, helper.make_node(kind, inputs, [output]))

    def input(self, name: str, dtype: int, axes: Sequence[int | str]) -> str:
        """Add an input to the graph and return its name."""
        self.graph.input.append(helper.make_tensor_value_info(name, dtype, list(axes)))
        return name

    def _body(self, make: Callable[[], Sequence[str]]) -> onnx.GraphProto:
        outside, self._nodes = self._nodes, []
        try:
            # a branch must return tensors of its own
            made = [self.op("Identity", name) for name in make()]
            outputs = [helper.make_tensor_value_info(name, FLOAT, None) for name in made]
            return helper.make_graph(self._nodes, self._name(), [], outputs)
        finally:
            self._nodes = outside

    def _name(self) -> str:
        self._made += 1
        return f"{self._prefix}{self._made}"
