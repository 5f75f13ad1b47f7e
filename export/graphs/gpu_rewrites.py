"""Rewrites of graphs in half floats to what a GPU runs in fewer and faster kernels, with the same results.

Of the time of a ViT's batch on a GPU, half is not spent on products of matrices: each bias, sum and norm reads and
writes all tokens. And for patches, cuDNN chooses a convolution that does not use the matrix units.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper, shape_inference

from export.graphs.builder import Builder
from export.graphs.cleanup import prune
from export.graphs.decode_step import fuse_step
from export.graphs.fusion import HEADS_FIRST, fuse_attention
from export.plan import Plan

CONTRIB = "com.microsoft"
"""The domain of onnxruntime's own operators."""
CHANNELS_FIRST, PATCHES_FIRST = [0, 3, 1, 2], [0, 2, 1]
"""The permutations (batch, row, column, channel) -> (batch, channel, row, column), and (batch, width, patch) -> (batch,
patch, width)."""
SMALL_BYTES = 1024
"""Tensors below this may be shapes, whose values inference needs."""


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


def _shapes(graph: onnx.ModelProto) -> dict[str, list[int]]:
    """Return the lengths of the axes of tensors, by name; 0 where one is not known. Large weights are not copied."""
    bare = onnx.ModelProto(ir_version=graph.ir_version, opset_import=graph.opset_import)
    bare.graph.CopyFrom(onnx.GraphProto(name="bare", node=graph.graph.node, input=graph.graph.input))
    bare.graph.output.extend(graph.graph.output)
    for tensor in graph.graph.initializer:
        if tensor.raw_data and len(tensor.raw_data) < SMALL_BYTES:
            bare.graph.initializer.append(tensor)
        else:
            bare.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    inferred = shape_inference.infer_shapes(bare).graph.value_info
    return {value.name: [axis.dim_value for axis in value.type.tensor_type.shape.dim] for value in inferred}


class _Rewrite:
    """A pass over the nodes of a graph, which knows what makes and what reads each tensor."""

    def __init__(self, graph: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], folder: Path) -> None:
        self.graph, self.shapes, self._folder = graph, shapes, folder
        self.b = Builder(graph, f"{type(self).__name__.lower()}.")
        self.producers = {name: node for node in graph.graph.node for name in node.output}
        self.users: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in graph.graph.node:
            for name in node.input:
                self.users[name].append(node)
        self.weights = {tensor.name: tensor for tensor in graph.graph.initializer}
        self.outputs = {value.name for value in graph.graph.output}

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

    def producer(self, kind: str, name: str) -> onnx.NodeProto | None:
        """Return the node of a kind that makes a tensor; None if another makes it."""
        node = self.producers.get(name)
        return node if node is not None and node.op_type == kind else None

    def only_user(self, kind: str, name: str) -> onnx.NodeProto | None:
        """Return the node of a kind that alone reads a tensor; None if there is no such node."""
        users = self.users[name]
        return users[0] if len(users) == 1 and users[0].op_type == kind and name not in self.outputs else None

    def biased(self, name: str) -> tuple[str, str] | None:
        """Return the product that a tensor is made of, and the bias that is added to it; None if it is not so made."""
        added = self.producer("Add", name)
        for product, bias in (added.input, reversed(added.input)) if added else ():
            if bias in self.weights and len(self.weights[bias].dims) == 1 and self.producer("MatMul", product):
                return product, bias
        return None

    def value(self, name: str) -> npt.NDArray[np.float64]:
        """Return a weight."""
        return numpy_helper.to_array(self.weights[name], str(self._folder)).astype(np.float64)

    def constant(self, value: npt.NDArray[np.float64], like: str) -> str:
        """Add a weight of the type of another."""
        return self.b.constant(value, helper.tensor_dtype_to_np_dtype(self.weights[like].data_type))


