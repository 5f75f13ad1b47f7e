"""Graphs in bfloat16: what a GPU has no kernel for computes in float32, and a twin in float32 is what a CPU can run."""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

BFLOAT16, FLOAT = TensorProto.BFLOAT16, TensorProto.FLOAT

KERNELS = frozenset(
    "Abs Add Attention Cast Concat ConstantOfShape Conv Cos Div Erf Exp Expand Flatten FusedMatMul Gather "
    "GatherElements Gelu Gemm Identity If LayerNormalization MatMul Max Min Mul Neg Pow ReduceSum Relu Reshape "
    "ScatterND Shape Sigmoid Sign Sin Slice Softmax Split Sqrt Squeeze Sub Tanh Tile Transpose Unsqueeze Where".split()
)
"""What onnxruntime 1.31 computes, or moves, in bfloat16 on CUDA."""


def with_kernels(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Let every operation on bfloat16 that has no kernel compute in float32, between casts. Changes the graph."""
    _between_casts(graph.graph, _types(shape_inference.infer_shapes(graph).graph, {}))
    return graph


def _between_casts(graph: onnx.GraphProto, types: Mapping[str, int]) -> None:
    given = list(graph.node)
    del graph.node[:]
    for node in given:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _between_casts(attribute.g, _types(attribute.g, types))
        low = [name for name in (*node.input, *node.output) if types.get(name) == BFLOAT16]
        if not low or node.op_type in KERNELS:
            graph.node.append(node)
            continue
        wide = {name: f"{name}.wide.{node.output[0]}" for name in low}
        after = [helper.make_node("Cast", [wide[name]], [name], to=BFLOAT16) for name in node.output if name in wide]
        for name in dict.fromkeys(name for name in node.input if name in wide):
            graph.node.append(helper.make_node("Cast", [name], [wide[name]], to=FLOAT))
        for names in (node.input, node.output):
            names[:] = [wide.get(name, name) for name in names]
        graph.node.append(node)
        graph.node.extend(after)


def _types(graph: onnx.GraphProto, outside: Mapping[str, int]) -> dict[str, int]:
    """Return each tensor's type: as it was inferred, or that of what a node reads first, where that is not known."""
    types = dict(outside) | {tensor.name: tensor.data_type for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.type.tensor_type.elem_type:
            types[value.name] = value.type.tensor_type.elem_type
    for node in graph.node:
        known = [types[name] for name in node.input if name in types]
        to = next((attribute.i for attribute in node.attribute if attribute.name == "to"), 0)
        for name in node.output:
            types.setdefault(name, to or next(iter(known), 0))
    return types


def widened(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph with every bfloat16 as a float32, node by node the same, weights as they were rounded.

    It says whether the graph computes what it should, with the weights that it will have.
    """
    wide = onnx.ModelProto.FromString(graph.SerializeToString())
    _widen(wide.graph)
    return wide


def _widen(graph: onnx.GraphProto) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        kind = value.type.tensor_type
        kind.elem_type = FLOAT if kind.elem_type == BFLOAT16 else kind.elem_type
    for tensor in graph.initializer:
        _wide(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _widen(attribute.g)
            elif attribute.HasField("t"):
                _wide(attribute.t)
            elif attribute.name == "to" and attribute.i == BFLOAT16:
                attribute.i = FLOAT


def _wide(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == BFLOAT16:
        array = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
