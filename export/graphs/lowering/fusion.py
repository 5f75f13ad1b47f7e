"""Fuse attention to one `Attention` node, for which a GPU has flash kernels, in graphs that return no maps."""

from dataclasses import dataclass
from typing import NamedTuple

import onnx
from onnx import numpy_helper

from export.graphs.editing.builder import INT64, Builder
from export.graphs.editing.cleanup import prune
from export.graphs.editing.tensors import Tensors, permutation
from export.plan import Plan

FUSION_OPSET = 24
"""The first opset whose `Attention` takes true lengths (`nonpad_kv_seqlen`). Flash kernels take no mask."""

HEADS_FIRST = [0, 2, 1, 3]
"""The permutation (batch, token, heads, width) -> (batch, heads, token, width)."""

KEY_TRANSPOSED = [0, 2, 3, 1]
"""The permutation (batch, token, heads, width) -> (batch, heads, width, token), for the product with queries."""


def fuse_attention(graph: onnx.ModelProto, plan: Plan) -> onnx.ModelProto:
    """Replace every softmax(QKᵀ/√d + mask) V by an `Attention` node.

    The mask becomes true lengths or causality. It may be absent, hide padding on the right, later tokens, or the slots
    of a cache after a position. An attention with any other mask stays as it is, such as one that sees the last tokens
    only, as does one whose weights are used.
    """
    pattern = AttentionPattern(graph)
    given = list(graph.graph.node)
    written = set()
    del graph.graph.node[:]
    for node in given:
        attention = pattern.find(node)
        if attention and attention.window is None:
            pattern.write(attention)
            written.add(attention.output)
        elif not written.intersection(node.output):
            graph.graph.node.append(node)
    return prune(graph, plan)


@dataclass(frozen=True)
class Attention:
    """One attention in a graph: the names of its tensors, and what hides keys."""

    query: str
    key: str
    value: str
    output: str
    scale: float
    heads: int | None
    """The number of heads if tensors are (batch, token, heads x width); None if (batch, heads, token, width)."""
    key_turned: bool
    """True if the key is (batch, token, heads, width), other than query and value."""
    visible: str | None
    """The input that gives the true length of keys: a mask that is True at tokens, or the position of the last."""
    causal: bool
    hidden: str | None
    """The mask, True where a key is hidden from a query; None if there is none."""
    window: int | None
    """The number of the last keys that a query sees, its own among them; None if it sees all before it."""


class Turned(NamedTuple):
    """How queries or keys (batch, heads, token, width of a head) are turned."""

    source: str
    """What is turned."""
    cosine: str
    sine: str
    """(..., token, angle) each."""
    angles: int


