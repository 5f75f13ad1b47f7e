"""The relevance graph: the answer, its gradient by the maps, and the relevance that follows (Chefer et al. 2021).

What it computes is defined in `model/methods/explanations.py`, against which it is verified.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from contract.manifest import Kind, KindName
from export.graphs.editing.base_graph import copy_base, row_vectors, sum_parallel
from export.graphs.editing.builder import FLOAT, Builder
from export.graphs.editing.cleanup import prune
from export.graphs.gradients.gradient import differentiate
from export.graphs.gradients.score import gradient_scale, score_of, unscaled
from export.graphs.maps.windows import carry, places_of, spread
from export.plan import Plan
from export.traced.base import Traced
from model.methods.explanations import LEAST_EVIDENCE


def relevance_graph(base: onnx.ModelProto, plan: Plan, traced: Traced) -> onnx.ModelProto:
    """Extend the base graph to the relevance graph: the answer, and the relevance of the rows asked for."""
    graph, b, answer = copy_base(base, plan, "relevance.")
    names = [name for kind in traced.kinds for name in kind.maps]
    scale = gradient_scale(base, names[0])
    score = score_of(b, plan, answer, traced.classes).scaled(b, scale)
    gradients = differentiate(graph, score.output, score.seed, names)
    layers = {
        kind.name: [_layer_relevance(b, kind, name, gradients[name], scale) for name in kind.maps]
        for kind in traced.kinds
    }
    (last, *_) = reversed(traced.explained("relevance"))
    if last.windows:
        b.output(last.name, _windowed_relevance(b, traced.stages(last), layers), FLOAT, plan.outputs[1].axes)
    elif "cross" in layers:
        _bimodal_relevance(b, plan, layers)
    else:
        kind, length = traced.kinds[0], b.length(traced.kinds[0].maps[0], 3)
        pooled = layers[traced.pool.name][0] if traced.pool else None  # (batch, 1, key)
        joint = row_vectors(b, kind, "rows", length, pooled)  # (batch, row, key)
        for included, layer in reversed(sum_parallel(b, kind, layers[kind.name])):
            joint = b.op("Where", included, b.op("Add", joint, b.op("MatMul", joint, layer)), joint)
        b.output(kind.name, joint, FLOAT, plan.outputs[1].axes)
    return prune(graph, plan)


def _layer_relevance(b: Builder, kind: Kind, weights: str, gradient: str, scale: float) -> str:
    """Compute `explanations.relevance_of` of one layer: (batch, query, key), or (batch, windows, slot, slot)."""
    weights, gradient = unscaled(b, weights, gradient, scale)
    product = b.op("Relu", b.op("Mul", weights, gradient))
    return b.reduce("ReduceMean", product, 2 if kind.windows else 1, keep=False)


def _windowed_relevance(b: Builder, stages: Sequence[Kind], layers: Mapping[KindName, list[str]]) -> str:
    """Compute `windows.windowed_relevance` of the rows of the last stage, to the tokens of the first."""
    last = stages[-1]
    joint = row_vectors(b, last, "rows", b.constant(last.length))  # (batch, row, token)
    for kind in reversed(stages):
        if kind is not last:
            joint = spread(b, joint, kind.grid or (0, 0))
        for layer, places in reversed(list(zip(layers[kind.name], places_of(kind), strict=True))):
            joint = b.op("Add", joint, carry(b, joint, layer, places))
    return joint


def _bimodal_relevance(b: Builder, plan: Plan, layers: Mapping[KindName, list[str]]) -> None:
    """Compute `explanations.bimodal_relevance`, and output the row of each target's position."""

    def eye(layer: str) -> str:
        length = b.length(layer, 2)
        return b.op(
            "Unsqueeze", b.one_hot(b.op("Range", b.constant(0), length, b.constant(1)), length), b.constant([0])
        )

    def normalized(evidence: str, eye: str) -> str:
        total = b.reduce("ReduceSum", evidence, 2)
        least = b.constant(LEAST_EVIDENCE, np.float32)
        return b.op("Add", b.op("Div", evidence, b.op("Max", total, least)), eye)

    def grown(evidence: str, layer: str) -> str:
        if not evidence:  # before the first layer
            return layer
        return b.op("Add", b.op("Add", evidence, layer), b.op("MatMul", layer, evidence))

    source, target = eye(layers["encoder"][0]), eye(layers["decoder"][0])
    ii = qq = qi = ""
    for layer in layers["encoder"]:
        ii = grown(ii, layer)
    ii = normalized(ii, source)
    for own, across in zip(layers["decoder"], layers["cross"], strict=True):
        qq = grown(qq, own)
        share = b.op("Transpose", normalized(qq, target), perm=[0, 2, 1])
        added = b.op("MatMul", b.op("MatMul", share, across), ii)
        qi = b.op("Add", b.op("Add", qi, b.op("MatMul", own, qi)), added) if qi else added
    qq = b.op("Add", qq, target)
    at = b.op("Unsqueeze", b.one_hot("position", b.length(qq, 1)), b.constant([1]))  # (batch, 1, target)
    for port, relevance in zip(plan.outputs[1:], (qq, qi), strict=True):
        b.output(port.name, b.op("MatMul", at, relevance), FLOAT, port.axes)
