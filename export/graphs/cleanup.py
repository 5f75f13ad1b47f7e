"""Clean a traced graph and hold it to what it promised: the runtime does its own fusions when it loads."""

import copy

import onnx

from export.errors import ExportError
from export.plan import Plan

ATTENDING = ("Softmax", "Attention")
"""One node of these is one attention: its weights, or all of it where it has been fused."""


def optimize(graph: onnx.ModelProto, plan: Plan) -> onnx.ModelProto:
    """Drop what only the exporter needed, name the axes, and check outputs and attentions.

    Source paths and stack traces of this machine go, so that the same input gives the same bytes; inferred shapes go,
    since they name the axes by the tracer's symbols and quantization trips over them.
    """
    for node in graph.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in (*graph.graph.initializer, *graph.graph.input, *graph.graph.output, graph.graph, graph):
        del value.metadata_props[:]
        value.doc_string = ""
    del graph.graph.value_info[:]
    graph.producer_version = ""
    _hold(graph, plan)
    onnx.checker.check_model(graph)
    return graph


def part(graph: onnx.ModelProto, plan: Plan) -> onnx.ModelProto:
    """Return what of a graph the plan's outputs need: predictions without the maps that are read off on the way."""
    kept = onnx.ModelProto()
    kept.CopyFrom(graph)
    promised = {port.name for port in plan.outputs}
    outputs = [value for value in graph.graph.output if value.name in promised]
    del kept.graph.output[:]
    kept.graph.output.extend(outputs)
    return finish(kept, plan)


def finish(graph: onnx.ModelProto, plan: Plan) -> onnx.ModelProto:
    """Drop what the outputs do not need, and hold the rest to the plan."""
    wanted = {value.name for value in graph.graph.output}
    nodes: list[onnx.NodeProto] = []
    for node in reversed(graph.graph.node):
        if wanted.intersection(node.output):
            nodes.append(node)
            wanted.update(_used(node))
    nodes.reverse()
    tensors = [tensor for tensor in graph.graph.initializer if tensor.name in wanted]
    for field, values in ((graph.graph.node, nodes), (graph.graph.initializer, tensors)):
        values = [copy.deepcopy(value) for value in values]
        del field[:]
        field.extend(values)
    _hold(graph, plan)
    return graph


def _used(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node reads, those of its branches' nodes included."""
    inner = (one for attribute in node.attribute if attribute.HasField("g") for one in attribute.g.node)
    return set(node.input).union(*(_used(one) for one in inner))


def _hold(graph: onnx.ModelProto, plan: Plan) -> None:
    """Name the axes of inputs and outputs as the plan does. Raises ExportError for what it did not promise."""
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
    attentions = sum(node.op_type in ATTENDING for node in graph.graph.node)
    if attentions != plan.attentions:
        raise ExportError(f"{plan.role}: must attend {plan.attentions} times, the graph does {attentions} times")
