"""TODO: what export/graphs/base_graph.py is."""

import functools
from collections.abc import Sequence

import numpy as np
import onnx

from contract.manifest import Kind
from export.graphs.builder import BOOL, FLOAT, INT64, Builder
from export.plan import Plan

TYPES = {"int64": INT64, "bool": BOOL, "float32": FLOAT}


def _copied(base: onnx.ModelProto, plan: Plan, prefix: str) -> tuple[onnx.ModelProto, Builder]:
    """Return a copy of a graph that has the plan's inputs, no outputs yet, and its answer as `<name>.seen`."""
    graph = onnx.ModelProto()
    graph.CopyFrom(base)
    answer = plan.outputs[0].name
    for node in graph.graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name == answer:
                    names[index] = f"{answer}.seen"
    del graph.graph.output[:]
    b = Builder(graph, prefix)
    given = {value.name for value in graph.graph.input}
    for port in plan.inputs:
        if port.name not in given:
            b.input(port.name, TYPES[port.dtype], port.axes)
    return graph, b


def _wanted(b: Builder, kind: Kind) -> str:
    """Return (layer): is it among those asked for."""
    among = b.op(
        "Equal",
        b.op("Unsqueeze", f"{kind.kind}.layers", b.constant([1])),
        b.constant(np.arange(len(kind.maps))[None]),
    )
    return b.op("Cast", b.reduce("ReduceMax", b.op("Cast", among, to=INT64), 0, keep=False), to=BOOL)


def _abreast(b: Builder, kind: Kind, maps: Sequence[str]) -> list[tuple[str, str]]:
    """`explanations.add_parallel`: the layers that maps add up to, each behind whether any map of it is asked for."""
    wanted = _wanted(b, kind)
    asked = [b.op("Gather", wanted, b.constant(index)) for index in range(len(maps))]
    if kind.abreast == 1:
        return list(zip(asked, maps, strict=True))
    zero = b.constant(0, np.float32)
    counted = [b.op("Where", one, name, zero) for one, name in zip(asked, maps, strict=True)]
    groups = [slice(first, first + kind.abreast) for first in range(0, len(maps), kind.abreast)]
    return [
        (functools.reduce(functools.partial(b.op, "Or"), asked[group]), b.op("Sum", *counted[group]))
        for group in groups
    ]