class _Norms(_Rewrite):
    """x + (y + bias), and the norm of it, become one SkipLayerNormalization, which returns both."""

    def __init__(self, graph: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], folder: Path) -> None:
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
        linear = self.biased(y) if self.only_user("Add", y) else None
        if linear is None and self.only_user("Add", x) and (linear := self.biased(x)):
            x, y = y, x
        given, bias = linear or (y, "")
        epsilon = next((one.f for one in norm.attribute if one.name == "epsilon"), 1e-5)
        inputs = [given, x, *norm.input[1:], *([bias] if bias else [])]
        self.b.op("SkipLayerNormalization", *inputs, domain=CONTRIB, epsilon=epsilon)
        self.graph.graph.node[-1].output[:] = [norm.output[0], "", "", node.output[0]]
        self._done.add(norm.output[0])
        return True

    def _can_be_fused(self, norm: onnx.NodeProto) -> bool:
        axis = next((one.i for one in norm.attribute if one.name == "axis"), -1)
        weights = len(norm.input) == 3 and all(name in self.weights for name in norm.input[1:])
        return norm.op_type == "LayerNormalization" and weights and len(norm.output) == 1 and axis in (-1, 2)

    def _of_one_shape(self, one: str, other: str, norm: onnx.NodeProto) -> bool:
        """Return whether two tensors have three axes, the last that of the norm, and neither is broadcast."""
        first, second = self.shapes.get(one, ()), self.shapes.get(other, ())
        width = self.weights[norm.input[1]].dims[0]
        alike = all((a == 1) == (b == 1) for a, b in zip(first, second, strict=False))
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
        if (linear := self.biased(key)) and self.only_user("Attention", key):
            node.input[1] = linear[0]
        project = self.only_user("MatMul", node.output[0])
        added = self.only_user("Add", project.output[0]) if project else None
        behind = self.biased(added.output[0]) if added else None
        if (linear := self.biased(value)) and self.only_user("Attention", value) and project and added and behind:
            matrix, bias = project.input[1], behind[1]
            if matrix in self.weights:
                node.input[2] = linear[0]
                moved = self.constant(self.value(bias) + self.value(linear[1]) @ self.value(matrix), bias)
                added.input[list(added.input).index(bias)] = moved
        return False


class _Patches(_Rewrite):
    """A convolution of patches that do not overlap, of an image with its channels last, becomes a product."""

    def rewrite(self, node: onnx.NodeProto) -> bool:
        """Replace the last node of the pattern: the one that puts patches before their features."""
        flat = self.producer("Reshape", node.input[0]) if _perm(node) == PATCHES_FIRST else None
        conv = self.producer("Conv", flat.input[0]) if flat else None
        turned = self.producer("Transpose", conv.input[0]) if conv else None
        if conv is None or turned is None or _perm(turned) != CHANNELS_FIRST or conv.input[1] not in self.weights:
            return False
        kernel = self.value(conv.input[1])
        width, channels, rows, columns = kernel.shape
        given = {one.name: helper.get_attribute_value(one) for one in conv.attribute}
        image = self._image(turned.input[0])
        plain = (
            not any(given.get("pads", ())) and given.get("group", 1) == 1 and set(given.get("dilations", [1])) == {1}
        )
        if image is None or not plain or list(given.get("strides", ())) != [rows, columns]:
            return False
        height, breadth = image
        if height % rows or breadth % columns:
            return False
        b, down, across = self.b, height // rows, breadth // columns
        cut = b.op("Reshape", turned.input[0], b.constant([0, down, rows, across, columns, channels]))
        moved = b.op("Transpose", cut, perm=[0, 1, 3, 2, 4, 5])
        patches = b.op("Reshape", moved, b.constant([0, down * across, rows * columns * channels]))
        matrix = self.constant(kernel.transpose(2, 3, 1, 0).reshape(-1, width), conv.input[1])
        made = b.op("MatMul", patches, matrix)
        b.op("Add", made, conv.input[2]) if len(conv.input) > 2 else b.op("Identity", made)
        self.graph.graph.node[-1].output[0] = node.output[0]
        return True

    def _image(self, name: str) -> Sequence[int] | None:
        """Return the height and width of images, by the input of the graph that a tensor is made of, value by value."""
        while (node := self.producers.get(name)) and node.op_type in ("Cast", "Div", "Sub", "Mul", "Add"):
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
        return node.op_type == "Transpose" and _perm(node) == HEADS_FIRST and all(sizes) and 1 in sizes[:2]


def _perm(node: onnx.NodeProto) -> list[int]:
    return next((list(one.ints) for one in node.attribute if one.name == "perm"), [])
