"""Attention as one node, which is how a GPU's flash kernels are reached: in graphs that return no weights."""

from collections import defaultdict
from dataclasses import dataclass

import onnx
from onnx import helper, numpy_helper

from export.graphs.builder import INT64, Builder
from export.graphs.cleanup import finish
from export.plan import Plan

OPSET = 24
"""The first whose `Attention` takes true lengths (`nonpad_kv_seqlen`); a mask would keep flash kernels away."""

SPLIT, TURNED, CACHED = [0, 2, 1, 3], [0, 2, 3, 1], [0, 1, 3, 2]
"""How axes are moved: heads before tokens; the same of keys, turned for the product; keys of a cache, turned."""


def fused(graph: onnx.ModelProto, plan: Plan) -> onnx.ModelProto:
    """Return the graph with softmax(QKᵀ/√d + hidden) V as an `Attention` node each, wherever it stands so.

    What hides keys becomes true lengths, or causality: nothing at all, padding on the right, later tokens, and slots of
    a cache behind a position. An attention that is hidden otherwise stays as it is, and so does one whose weights are
    read.
    """
    pattern = _Pattern(graph)
    given, written = list(graph.graph.node), set()
    del graph.graph.node[:]
    for node in given:
        attention = pattern.find(node)
        if attention:
            pattern.write(attention)
            written.add(attention.output)
        elif not written.intersection(node.output):
            graph.graph.node.append(node)
    return finish(graph, plan)


@dataclass(frozen=True)
class _Found:
    """One attention: its query, key and value, what its output is called, and what hides keys."""

    query: str
    key: str
    value: str
    output: str
    scale: float
    heads: int | None
    """Of tensors (batch, token, heads x width); None where these are (batch, heads, token, width)."""
    turned: bool
    """The key is (batch, token, heads, width), beside a query and a value that are not."""
    visible: str | None
    """The true length of keys: an input that is True where there is a token, or the position of the last."""
    causal: bool


class _Pattern:
    """What produces and what uses each tensor of a graph."""

    def __init__(self, graph: onnx.ModelProto) -> None:
        self._b = Builder(graph, "fused.")
        self._made = {name: node for node in graph.graph.node for name in node.output}
        self._users: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in graph.graph.node:
            for name in node.input:
                self._users[name].append(node)
        self._tensors = {tensor.name: tensor for tensor in graph.graph.initializer}
        self._inputs = {value.name: value.type.tensor_type.elem_type for value in graph.graph.input}
        self._outputs = {value.name for value in graph.graph.output}
        self._lengths: dict[str, str] = {}

    def find(self, mix: onnx.NodeProto) -> _Found | None:
        """Return the attention whose last step is the product of weights and values."""
        softmax = self._by("Softmax", mix.input[0]) if mix.op_type == "MatMul" else None
        if softmax is None or len(self._users[mix.input[0]]) > 1 or mix.input[0] in self._outputs:
            return None
        hidden = self._by("Where", softmax.input[0])
        scaled = self._by("Div", hidden.input[2] if hidden else softmax.input[0])
        scores = self._by("MatMul", scaled.input[0]) if scaled else None
        key = self._by("Transpose", scores.input[1]) if scores else None
        known = self._known(hidden.input[0]) if hidden else (None, False)
        if scaled is None or scores is None or key is None or known is None:
            return None
        scale = 1 / float(numpy_helper.to_array(self._tensors[scaled.input[1]]))
        visible, causal = known
        flat = self._flat(scores.input[0], key, mix)
        if flat:
            query, source, value, output, heads = flat
            return _Found(query, source, value, output, scale, heads, False, visible, causal)
        turned = _perm(key) == TURNED
        return _Found(scores.input[0], key.input[0], mix.input[1], mix.output[0], scale, None, turned, visible, causal)

    def write(self, found: _Found) -> None:
        """Add the node."""
        b = self._b
        key = b.op("Transpose", found.key, perm=SPLIT) if found.turned else found.key
        lengths = ["", "", "", self._length(found.visible)] if found.visible else []
        heads = {"q_num_heads": found.heads, "kv_num_heads": found.heads} if found.heads else {}
        causal = {"is_causal": 1} if found.causal else {}
        b.op("Attention", found.query, key, found.value, *lengths, scale=found.scale, **heads, **causal)
        b.graph.node[-1].output[0] = found.output

    def _length(self, visible: str) -> str:
        """Return how many keys each row has, which is counted once."""
        if visible not in self._lengths:
            b = self._b
            if self._inputs[visible] == INT64:
                self._lengths[visible] = b.op("Add", visible, b.constant([1]))
            else:
                self._lengths[visible] = b.reduce("ReduceSum", b.op("Cast", visible, to=INT64), 1, keep=False)
        return self._lengths[visible]

    def _flat(self, query: str, key: onnx.NodeProto, mix: onnx.NodeProto) -> tuple[str, str, str, str, int] | None:
        """Return query, key, value and output before heads are split and after they are joined, and how many there are.

        So nothing need be moved in memory. A value that is used elsewhere too, as a cache, is there either way.
        """
        split = [self._split(query, SPLIT), self._split(key.output[0], TURNED), self._split(mix.input[1], SPLIT)]
        turned = self._only_user("Transpose", mix.output[0])
        joined = self._only_user("Reshape", turned.output[0]) if turned else None
        if joined is None or turned is None or _perm(turned) != SPLIT or None in split:
            return None
        (first, heads), (second, same), (third, too) = (one for one in split if one)
        return (first, second, third, joined.output[0], heads) if heads == same == too else None

    def _split(self, name: str, perm: list[int]) -> tuple[str, int] | None:
        """Return what a tensor was before its heads were split, and their number."""
        moved = self._by("Transpose", name)
        shaped = self._by("Reshape", moved.input[0]) if moved and _perm(moved) == perm else None
        if shaped is None:
            return None
        joined = self._by("Concat", shaped.input[1])
        sizes: list[int] = []
        for part in reversed(joined.input if joined else shaped.input[1:]):
            if part not in self._tensors:
                break
            sizes = [*numpy_helper.to_array(self._tensors[part]).reshape(-1).tolist(), *sizes]
        return (shaped.input[0], sizes[-2]) if len(sizes) > 1 and sizes[-2] > 0 else None

    def _known(self, hidden: str) -> tuple[str | None, bool] | None:
        """Return which keys can be seen: (the input that says it, causality); None where it is another rule."""
        turned = self._by("Not", hidden)
        visible = self._inner(turned.input[0]) if turned else ""
        if visible in self._inputs:
            return visible, False
        order = self._by("LessOrEqual", visible)
        if order is None or self._by("Range", order.input[0]) is None:
            return None
        latest = self._inner(order.input[1])
        if latest in self._inputs:
            return latest, False
        return (None, True) if latest == order.input[0] else None

    def _inner(self, name: str) -> str:
        """Return a tensor without the axes that were added to it."""
        while node := self._by("Unsqueeze", name):
            name = node.input[0]
        return name

    def _by(self, kind: str, name: str) -> onnx.NodeProto | None:
        node = self._made.get(name)
        return node if node is not None and node.op_type == kind else None

    def _only_user(self, kind: str, name: str) -> onnx.NodeProto | None:
        users = self._users[name]
        return users[0] if len(users) == 1 and users[0].op_type == kind and name not in self._outputs else None


def _perm(node: onnx.NodeProto) -> list[int]:
    return next((list(helper.get_attribute_value(one)) for one in node.attribute if one.name == "perm"), [])
