"""What the graphs of attention and explanations share: all begin as a copy of the base graph."""

import functools
from collections.abc import Sequence

import numpy as np
import onnx

from contract.manifest import Kind
from export.graphs.editing.builder import BOOL, FLOAT, INT64, Builder
from export.plan import Plan

ONNX_DTYPES = {"int64": INT64, "bool": BOOL, "float32": FLOAT, "uint8": onnx.TensorProto.UINT8}


def copy_base(base: onnx.ModelProto, plan: Plan, prefix: str) -> tuple[onnx.ModelProto, Builder, str]:
    """Return a copy of the base graph, a builder that extends it, and the name of the tensor that can be explained.

    The copy has the inputs of the plan and, of its outputs, the answers. An input that the plan does not take is to be
    made, unless nothing needs it.
    """
    graph = onnx.ModelProto()
    graph.CopyFrom(base)
    explained = base.graph.output[0].name
    answers = {explained, *(port.name for port in plan.outputs[: plan.answers])}
    for node in graph.graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name in answers:
                    names[index] = f"{name}.seen"
    del graph.graph.output[:]
    b = Builder(graph, prefix)
    taken = {port.name for port in plan.inputs}
    inputs = [value for value in graph.graph.input if value.name in taken]
    del graph.graph.input[:]
    graph.graph.input.extend(inputs)
    given = {value.name for value in inputs}
    for port in plan.inputs:
        if port.name not in given:
            b.input(port.name, ONNX_DTYPES[port.dtype], port.axes)
    for port in plan.outputs[: plan.answers]:
        b.output(port.name, f"{port.name}.seen", FLOAT, port.axes)
    return graph, b, f"{explained}.seen"


def selected_layers(b: Builder, kind: Kind) -> str:
    """Return (layer), bool: True for each layer that the control `<kind>.layers` selects."""
    among = b.op(
        "Equal",
        b.op("Unsqueeze", f"{kind.name}.layers", b.constant([1])),
        b.constant(np.arange(len(kind.maps))[None]),
    )
    return b.op("Cast", b.reduce("ReduceMax", b.op("Cast", among, to=INT64), 0, keep=False), to=BOOL)


def row_vectors(b: Builder, kind: Kind, rows: str, length: str, shares: str | None = None) -> str:
    """Compute `explanations.row_vectors` of rows (..., row): (..., row, token).

    `shares` (batch, 1, token) are those of the tokens in the mean of rows, by default equal.
    """
    if not kind.averages:
        return b.one_hot(rows, length)
    mean = shares or b.op("Div", b.constant(1, np.float32), b.op("Cast", length, to=FLOAT))
    asked = b.op("Unsqueeze", b.op("Less", rows, b.constant(0)), b.constant([-1]))
    return b.op("Where", asked, mean, b.one_hot(b.op("Max", rows, b.constant(0)), length))


def sum_parallel(b: Builder, kind: Kind, maps: Sequence[str]) -> list[tuple[str, str]]:
    """Add up the maps of attentions that are parallel in one layer, as `explanations.add_parallel` does.

    Returns for each layer whether any of its maps is selected, and the sum of those that are.
    """
    layers = selected_layers(b, kind)
    selected = [b.op("Gather", layers, b.constant(index)) for index in range(len(maps))]
    if kind.parallel == 1:
        return list(zip(selected, maps, strict=True))
    zero = b.constant(0, np.float32)
    summands = [b.op("Where", chosen, name, zero) for chosen, name in zip(selected, maps, strict=True)]
    groups = [slice(first, first + kind.parallel) for first in range(0, len(maps), kind.parallel)]
    return [
        (functools.reduce(functools.partial(b.op, "Or"), selected[group]), b.op("Sum", *summands[group]))
        for group in groups
    ]
