"""Compute each root-mean-square norm in one node: of a step of few tokens, most nodes take as long as any other."""

import onnx
from onnx import numpy_helper

from export.graphs.editing.builder import Builder
from export.graphs.editing.cleanup import prune
from export.graphs.editing.tensors import Tensors
from export.plan import Plan

NORM = "SimplifiedLayerNormalization"
"""An operator of onnxruntime, of which ONNX has one of another name from opset 23 on."""
STEPS = ("Reciprocal", "Sqrt", "Add", "ReduceMean", "Pow")
"""What makes 1 / √(mean(x²) + ε) of x, from its end."""


def fuse_norms(graph: onnx.ModelProto, plan: Plan) -> onnx.ModelProto:
    """Return a graph with each x / √(mean(x²) + ε) ⊙ g over the last axis as one node, which has no gradient."""
    tensors, b = Tensors(graph), Builder(graph, "norms.")
    given = list(graph.graph.node)
    del graph.graph.node[:]
    for node in given:
        found = _norm(tensors, node)
        if found:
            x, weight, epsilon = found
            b.op(NORM, x, weight, axis=-1, epsilon=epsilon)
            graph.graph.node[-1].output[0] = node.output[0]
        else:
            graph.graph.node.append(node)
    return prune(graph, plan)


def _norm(tensors: Tensors, last: onnx.NodeProto) -> tuple[str, str, float] | None:
    """Return what a norm whose last node this is takes: x, g and ε; None if it is none."""
    scaled = tensors.producer("Mul", last.input[0]) if last.op_type == "Mul" else None
    if scaled is None or last.input[1] not in tensors.weights or len(tensors.weights[last.input[1]].dims) != 1:
        return None
    made = dict[str, onnx.NodeProto]()
    name = scaled.input[1]
    for kind in STEPS:
        node = tensors.producer(kind, name)
        if node is None:
            return None
        made[kind], name = node, node.input[0]
    epsilon, axes, power = (
        [float(one) for one in numpy_helper.to_array(tensors.weights[made[kind].input[1]]).reshape(-1)]
        for kind in ("Add", "ReduceMean", "Pow")
    )
    return (name, last.input[1], epsilon[0]) if name == scaled.input[0] and (axes, power) == ([-1], [2]) else None
