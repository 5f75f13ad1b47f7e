"""Fuse each attention of a decode step into one node, which writes its cache in place."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from export.graphs.editing.builder import Builder
from export.graphs.editing.cleanup import prune
from export.graphs.lowering.fusion import HEADS_FIRST, Attention, AttentionPattern
from export.plan import Plan

RUNTIME = "com.microsoft"
"""The domain of onnxruntime's own operators. `GroupQueryAttention` has kernels for single floats on a CPU, and for half
floats there and on a GPU; `DecoderMaskedMultiHeadAttention`, as it is used here, for single floats on a CPU only."""
HEAD_STEP = 8
"""`GroupQueryAttention` takes heads of a multiple of this width."""


def fuse_step(graph: onnx.ModelProto, plan: Plan, *, half: bool = False) -> onnx.ModelProto:
    """Return a decode step in single floats with each of its attentions as one node; in half floats, those with caches.

    An attention with a cache becomes `GroupQueryAttention`. It reads each row's keys up to its own position, and writes
    one slot if the caches of before and after share memory; otherwise the slots behind the position become zeros. Its
    queries, keys and values come from one product. Cross-attention becomes `DecoderMaskedMultiHeadAttention`. What has
    another form stays as it is.
    """
    step = _Step(graph, half=half)
    given = list(graph.graph.node)
    written = set[str]()
    made = {node.output[0]: nodes for node in given if (nodes := step.attention(node))}
    for nodes in made.values():
        written.update(name for node in nodes for name in node.output if name)
    if made and all(one.domain != RUNTIME for one in graph.opset_import):
        graph.opset_import.append(helper.make_opsetid(RUNTIME, 1))
    del graph.graph.node[:]
    graph.graph.node.extend(step.shared)
    for node in given:
        if node.output[0] in made:
            graph.graph.node.extend(made[node.output[0]])
        elif not written.intersection(node.output):
            graph.graph.node.append(node)
    return prune(graph, plan)


class _Linear:
    """x W + b, found in a graph."""

    def __init__(self, x: str, weight: npt.NDArray[Any], bias: npt.NDArray[Any]) -> None:
        self.x, self.weight, self.bias = x, weight, bias

    def times(self, scale: float) -> "_Linear":
        return _Linear(self.x, self.weight * np.float32(scale), self.bias * np.float32(scale))


class _Step:
    """Finds the attentions of a decode step, and makes the nodes that take their place."""

    def __init__(self, graph: onnx.ModelProto, *, half: bool) -> None:
        self._half = half
        self._pattern = AttentionPattern(graph)
        self._b = Builder(graph, "step.")
        self._inputs = {value.name for value in graph.graph.input}
        self._cast: dict[str, str] = {}
        self.shared: list[onnx.NodeProto] = []
        """Nodes that read inputs of the graph only, for all attentions."""

    def attention(self, mix: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Return the nodes that replace an attention whose last node is `mix`; [] if it is none, or has another form.

        In single floats, the factor of the scores goes into the queries: only without one has the runtime a product for
        a single row on a CPU.
        """
        found = self._pattern.find(mix)
        joined = self._pattern.joined(mix.output[0])
        split = self._pattern.split(found.query, HEADS_FIRST) if found else None
        query = self._linear(split[0]) if split else None
        if found is None or joined is None or split is None or query is None or found.visible is None:
            return []
        if query.bias.size // split[1] % HEAD_STEP:
            return []
        scale = found.scale if self._half else 1.0
        query = query if self._half else query.times(found.scale)
        if self._inputs.issuperset((found.key, found.value)):
            return [] if self._half else self._cross(found, query, split[1], joined)
        key, value = (self._cached(name) for name in (found.key, found.value))
        if key is None or value is None or not query.x == key[1].x == value[1].x:
            return []
        total = self._as_int32(key[0], length=True)
        nodes, packed = self._product([query, key[1], value[1]])
        ports = [packed, "", "", key[0], value[0], self._as_int32(found.visible), total]
        outputs = [joined, found.key, found.value]
        kind, heads = "GroupQueryAttention", split[1]
        node = helper.make_node(kind, ports, outputs, domain=RUNTIME, scale=scale, num_heads=heads, kv_num_heads=heads)
        return [*nodes, node]

    def _cross(self, found: Attention, query: _Linear, heads: int, joined: str) -> list[onnx.NodeProto]:
        nodes, product = self._product([query])
        ports = [product, found.key, found.value, self._as_int32(found.visible or "")]
        kind = "DecoderMaskedMultiHeadAttention"
        return [*nodes, helper.make_node(kind, ports, [joined], domain=RUNTIME, num_heads=heads, scale=1.0)]

    def _product(self, parts: list[_Linear]) -> tuple[list[onnx.NodeProto], str]:
        """Return nodes that compute several linear maps of the same input, one beside the other, and their output."""
        matrix, added = (np.hstack([getattr(part, name) for part in parts]) for name in ("weight", "bias"))
        weight, bias = self._b.constant(matrix, matrix.dtype), self._b.constant(added, added.dtype)
        product, total = f"{weight}.product", f"{weight}.sum"
        nodes = [
            helper.make_node("MatMul", [parts[0].x, weight], [product]),
            helper.make_node("Add", [product, bias], [total]),
        ]
        return nodes, total

    def _cached(self, present: str) -> tuple[str, _Linear] | None:
        """Return the cache of before, and the linear map whose result this step writes to it."""
        put = self._pattern.producer("ScatterND", present)
        spread = self._pattern.producer("Expand", put.input[2]) if put else None
        chosen = self._pattern.producer("Gather", spread.input[0]) if spread else None
        split = self._pattern.split(chosen.input[0], HEADS_FIRST) if chosen else None
        linear = self._linear(split[0]) if split else None
        return (put.input[0], linear) if put and linear and put.input[0] in self._inputs else None

    def _linear(self, name: str) -> _Linear | None:
        found = self._pattern.linear(name)
        if found is None:
            return None
        product, bias = found
        weights = self._pattern.weights
        return _Linear(product.input[0], *(numpy_helper.to_array(weights[one]) for one in (product.input[1], bias)))

    def _as_int32(self, name: str, *, length: bool = False) -> str:
        """Return an input as int32, or the length of its axis 2. It is computed once for all attentions."""
        key = "length" if length else name
        if key not in self._cast:
            self._cast[key] = f"step.{key}"
            read = name
            if length:
                read = "step.shape"
                self.shared.append(helper.make_node("Shape", [name], [read], start=2, end=3))
            self.shared.append(helper.make_node("Cast", [read], [self._cast[key]], to=TensorProto.INT32))
        return self._cast[key]
