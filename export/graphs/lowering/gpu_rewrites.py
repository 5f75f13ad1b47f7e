"""Rewrites of graphs in half floats to what a GPU runs in fewer and faster kernels, with the same results.

Of what a batch of a ViT takes on a GPU, a third goes to biases, sums, norms and activations, each of which reads and
writes all tokens. And for patches, cuDNN chooses a convolution that does not use the matrix units.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper, shape_inference

from export.graphs.editing.builder import Builder
from export.graphs.editing.cleanup import prune
from export.graphs.editing.tensors import Tensors, permutation
from export.graphs.lowering.decode_step import RUNTIME, fuse_step
from export.graphs.lowering.fusion import HEADS_FIRST, fuse_attention
from export.plan import Plan

Shape: TypeAlias = tuple[int | str, ...]
"""The lengths of the axes of a tensor, or their names; 0 where neither is known."""
SMALL_BYTES = 1024
"""Weights from this on are not read to infer shapes. (They may have been moved out of the graph.)"""
CHANNELS_FIRST, PATCHES_FIRST = [0, 3, 1, 2], [0, 2, 1]
"""The permutations (batch, row, column, channel) -> (batch, channel, row, column), and (batch, width, patch) -> (batch,
patch, width)."""
EACH_CHANNEL = ("Div", "Sub", "Mul", "Add")
"""Operators that normalize an image, with one number for each channel."""


def rewrite_for_gpus(graph: onnx.ModelProto, plan: Plan, folder: Path = Path()) -> onnx.ModelProto:
    """Return a graph with fused attention and norms, and without what need not be computed.

    Weights that were moved out of the graph are read from `folder`.
    """
    shapes = _shapes(graph)  # of tensors that stay: behind onnxruntime's own operators, none are inferred
    graph = fuse_step(graph, plan, half=True) if plan.role == "decode" else graph
    graph = fuse_attention(graph, plan)
    for rewrite in (_Biases, _Norms, _Patches, _Turns):
        rewrite(graph, shapes, folder).apply()
    return prune(graph, plan)


def _shapes(graph: onnx.ModelProto) -> dict[str, Shape]:
    """Return the shapes of tensors by name. Large weights are not copied."""
    bare = onnx.ModelProto(ir_version=graph.ir_version, opset_import=graph.opset_import)
    bare.graph.CopyFrom(onnx.GraphProto(name="bare", node=graph.graph.node, input=graph.graph.input))
    bare.graph.output.extend(graph.graph.output)
    for tensor in graph.graph.initializer:
        if tensor.raw_data and len(tensor.raw_data) < SMALL_BYTES:  # it may be a shape
            bare.graph.initializer.append(tensor)
        else:
            bare.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    inferred = shape_inference.infer_shapes(bare).graph.value_info
    named = {axis.dim_param for port in graph.graph.input for axis in port.type.tensor_type.shape.dim}
    return {  # inference makes up names of its own
        value.name: tuple(
            axis.dim_value or (axis.dim_param if axis.dim_param in named else 0)
            for axis in value.type.tensor_type.shape.dim
        )
        for value in inferred
    }


class _Rewrite(Tensors):
    """A pass over the nodes of a graph."""

    def __init__(self, graph: onnx.ModelProto, shapes: Mapping[str, Shape], folder: Path) -> None:
        super().__init__(graph)
        self.graph, self.shapes, self._folder = graph, shapes, folder
        self.b = Builder(graph, f"{type(self).__name__.lower()}.")

    def apply(self) -> None:
        """Rewrite the graph in place. What is then unused stays."""
        given = list(self.graph.graph.node)
        del self.graph.graph.node[:]
        for node in given:
            if not self.rewrite(node):
                self.graph.graph.node.append(node)

    def rewrite(self, node: onnx.NodeProto) -> bool:
        """Append what replaces a node; False if it stays."""
        raise NotImplementedError

    def value(self, name: str) -> npt.NDArray[np.float64]:
        """Return a weight."""
        return numpy_helper.to_array(self.weights[name], str(self._folder)).astype(np.float64)

    def constant(self, value: npt.NDArray[np.float64], like: str) -> str:
        """Add a weight of the type of another."""
        return self.b.constant(value, helper.tensor_dtype_to_np_dtype(self.weights[like].data_type))


class _Norms(_Rewrite):
    """x + (y + bias), and the norm of it, become one SkipLayerNormalization, which returns both."""

    def __init__(self, graph: onnx.ModelProto, shapes: Mapping[str, Shape], folder: Path) -> None:
        super().__init__(graph, shapes, folder)
        self._done: set[str] = set()

    def rewrite(self, node: onnx.NodeProto) -> bool:
        """Replace a sum that a norm reads, at its place, since others may read it before the norm does."""
        if node.op_type == "LayerNormalization":
            return node.output[0] in self._done
        norm = next((one for one in self.users[node.output[0]] if self._can_be_fused(one)), None)
        if node.op_type != "Add" or norm is None or not self._of_one_shape(node.input[0], node.input[1], norm):
            return False
        x, y = node.input
        linear = self.linear(y) if self.only_user("Add", y) else None
        if linear is None and self.only_user("Add", x) and (linear := self.linear(x)):
            x, y = y, x
        given, bias = (linear[0].output[0], linear[1]) if linear else (y, "")
        epsilon = next((one.f for one in norm.attribute if one.name == "epsilon"), 1e-5)
        inputs = [given, x, *norm.input[1:], *([bias] if bias else [])]
        self.b.op("SkipLayerNormalization", *inputs, domain=RUNTIME, epsilon=epsilon)
        self.graph.graph.node[-1].output[:] = [norm.output[0], "", "", node.output[0]]
        self._done.add(norm.output[0])
        return True

    def _can_be_fused(self, norm: onnx.NodeProto) -> bool:
        axis = next((one.i for one in norm.attribute if one.name == "axis"), -1)
        lengths = [list(self.weights[name].dims) for name in norm.input[1:] if name in self.weights]
        weights = len(lengths) == 2 and lengths[0] == lengths[1] and len(lengths[0]) == 1
        return norm.op_type == "LayerNormalization" and weights and len(norm.output) == 1 and axis in (-1, 2)

    def _of_one_shape(self, one: str, other: str, norm: onnx.NodeProto) -> bool:
        """Return whether two tensors have three axes, the last that of the norm, of which none is known to differ."""
        first, second = self.shapes.get(one, ()), self.shapes.get(other, ())
        alike = all(a == b or (0 in (a, b) and 1 not in (a, b)) for a, b in zip(first, second, strict=False))
        width = self.weights[norm.input[1]].dims[0]
        return len(first) == len(second) == 3 and first[2] == second[2] == width and alike


class _Biases(_Rewrite):
    """Attention without the biases of its keys and values.

    The bias of keys adds the same to all scores of a query, which softmax does not see. Weights sum to 1, so that the
    bias of values is added to what attention returns, and goes into the bias of the layer behind it.
    """

    def rewrite(self, node: onnx.NodeProto) -> bool:
        """Read keys and values before their biases, where nothing else reads them."""
        if node.op_type != "Attention":
            return False
        _, key, value = node.input[:3]
        if (layer := self.linear(key)) and self.only_user("Attention", key):
            node.input[1] = layer[0].output[0]
        project = self.only_user("MatMul", node.output[0])
        added = self.only_user("Add", project.output[0]) if project else None
        behind = self.linear(added.output[0]) if added else None
        layer = self.linear(value) if self.only_user("Attention", value) else None
        if layer and project and added and behind:
            bias, matrix = self.value(layer[1]), self.value(project.input[1])
            if len(bias) == len(matrix):  # else several queries share a value
                node.input[2] = layer[0].output[0]
                moved = self.constant(self.value(behind[1]) + bias @ matrix, behind[1])
                added.input[list(added.input).index(behind[1])] = moved
        return False


class _Patches(_Rewrite):
    """A convolution of patches that do not overlap, of an image with its channels last, becomes a product.

    The image is cut in patches where its channels would be moved to the front. So the patches are normalized, in place
    of the image.
    """

    def __init__(self, graph: onnx.ModelProto, shapes: Mapping[str, Shape], folder: Path) -> None:
        super().__init__(graph, shapes, folder)
        self._cut: dict[str, tuple[onnx.NodeProto, int]] = {}
        """The convolutions whose image is cut, with its number of patches, by the last tensor of the pattern."""

    def rewrite(self, node: onnx.NodeProto) -> bool:
        """Replace the first node of the pattern by the cut, and the last one by the product."""
        if permutation(node) == CHANNELS_FIRST:
            return self._replace_by_cut(node)
        if not node.output or node.output[0] not in self._cut:
            return False
        conv, count = self._cut[node.output[0]]
        b, kernel = self.b, self.value(conv.input[1])
        patches = b.op("Reshape", conv.input[0], b.constant([0, count, kernel[0].size]))
        made = b.op("MatMul", patches, self.constant(kernel.reshape(len(kernel), -1).T, conv.input[1]))
        b.op("Add", made, conv.input[2]) if len(conv.input) > 2 else b.op("Identity", made)
        self.graph.graph.node[-1].output[0] = node.output[0]
        return True

    def _replace_by_cut(self, node: onnx.NodeProto) -> bool:
        conv = self._convolution(node.output[0])
        flat = self.only_user("Reshape", conv.output[0]) if conv else None
        last = self.only_user("Transpose", flat.output[0]) if flat else None
        image = self._image(node.input[0])
        if conv is None or last is None or permutation(last) != PATCHES_FIRST or image is None:
            return False
        _, channels, rows, columns = self.weights[conv.input[1]].dims
        given = {one.name: helper.get_attribute_value(one) for one in conv.attribute}
        plain = (
            not any(given.get("pads", ())) and given.get("group", 1) == 1 and set(given.get("dilations", [1])) == {1}
        )
        height, breadth = image
        if not plain or list(given.get("strides", ())) != [rows, columns] or height % rows or breadth % columns:
            return False
        b, down, across = self.b, height // rows, breadth // columns
        cut = b.op("Reshape", node.input[0], b.constant([0, down, rows, across, columns, channels]))
        b.op("Transpose", cut, perm=[0, 1, 3, 5, 2, 4])
        self.graph.graph.node[-1].output[0] = node.output[0]
        self._cut[last.output[0]] = conv, down * across
        return True

    def _convolution(self, name: str) -> onnx.NodeProto | None:
        """Return the convolution that alone reads an image, as it is or normalized; None if there is none."""
        while (conv := self.only_user("Conv", name)) is None:
            user = next((one for kind in EACH_CHANNEL if (one := self.only_user(kind, name))), None)
            if user is None or not self._of_each_channel(user):
                return None
            name = user.output[0]
        return conv if conv.input[0] == name and conv.input[1] in self.weights else None

    def _of_each_channel(self, node: onnx.NodeProto) -> bool:
        """Return whether the second operand of a node is one number, or one for each channel (channels, 1, 1)."""
        operand = self.weights.get(node.input[1])
        return operand is not None and len(operand.dims) <= 3 and all(size == 1 for size in operand.dims[-2:])

    def _image(self, name: str) -> Sequence[int] | None:
        """Return the height and width of images, by the input of the graph that a tensor is made of, value by value."""
        while (node := self.producers.get(name)) and node.op_type in ("Cast", *EACH_CHANNEL):
            name = node.input[0]
        pixels = next((value for value in self.graph.graph.input if value.name == name), None)
        sizes = [axis.dim_value for axis in pixels.type.tensor_type.shape.dim] if pixels else []
        return sizes[1:3] if len(sizes) == 4 and all(sizes[1:3]) else None


class _Turns(_Rewrite):
    """A transpose that moves an axis of length 1, such as the token of a decode step, only names axes anew."""

    def rewrite(self, node: onnx.NodeProto) -> bool:
        """Replace it by a Reshape, and read what was reshaped before: a reshape is no kernel."""
        source = self.producers.get(node.input[0]) if node.input else None
        if node.op_type == "Reshape" and source and self._renames(source):
            if node.input[1] in self.weights and self.value(node.input[1]).all():  # 0 would be a length of its input
                node.input[0] = source.input[0]
            return False
        if not self._renames(node):
            return False
        given = source.input[0] if source and source.op_type == "Reshape" else node.input[0]
        self.b.op("Reshape", given, self.b.constant([-1, *self.shapes[node.output[0]][1:]]))
        self.graph.graph.node[-1].output[0] = node.output[0]
        return True

    def _renames(self, node: onnx.NodeProto) -> bool:
        sizes = self.shapes.get(node.output[0], ())[1:]
        known = all(isinstance(size, int) and size for size in sizes)
        return node.op_type == "Transpose" and permutation(node) == HEADS_FIRST and known and 1 in sizes[:2]
