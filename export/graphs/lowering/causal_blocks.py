"""Compute causal attention in blocks of queries, so that a CPU computes less of what is hidden from them."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import onnx

from export.graphs.editing.builder import Builder
from export.graphs.editing.cleanup import drop_unused
from export.graphs.lowering.fusion import KEY_TRANSPOSED, Attention, AttentionPattern
from export.graphs.lowering.masks import HIDING

BLOCKS = 4
"""Of n blocks, block i reads i/n of all keys, so (n + 1)/2n of all scores are computed: five eighths."""

MAX_WHOLE_TOKENS = 256
"""Up to this number of tokens are computed in one piece, which is as quick."""


def split_causal_attention(graph: onnx.ModelProto, longest: int) -> onnx.ModelProto:
    """Return a graph that takes up to `longest` tokens with each causal attention in `BLOCKS` blocks of queries.

    Up to `MAX_WHOLE_TOKENS` are not split. A block reads the keys up to its last query and, where queries see windows,
    from the first that its first query sees. The others would have weights of 0, so the results are the same.
    Attentions with another mask, and those whose weights are used, stay as they are.
    """
    if longest <= MAX_WHOLE_TOKENS:
        return graph
    pattern = AttentionPattern(graph)
    b = Builder(graph, "blocks.")
    given = list(graph.graph.node)
    masks = dict[str, _CausalMask]()
    del graph.graph.node[:]
    for node in given:
        found = pattern.find(node, heads_split=True)
        if found is None or not found.causal or found.hidden is None:
            graph.graph.node.append(node)
            continue
        if found.hidden not in masks:
            masks[found.hidden] = _CausalMask(b, found.hidden)
        (key, shared), (value, same) = (pattern.shared_by_heads(name) for name in (found.key, found.value))
        if shared == same > 1:
            masks[found.hidden].attend_shared(replace(found, key=key, value=value), shared)
        else:
            masks[found.hidden].attend(found)
    return drop_unused(graph)


class _CausalMask:
    """What is hidden from each query (query, key), and the attentions that hide it."""

    def __init__(self, b: Builder, hidden: str) -> None:
        self._b = b
        length = b.op("Shape", hidden, start=-1)
        self._many = b.op("Greater", b.op("Squeeze", length), b.constant(MAX_WHOLE_TOKENS))
        self._start, blocks = b.constant([0]), b.constant([BLOCKS])
        ends = [b.op("Div", b.op("Mul", length, b.constant([block])), blocks) for block in range(1, BLOCKS)]
        self._bounds = [self._start, *ends, length]
        self._whole = b.op("Where", hidden, b.constant(HIDING, np.float32), b.constant(0, np.float32))

    def attend(self, found: Attention) -> None:
        """Append the nodes of an attention: all queries at once, or block after block if there are many."""
        turned, keys = (KEY_TRANSPOSED, 1) if found.key_turned else ([0, 1, 3, 2], -2)
        self._attend(found, turned, keys)
        self._b.graph.node[-1].output[0] = found.output

    def attend_shared(self, found: Attention, shared: int) -> None:
        """Append those of an attention whose keys and values `shared` heads share (batch, key heads, key, width).

        Heads are split in groups (batch, key heads, heads of a group, query, width), so that nothing is repeated.
        """
        b = self._b
        shape = b.op("Shape", found.query)
        before, behind = b.op("Shape", found.query, end=1), b.op("Shape", found.query, start=2)
        groups = b.op("Concat", before, b.constant([-1, shared]), behind, axis=0)
        query = b.op("Reshape", found.query, groups)
        key, value = (b.op("Unsqueeze", name, b.constant([2])) for name in (found.key, found.value))
        mixed = self._attend(replace(found, query=query, key=key, value=value), [0, 1, 2, 4, 3], -2)
        b.op("Reshape", mixed, shape)
        b.graph.node[-1].output[0] = found.output

    def _attend(self, found: Attention, turned: list[int], keys: int) -> str:
        """Mix the values of each query; `turned` is how a key is transposed, `keys` its axis of keys."""
        b = self._b

        def whole() -> list[str]:
            return [self._mix(found, found.query, found.key, found.value, self._whole, turned)]

        def blocks() -> list[str]:
            mixed = [self._block(found, first, end, turned, keys) for first, end in pairwise(self._bounds)]
            return [b.op("Concat", *mixed, axis=-2)]

        return b.branch(self._many, blocks, whole)[0]

    def _block(self, found: Attention, first: str, end: str, turned: list[int], keys: int) -> str:
        """Mix values for the queries from `first` up to `end`, which see no key from `end` on."""
        b, start = self._b, self._start
        if found.window:
            start = b.op("Max", b.op("Sub", first, b.constant([found.window - 1])), start)
        query = self._slice(found.query, first, end, -2)
        key = self._slice(found.key, start, end, keys)
        value = self._slice(found.value, start, end, -2)
        mask = self._slice(self._slice(self._whole, first, end, -2), start, end, -1)
        return self._mix(found, query, key, value, mask, turned)

    def _mix(self, found: Attention, query: str, key: str, value: str, mask: str, turned: list[int]) -> str:
        b = self._b
        key = b.op("Transpose", key, perm=turned)
        scores = b.op("Mul", b.op("MatMul", query, key), b.constant(found.scale, np.float32))
        return b.op("MatMul", b.op("Softmax", b.op("Add", scores, mask), axis=-1), value)

    def _slice(self, x: str, first: str, end: str, axis: int) -> str:
        return self._b.op("Slice", x, first, end, self._b.constant([axis]))
