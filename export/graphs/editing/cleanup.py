"""Clean a traced graph and check it against its plan. (Fusions are left to the runtime, which does them at load.)"""

import onnx

from export.errors import ExportError
from export.plan import Plan

ATTENTION_OPERATORS = ("Softmax", "Attention", "GroupQueryAttention", "DecoderMaskedMultiHeadAttention")
"""Each node of these operators is one attention: its softmax, or all of it if it has been fused."""

MOST_CHECKED_BYTES = 64 << 20
"""Bytes of weights in a graph that onnx's checker is given at most: it holds them twice more, once as a message, which
ends at 2 GiB. A larger graph is checked by the runtime, once its weights are in a file of their own."""


def clean(graph: onnx.ModelProto, plan: Plan) -> onnx.ModelProto:
    """Remove what only the exporter needed, name the axes, and check the graph against its plan.

    Source paths and stack traces of this machine are removed, so that the same input gives the same bytes. Inferred
    shapes are removed, since they name axes by the tracer's symbols, which quantization cannot handle.
    """
    for node in graph.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*graph.graph.initializer, *graph.graph.input, *graph.graph.output, graph.graph, graph):
        del value.metadata_props[:]
        value.doc_string = ""
    del graph.graph.value_info[:]
    graph.producer_version = ""
    _check_against_plan(graph, plan)
    if sum(len(tensor.raw_data) for tensor in graph.graph.initializer) < MOST_CHECKED_BYTES:
        onnx.checker.check_model(graph)
    return graph


def extract(graph: onnx.ModelProto, plan: Plan) -> onnx.ModelProto:
    """Return the part of a graph that the plan's outputs need, such as predictions without maps."""
    part = onnx.ModelProto()
    part.CopyFrom(graph)
    promised = {port.name for port in plan.outputs}
    outputs = [value for value in graph.graph.output if value.name in promised]
    del part.graph.output[:]
    part.graph.output.extend(outputs)
    return prune(part, plan)


def prune(graph: onnx.ModelProto, plan: Plan) -> onnx.ModelProto:
    """Remove what the outputs do not need, and check the rest against the plan."""
    _check_against_plan(drop_unused(graph), plan)
    return graph


def drop_unused(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Remove what the outputs do not need."""
    wanted = {value.name for value in graph.graph.output}
    nodes, tensors = graph.graph.node, graph.graph.initializer
    for place in reversed(range(len(nodes))):
        if wanted.intersection(nodes[place].output):
            wanted.update(_names_read(nodes[place]))
        else:
            del nodes[place]
    for place in reversed(range(len(tensors))):
        if tensors[place].name not in wanted:
            del tensors[place]
    return graph


def _names_read(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node reads, including the nodes of its branches."""
    inner = (one for attribute in node.attribute if attribute.HasField("g") for one in attribute.g.node)
    return set(node.input).union(*(_names_read(one) for one in inner))


def _check_against_plan(graph: onnx.ModelProto, plan: Plan) -> None:
    """Name the axes of inputs and outputs as the plan does. Raises ExportError if the graph differs from the plan."""
    for kind, ports, found in (
        ("input", plan.inputs, graph.graph.input),
        ("output", plan.outputs, graph.graph.output),
    ):
        names = [value.name for value in found]
        if names != [port.name for port in ports]:
            raise ExportError(f"{plan.role}: promised {kind}s {[port.name for port in ports]}, the graph has {names}")
        for port, value in zip(ports, found, strict=True):
            for axis, dimension in zip(port.axes, value.type.tensor_type.shape.dim, strict=True):
                if isinstance(axis, str):
                    if dimension.HasField("dim_value"):
                        raise ExportError(
                            f"{plan.role}: {port.name} must vary in {axis}, given {dimension.dim_value} always"
                        )
                    dimension.dim_param = axis
                elif dimension.dim_value != axis:
                    raise ExportError(
                        f"{plan.role}: {port.name} must have an axis of {axis}, the graph has {dimension}"
                    )
    attentions = sum(node.op_type in ATTENTION_OPERATORS for node in graph.graph.node)
    if attentions != plan.attentions:
        raise ExportError(f"{plan.role}: must attend {plan.attentions} times, the graph does {attentions} times")