class AttentionPattern(Tensors):
    """Finds attentions in a graph by what produces and what uses each tensor, and writes them as one node."""

    def __init__(self, graph: onnx.ModelProto) -> None:
        super().__init__(graph)
        self._b = Builder(graph, "fused.")
        self._inputs = {value.name: value.type.tensor_type.elem_type for value in graph.graph.input}
        # masks whose lengths vary are of padding; any cell of an image may be hidden
        self._of_padding = {
            value.name
            for value in graph.graph.input
            if not any(one.HasField("dim_value") for one in value.type.tensor_type.shape.dim)
        }
        self._lengths: dict[str, str] = {}

    def find(self, mix: onnx.NodeProto, *, heads_split: bool = False) -> Attention | None:
        """Return the attention whose last node is this product of weights and values, or None.

        Its tensors are those before heads are split and after they are joined, where the graph allows it and
        `heads_split` is not set.
        """
        softmax = self.producer("Softmax", mix.input[0]) if mix.op_type == "MatMul" else None
        if softmax is None or len(self.users[mix.input[0]]) > 1 or mix.input[0] in self.outputs:
            return None
        hidden = self.producer("Where", softmax.input[0])
        scaled = self.producer("Div", hidden.input[2] if hidden else softmax.input[0])
        scores = self.producer("MatMul", scaled.input[0]) if scaled else None
        key = self.producer("Transpose", scores.input[1]) if scores else None
        known = self._visibility(hidden.input[0]) if hidden else (None, False, None)
        if scaled is None or scores is None or key is None or known is None:
            return None
        scale = 1 / float(numpy_helper.to_array(self.weights[scaled.input[1]]))
        visible, causal, window = known
        mask = (visible, causal, hidden.input[0] if hidden else None, window)
        unsplit = None if heads_split else self._unsplit(scores.input[0], key, mix)
        if unsplit:
            query, source, value, output, heads = unsplit
            return Attention(query, source, value, output, scale, heads, False, *mask)
        turned = permutation(key) == KEY_TRANSPOSED
        return Attention(scores.input[0], key.input[0], mix.input[1], mix.output[0], scale, None, turned, *mask)

    def write(self, found: Attention) -> None:
        """Append the `Attention` node."""
        b = self._b
        key = b.op("Transpose", found.key, perm=HEADS_FIRST) if found.key_turned else found.key
        lengths = ["", "", "", self._length(found.visible)] if found.visible else []
        heads = {"q_num_heads": found.heads, "kv_num_heads": found.heads} if found.heads else {}
        causal = {"is_causal": 1} if found.causal else {}
        b.op("Attention", found.query, key, found.value, *lengths, scale=found.scale, **heads, **causal)
        b.graph.node[-1].output[0] = found.output

    def _length(self, visible: str) -> str:
        """Return the number of keys of each row. It is computed once per input."""
        if visible not in self._lengths:
            b = self._b
            if self._inputs[visible] == INT64:
                self._lengths[visible] = b.op("Add", visible, b.constant([1]))
            else:
                self._lengths[visible] = b.reduce("ReduceSum", b.op("Cast", visible, to=INT64), 1, keep=False)
        return self._lengths[visible]

    def _unsplit(self, query: str, key: onnx.NodeProto, mix: onnx.NodeProto) -> tuple[str, str, str, str, int] | None:
        """Return query, key, value before their heads are split, the output after they are joined, and their number.

        Such an attention needs no transposes. Returns None if the graph has another form.
        """
        split = [
            self.split(query, HEADS_FIRST),
            self.split(key.output[0], KEY_TRANSPOSED),
            self.split(mix.input[1], HEADS_FIRST),
        ]
        joined = self.joined(mix.output[0])
        if joined is None or None in split:
            return None
        (first, heads), (second, same), (third, too) = (one for one in split if one)
        return (first, second, third, joined, heads) if heads == same == too else None

    def joined(self, mixed: str) -> str | None:
        """Return what the heads of an attention's output are joined to; None if something else reads them too."""
        turned = self.only_user("Transpose", mixed)
        joined = self.only_user("Reshape", turned.output[0]) if turned else None
        return joined.output[0] if turned and joined and permutation(turned) == HEADS_FIRST else None

    def split(self, name: str, perm: list[int]) -> tuple[str, int] | None:
        """Return the tensor before its heads were split, and their number; None if they were not."""
        moved = self.producer("Transpose", name)
        shaped = self.producer("Reshape", moved.input[0]) if moved and permutation(moved) == perm else None
        if shaped is None:
            return None
        joined = self.producer("Concat", shaped.input[1])
        sizes: list[int] = []
        for part in reversed(joined.input if joined else shaped.input[1:]):
            if part not in self.weights:
                break
            sizes = [*numpy_helper.to_array(self.weights[part]).reshape(-1).tolist(), *sizes]
        return (shaped.input[0], sizes[-2]) if len(sizes) > 1 and sizes[-2] > 0 else None

    def turned(self, name: str) -> Turned | None:
        """Return how a tensor was turned, if it was as `rotated` in model/parts/attention.py does it."""
        joined = self.producer("Concat", name)
        parts = list(joined.input) if joined else []
        less, more = (self._two(kind, half) for kind, half in zip(("Sub", "Add"), [*parts, "", ""], strict=False))
        (first, cosine), (second, sine) = (self._two("Mul", one) for one in less)
        if not first or [self._two("Mul", one) for one in more] != [(second, cosine), (first, sine)]:
            return None
        cuts = [self.producer("Slice", one) for one in (first, second, *parts[2:])]
        bounds = [(cut.input[0], self._number(cut.input[1])) for cut in cuts if cut]
        angles = self._number(cuts[0].input[2]) if cuts[0] else 0
        source = bounds[0][0] if bounds else ""
        as_cut = [(source, place * angles) for place in range(len(parts))]
        return Turned(source, cosine, sine, angles) if bounds == as_cut else None

    def shared_by_heads(self, name: str) -> tuple[str, int]:
        """Return the keys or values that heads share, and the number of heads that share each, of what each is given.

        These are the tensor itself and 1 if none are shared.
        """
        shaped = self.producer("Reshape", name)
        spread = self.producer("Expand", shaped.input[0]) if shaped else None
        apart = self.producer("Unsqueeze", spread.input[0]) if spread else None
        if spread is None or apart is None or spread.input[1] not in self.weights:
            return name, 1
        return apart.input[0], int(numpy_helper.to_array(self.weights[spread.input[1]]).prod())

    def _two(self, kind: str, name: str) -> tuple[str, str]:
        """Return what a node of a kind reads that makes a tensor, two tensors; two empty names of another node."""
        node = self.producer(kind, name)
        return (node.input[0], node.input[1]) if node else ("", "")

    def _number(self, name: str) -> int:
        """Return a constant number; -1 of another tensor."""
        return int(numpy_helper.to_array(self.weights[name]).item()) if name in self.weights else -1

    def _visibility(self, hidden: str) -> tuple[str | None, bool, int | None] | None:
        """Return what a mask is: (the input that gives true lengths, causal, window), or None if it is another."""
        turned = self.producer("Not", hidden)
        visible = self._without_unsqueeze(turned.input[0]) if turned else ""
        if visible in self._inputs:
            return (visible, False, None) if visible in self._of_padding else None
        if near := self.producer("And", visible):
            seen, window = self._order(near.input[0]), self._window(near.input[1])
            return (*seen, window) if seen and window else None
        seen = self._order(visible)
        return (*seen, None) if seen else None

    def _order(self, visible: str) -> tuple[str | None, bool] | None:
        """Return (the input that gives the position of the last, causal) of keys up to a position; None of others."""
        keys, latest = (
            self._without_unsqueeze(one) for one in self._two("LessOrEqual", self._without_unsqueeze(visible))
        )
        if self.producer("Range", keys) is None:
            return None
        if latest in self._inputs:
            return latest, False
        return (None, True) if latest == keys else None

    def _window(self, near: str) -> int | None:
        """Return how many keys are less than this number before each query; None of another mask."""
        distance, reach = self._two("Less", self._without_unsqueeze(near))
        query, key = (self._without_unsqueeze(one) for one in self._two("Sub", self._without_unsqueeze(distance)))
        known = self.producer("Range", key) is not None and (query == key or query in self._inputs)
        return self._number(reach) if known else None

    def _without_unsqueeze(self, name: str) -> str:
        """Return the tensor that `Unsqueeze` nodes added axes to."""
        while node := self.producer("Unsqueeze", name):
            name = node.input[0]
        return name
