"""The inside graph: the numbers that the heads of some layers make of one query and one key.

It is the base graph, of which it reads the queries, keys, values and scores of every layer for one row and one column,
so that little is copied and nothing but a last choice depends on the layers that are asked for.
`export/checks/inside_reference.py` is what it is verified against.
"""

from collections.abc import Mapping, Sequence

import onnx

from contract.manifest import INSIDE
from export.errors import ExportError
from export.graphs.editing.base_graph import copy_base
from export.graphs.editing.builder import FLOAT, Builder
from export.graphs.editing.cleanup import prune
from export.plan import Plan
from export.traced.base import Traced

NOTHING = onnx.NodeProto()

BEHIND_PRODUCTS = {"Where": 2, "Add": 0}
"""What may stand between scaled products and their softmax, a mask and a bias: which of its inputs are the scores."""


def inside_graph(base: onnx.ModelProto, plan: Plan, traced: Traced) -> onnx.ModelProto:
    """Extend the base graph to the inside graph. Raises ExportError where scores are no scaled products."""
    graph, b, _ = copy_base(base, plan, "inside.")
    axes = {port.name: port.axes for port in plan.outputs}
    picked = _pick_as_computed(graph, b, [name for kind in traced.kinds for name in kind.maps])
    for kind in traced.kinds:
        last = b.constant(len(kind.maps) - 1)  # of another kind, which has fewer, nobody reads what is returned
        asked = b.op("Min", f"{kind.name}.layers", last)
        for what in INSIDE:
            name = f"{kind.name}.{what}"
            stacked = b.op("Concat", *(picked[layer][what] for layer in kind.maps), axis=2)
            b.output(name, b.as_float32(b.op("Gather", stacked, asked, axis=2)), FLOAT, axes[name])
    return prune(graph, plan)


def _pick_as_computed(graph: onnx.ModelProto, b: Builder, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Read each attention as soon as it is computed, so that the next layer can reuse its memory."""
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.graph.node]
    del graph.graph.node[:]
    made_by: dict[str, onnx.NodeProto] = {}
    picked: dict[str, dict[str, str]] = {}
    for node in nodes:
        b.adopt([node])
        made_by.update(dict.fromkeys(node.output, node))
        for name in names:
            if name not in picked and {name, f"{name}.value"} <= made_by.keys():
                picked[name] = _picked(b, made_by, name)
    return picked


def _picked(b: Builder, made_by: Mapping[str, onnx.NodeProto], name: str) -> dict[str, str]:
    """Return `INSIDE` of one attention, for the query and the key asked for, each (batch, heads, 1, numbers)."""
    scores = made_by[name].input[0]
    products, node = scores, made_by.get(scores, NOTHING)
    while node.op_type in BEHIND_PRODUCTS:
        products = node.input[BEHIND_PRODUCTS[node.op_type]]
        node = made_by.get(products, NOTHING)
    product = made_by.get(node.input[0], NOTHING) if node.op_type == "Div" else NOTHING
    if product.op_type != "MatMul":
        raise ExportError(f"inside: the scores of {name} must be scaled products, given {node.op_type or 'others'}")
    queries, turned_keys = product.input
    keys, values = b.op("Transpose", turned_keys, perm=[0, 1, 3, 2]), f"{name}.value"
    row, column = _one_hot(b, "query", queries), _one_hot(b, "key", values)
    weights = b.op("MatMul", row, name)
    return {
        "query": b.op("MatMul", row, queries),
        "key": b.op("MatMul", column, keys),
        "products": b.op("MatMul", row, products),
        "scores": b.op("MatMul", row, scores),
        "weights": weights,
        "value": b.op("MatMul", column, values),
        "sum": b.op("MatMul", weights, values),
    }


def _one_hot(b: Builder, position: str, vectors: str) -> str:
    """Return rows (batch, 1, 1, token) that pick the vectors (batch, heads, token, width) at positions (batch)."""
    hot = b.one_hot(position, b.length(vectors, 2))
    return b.op("CastLike", b.op("Unsqueeze", hot, b.constant([1, 2])), vectors)
