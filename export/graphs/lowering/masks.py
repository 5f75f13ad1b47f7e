"""Hide keys by an addition: onnxruntime's `Where` runs on one thread of a CPU, and reads a mask anew in each layer."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

from export.graphs.editing.builder import Builder

HIDING = np.finfo(np.float32).min
"""The score of a hidden key. What is added to it is lost in rounding, so an addition gives the same to the last bit."""


def add_masks(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Turn each softmax(Where(hidden, HIDING, scores)) into softmax(scores + Where(hidden, HIDING, 0)), in place.

    The mask that is added is made once for all layers that hide the same keys. Scores are single floats.
    """
    b = Builder(graph, "masks.")
    tensors = {tensor.name: tensor for tensor in graph.graph.initializer}
    softmaxed = {node.input[0] for node in graph.graph.node if node.op_type == "Softmax"}
    masks: dict[str, str] = {}
    zero = ""
    given = list(graph.graph.node)
    del graph.graph.node[:]
    for node in given:
        if node.op_type != "Where" or node.output[0] not in softmaxed or not _hides(tensors.get(node.input[1])):
            graph.graph.node.append(node)
            continue
        hidden, least, scores = node.input
        if hidden not in masks:
            zero = zero or b.constant(0, np.float32)
            masks[hidden] = b.op("Where", hidden, least, zero)
        graph.graph.node.append(helper.make_node("Add", [scores, masks[hidden]], node.output))
    return graph


def _hides(tensor: onnx.TensorProto | None) -> bool:
    return tensor is not None and not tensor.dims and bool(numpy_helper.to_array(tensor) == HIDING)
