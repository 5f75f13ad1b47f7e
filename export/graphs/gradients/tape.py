"""A builder that also knows the shapes, types and gradients of a graph's tensors; and what a rule of a gradient is."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from export.errors import ExportError
from export.graphs.editing.builder import Builder

Shape: TypeAlias = tuple[int | str | None, ...]


class Tape(Builder):
    """A builder that also knows the shapes, types and gradients of a graph's tensors."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model, "gradient.")
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
        known = {one.name: one.type.tensor_type for one in (*inferred.value_info, *inferred.input, *inferred.output)}
        self.shapes = {name: _shape(kind) for name, kind in known.items()}
        self.types = {name: kind.elem_type for name, kind in known.items()}
        self.shapes |= {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
        self.types |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
        self.weights = {tensor.name for tensor in model.graph.initializer}
        self.gradients: dict[str, str] = {}
        self.dependent: set[str] = set()
        """The tensors that gradients flow through: what is wanted, and what depends on it."""

    def number(self, value: float, like: str) -> str:
        """Add a constant with the type of another tensor."""
        return self.constant(value, helper.tensor_dtype_to_np_dtype(self.types[like]))

    def is_real(self, name: str) -> bool:
        """True unless a tensor is known to hold integers or truth values, through which no gradient flows."""
        kind = self.types.get(name, onnx.TensorProto.FLOAT)
        return kind == onnx.TensorProto.BFLOAT16 or bool(
            np.issubdtype(helper.tensor_dtype_to_np_dtype(kind), np.floating)
        )

    def known_value(self, name: str) -> npt.NDArray[Any] | None:
        """Return the value of a tensor, None if it is not constant."""
        for node in self.graph.node:
            if node.op_type == "Constant" and node.output[0] == name:
                return numpy_helper.to_array(attributes_of(node)["value"])
        for tensor in self.graph.initializer:
            if tensor.name == name:
                return numpy_helper.to_array(tensor)
        return None

    def constant_value(self, name: str) -> npt.NDArray[Any]:
        """Return the value of a tensor. Raises ExportError if it is not constant."""
        value = self.known_value(name)
        if value is None:
            raise ExportError("gradient: an axis or an exponent that is not constant has no gradient here")
        return value

    def consumers(self, name: str) -> list[onnx.NodeProto]:
        """Return the nodes that read a tensor."""
        return [node for node in self.graph.node if name in node.input]

    def transposed(self, x: str) -> str:
        """Transpose the last two axes."""
        rank = len(self.shapes[x])
        return self.op("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])

    def add(self, name: str, gradient: str) -> None:
        """Add a term to the gradient of a tensor."""
        before = self.gradients.get(name)
        self.gradients[name] = gradient if before is None else self.op("Add", before, gradient)


Rule: TypeAlias = Callable[[Tape, onnx.NodeProto, str, int], str]
"""A function of the tape, a node, the gradient of its output and the index of an input: the gradient of that input."""


def _shape(kind: onnx.TypeProto.Tensor) -> Shape:
    return tuple(
        one.dim_value if one.HasField("dim_value") else one.dim_param if one.HasField("dim_param") else None
        for one in kind.shape.dim
    )


def attributes_of(node: onnx.NodeProto) -> Mapping[str, Any]:
    """Return the attributes of a node by name."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
