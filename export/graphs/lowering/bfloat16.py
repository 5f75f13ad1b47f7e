"""Graphs in bfloat16: operators without a CUDA kernel compute in float32, and a float32 copy can run on a CPU."""

from collections.abc import Collection, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

BFLOAT16, FLOAT = TensorProto.BFLOAT16, TensorProto.FLOAT

CUDA_OPERATORS = frozenset(
    "Abs Add Attention Cast Concat ConstantOfShape Conv Cos Div Erf Exp Expand Flatten FusedMatMul Gather "
    "GatherElements Gelu Gemm GroupQueryAttention Identity If LayerNormalization MatMul Max Min Mul Neg Pow ReduceSum "
    "Relu Reshape ScatterND Shape Sigmoid Sign Sin SkipLayerNormalization Slice Softmax Split Sqrt Squeeze Sub Tanh "
    "Tile Transpose Unsqueeze Where".split()
)
"""Operators that onnxruntime 1.31 can run in bfloat16 on CUDA."""
SINCE_OPSET = {"Conv": 22}
"""The first opset of those that ONNX has not always let be of bfloat16."""


def with_casts_for_missing_kernels(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph in which every operator without a bfloat16 kernel computes in float32, between casts.

    Types are inferred of one message, so that weights of more than 2 GiB must lie in a file.
    """
    graph = shape_inference.infer_shapes(graph)  # of branches too
    opset = next(one.version for one in graph.opset_import if not one.domain)
    has_kernel = CUDA_OPERATORS - {name for name, since in SINCE_OPSET.items() if opset < since}
    _insert_casts(graph.graph, _tensor_types(graph.graph, {}), has_kernel)
    return graph


def _insert_casts(graph: onnx.GraphProto, types: Mapping[str, int], has_kernel: Collection[str]) -> None:
    given = list(graph.node)
    del graph.node[:]
    for node in given:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _insert_casts(attribute.g, _tensor_types(attribute.g, types), has_kernel)
        bfloat16 = [name for name in (*node.input, *node.output) if name and types.get(name) == BFLOAT16]
        if not bfloat16 or node.op_type in has_kernel:
            graph.node.append(node)
            continue
        wide = {name: f"{name}.wide.{node.output[0]}" for name in bfloat16}
        after = [helper.make_node("Cast", [wide[name]], [name], to=BFLOAT16) for name in node.output if name in wide]
        for name in dict.fromkeys(name for name in node.input if name in wide):
            graph.node.append(helper.make_node("Cast", [name], [wide[name]], to=FLOAT))
        for names in (node.input, node.output):
            names[:] = [wide.get(name, name) for name in names]
        graph.node.append(node)
        graph.node.extend(after)


def _tensor_types(graph: onnx.GraphProto, outside: Mapping[str, int]) -> dict[str, int]:
    """Return each tensor's element type: the inferred one or, if unknown, that of the first typed input of its node."""
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


def to_float32(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Replace every bfloat16 of a graph by float32, in place; the weights keep their rounding to bfloat16.

    Verification runs it on a CPU, which has no bfloat16 kernels.
    """
    _replace_types(graph.graph)
    return graph


def _replace_types(graph: onnx.GraphProto) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        kind = value.type.tensor_type
        kind.elem_type = FLOAT if kind.elem_type == BFLOAT16 else kind.elem_type
    for tensor in graph.initializer:
        _convert_tensor(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _replace_types(attribute.g)
            elif attribute.HasField("t"):
                _convert_tensor(attribute.t)
            elif attribute.name == "to" and attribute.i == BFLOAT16:
                attribute.i = FLOAT


def _convert_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == BFLOAT16:
        array = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
