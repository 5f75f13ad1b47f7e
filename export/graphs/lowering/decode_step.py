"""Fuse each attention of a decode step into one node, which writes its cache in place."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper

from export.graphs.editing.builder import Builder
from export.graphs.editing.cleanup import prune
from export.graphs.lowering.fusion import HEADS_FIRST, Attention, AttentionPattern
from export.plan import Plan

RUNTIME = "com.microsoft"
"""The domain of onnxruntime's own operators. `GroupQueryAttention` has kernels for single floats on a CPU, and for half
floats there and on a GPU; `DecoderMaskedMultiHeadAttention`, as it is used here, for single floats on a CPU only."""
HEAD_STEP, TURNED_STEP, ANGLES_STEP = 8, 16, 8
"""`GroupQueryAttention` takes heads of a multiple of the first width. Of a multiple of the second, it turns a multiple
of the third of angles."""


def fuse_step(graph: onnx.ModelProto, plan: Plan, *, half: bool = False) -> onnx.ModelProto:
    """Return a decode step in single floats with each of its attentions as one node; in half floats, those with caches.

    An attention with a cache becomes `GroupQueryAttention`. It reads each row's keys up to its own position, within a
    window if there is one, and writes one slot if the caches of before and after share memory; otherwise the slots
    behind the position become zeros. Keys that heads share are not repeated. Where no norm stands between them,
    queries, keys and values come from one product. In single floats the node turns queries and keys; in half floats
    they are turned before it. Cross-attention becomes `DecoderMaskedMultiHeadAttention`. What has another form stays as
    it is.
    """
    given = list(graph.graph.node)
    step = _Step(graph, half=half)
    made = dict[str, list[onnx.NodeProto]]()
    for node in given:
        del graph.graph.node[:]
        if step.attention(node):
            made[node.output[0]] = list(graph.graph.node)
    written = {name for nodes in made.values() for node in nodes for name in node.output if name}
    del graph.graph.node[:]
    for node in given:
        if node.output[0] in made:
            graph.graph.node.extend(made[node.output[0]])
        elif not written.intersection(node.output):
            graph.graph.node.append(node)
    return prune(graph, plan)


class _Linear(NamedTuple):
    """x W + b, or x W, found in a graph."""

    x: str
    weight: npt.NDArray[Any]
    bias: npt.NDArray[Any] | None

    def times(self, scale: float) -> "_Linear":
        if scale == 1:
            return self
        bias = None if self.bias is None else self.bias * np.float32(scale)
        return self._replace(weight=self.weight * np.float32(scale), bias=bias)


class _Step:
    """Finds the attentions of a decode step, and makes the nodes that take their place."""

    def __init__(self, graph: onnx.ModelProto, *, half: bool) -> None:
        self._half = half
        self._pattern = AttentionPattern(graph)
        self._b = Builder(graph, "step.")
        self._axes = {
            value.name: [axis.dim_value for axis in value.type.tensor_type.shape.dim] for value in graph.graph.input
        }
        self._shared: dict[str, str] = {}
        """What all attentions read. The first of them makes it."""

    def attention(self, mix: onnx.NodeProto) -> bool:
        """Append the nodes that replace an attention whose last node is `mix`; False if it is none, or of another form.

        In single floats, the factor of the scores goes into the queries: only without one has the runtime a product for
        a single row on a CPU.
        """
        found = self._pattern.find(mix, heads_split=True)
        joined = self._pattern.joined(mix.output[0])
        if found is None or joined is None or found.visible is None:
            return False
        if self._axes.keys() >= {found.key, found.value}:
            return self._cross(found, found.visible, joined)
        return self._own(found, found.visible, joined)

    def _own(self, found: Attention, visible: str, joined: str) -> bool:
        """Append an attention to a cache, which it writes."""
        (key, shared), (value, same) = (self._pattern.shared_by_heads(name) for name in (found.key, found.value))
        keys, values = self._cached(key), self._cached(value)
        heads, width = self._axes[keys[0]][1::2] if keys else (0, 0)
        if keys is None or values is None or shared != same or width % HEAD_STEP:
            return False
        query, new, angles = self._unturned(found.query, keys[1], keys[0], width)
        scale = found.scale if self._half else 1.0
        factor = found.scale / scale
        given = self._packed([query, new, values[1]], factor) or [
            self._flat(query, heads * shared * width, factor),
            *(self._flat(part, heads * width) for part in (new, values[1])),
        ]
        ports = [*given, keys[0], values[0], self._as_int32(visible), self._capacity(keys[0])]
        options = {"num_heads": heads * shared, "kv_num_heads": heads, "scale": scale, "do_rotary": int(bool(angles))}
        window = {"local_window_size": found.window} if found.window else {}
        self._b.ops("GroupQueryAttention", 3, *ports, *angles, domain=RUNTIME, **options, **window)
        self._b.graph.node[-1].output[:] = [joined, key, value]
        return True

    def _cross(self, found: Attention, visible: str, joined: str) -> bool:
        """Append an attention to what a source has left, in single floats."""
        split = self._pattern.split(found.query, HEADS_FIRST)
        query = self._linear(found.query)
        if split is None or query is None or self._half or found.window:
            return False
        ports = [self._product([query.times(found.scale)]), found.key, found.value, self._as_int32(visible)]
        self._b.op("DecoderMaskedMultiHeadAttention", *ports, domain=RUNTIME, num_heads=split[1], scale=1.0)
        self._b.graph.node[-1].output[:] = [joined]
        return True

    def _unturned(self, query: str, key: str, past: str, width: int) -> tuple[str, str, list[str]]:
        """Return queries and keys before they are turned, and the inputs of a node that turns them; [] if none can."""
        one, other = self._pattern.turned(query), self._pattern.turned(key)
        if one is None or other is None or one[1:] != other[1:]:
            return query, key, []
        if self._half or width % TURNED_STEP or one.angles % ANGLES_STEP:
            return query, key, []
        return one.source, other.source, [*(self._table(name, one.angles, past) for name in one[1:3]), self._rows(past)]

    def _packed(self, parts: list[str], scale: float) -> list[str]:
        """Return queries times a factor, keys and values as one product, and two empty inputs; [] if they are none."""
        query, *others = (self._linear(part) for part in parts)
        packed = [other for other in others if query and other and other.x == query.x]
        if query is None or packed != others:
            return []
        return [self._product([query.times(scale), *packed]), "", ""]

    def _flat(self, part: str, width: int, scale: float = 1.0) -> str:
        """Return queries, keys or values of each head as (batch, 1, width), times a factor."""
        b = self._b
        split = self._pattern.split(part, HEADS_FIRST)
        flat = split[0] if split else b.op("Reshape", part, b.constant([-1, 1, width]))
        return flat if scale == 1 else b.op("Mul", flat, b.constant(scale, np.float32))

    def _product(self, parts: list[_Linear]) -> str:
        """Return several linear maps of the same input, one beside the other."""
        b, biases = self._b, [part.bias for part in parts]
        matrix = np.hstack([part.weight for part in parts])
        product = b.op("MatMul", parts[0].x, b.constant(matrix, matrix.dtype))
        if all(bias is None for bias in biases):
            return product
        added = np.hstack([np.zeros_like(part.weight[0]) if part.bias is None else part.bias for part in parts])
        return b.op("Add", product, b.constant(added, matrix.dtype))

    def _cached(self, present: str) -> tuple[str, str] | None:
        """Return the cache of before, and the keys or values (batch, heads, 1, width of a head) that are written."""
        put = self._pattern.producer("ScatterND", present)
        spread = self._pattern.producer("Expand", put.input[2]) if put else None
        chosen = self._pattern.producer("Gather", spread.input[0]) if spread else None
        return (put.input[0], chosen.input[0]) if put and chosen and put.input[0] in self._axes else None

    def _linear(self, part: str) -> _Linear | None:
        """Return the linear map that queries, keys or values of each head are the result of."""
        split = self._pattern.split(part, HEADS_FIRST)
        if split is None:
            return None
        weights = self._pattern.weights
        found = self._pattern.linear(split[0])
        product, bias = found or (self._pattern.producer("MatMul", split[0]), None)
        if product is None or product.input[1] not in weights:
            return None
        added = numpy_helper.to_array(weights[bias]) if bias else None
        return _Linear(product.input[0], numpy_helper.to_array(weights[product.input[1]]), added)

    def _once(self, key: str, make: Callable[[], str]) -> str:
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def _as_int32(self, name: str) -> str:
        return self._once(f"int32 {name}", lambda: self._b.op("Cast", name, to=TensorProto.INT32))

    def _capacity(self, past: str) -> str:
        """Return the slots of caches (1), int32."""
        b = self._b
        return self._once("capacity", lambda: b.op("Cast", b.op("Shape", past, start=2, end=3), to=TensorProto.INT32))

    def _table(self, angles: str, count: int, past: str) -> str:
        """Return what rows are turned by, cosines or sines (row, angle), as a table with rows for all slots too.

        The runtime wants that many, though it looks up only those that it is told.
        """
        b = self._b

        def make() -> str:
            slots = b.op("Shape", past, start=2, end=3)
            behind = b.op("Concat", b.constant([0, 0]), slots, b.constant([0]), axis=0)
            return b.op("Pad", b.op("Reshape", angles, b.constant([-1, count])), behind)

        return self._once(f"table {angles}", make)

    def _rows(self, past: str) -> str:
        """Return where in a table each row looks up what it is turned by (row, 1): 0, 1, 2, ..."""
        b = self._b

        def make() -> str:
            batch = b.op("Squeeze", b.op("Shape", past, end=1))
            return b.op("Unsqueeze", b.op("Range", b.constant(0), batch, b.constant(1)), b.constant([1]))

        return self._once("rows", make)
