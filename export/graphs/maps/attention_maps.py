"""Maps and diagnostics, computed from the weights of a base graph: what the attention graph adds to it.

What it computes is defined in `model/methods/explanations.py`, against which it is verified. Everything is reduced
here, in the graph, and what is not asked for is not computed: it is behind an `If`, or has no rows. (Rollout fuses the
heads of all layers of a kind, whichever of them it then multiplies.)
"""

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import onnx

from contract.input_rules import ImageRule
from contract.manifest import FUSIONS, GRAPH_METHODS, Kind
from export.graphs.editing.base_graph import row_vectors, selected_layers, sum_parallel
from export.graphs.editing.builder import BOOL, FLOAT, INT64, Builder
from export.graphs.maps.figures import distance, distributions, patch_distances, sink
from export.graphs.maps.norms import norms_of_layer
from export.traced.base import Traced


def copy_if_selected(graph: onnx.ModelProto, b: Builder, traced: Traced) -> str:
    """Copy all weights and values to `<name>.seen` in float32 as they are computed, if any row is selected.

    So is the state after a layer that is selected, with an axis for the layer. Otherwise each copy is empty, so that
    the memory of one layer can be reused for the next: the nodes that read copies are at the end of the graph, and
    would keep all of them alive. Returns whether any row is selected.
    """
    computed, kinds = list(graph.graph.node), traced.kinds
    any_row = [b.op("Greater", b.length(f"{kind.name}.rows", 0), b.constant(0)) for kind in kinds]
    selected = functools.reduce(functools.partial(b.op, "Or"), any_row, "diagnose")
    values_selected = b.op("And", selected, b.op("Equal", "method", b.constant(GRAPH_METHODS.index("norm"))))
    after = {state: _is_among(b, layer, kinds[0]) for layer, state in enumerate(traced.returned_states)}
    first = list(graph.graph.node)[len(computed) :]
    taps: dict[str, onnx.NodeProto] = {}
    for kind in kinds:
        for name in kind.maps:
            for tensor, condition in ((name, selected), (f"{name}.value", values_selected)):
                b.branch(condition, functools.partial(_cast, b, tensor), functools.partial(_nothing, b, kind))
                taps[tensor] = graph.graph.node[-1]
                taps[tensor].output[0] = f"{tensor}.seen"
    for state, condition in after.items():
        b.branch(condition, functools.partial(_layer_of, b, state), functools.partial(_no_layer_of, b, state))
        taps[state] = graph.graph.node[-1]
        taps[state].output[0] = f"{state}.seen"
    nodes = first
    for node in computed:
        nodes += [node, *(taps[name] for name in node.output if name in taps)]
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    return selected


def _cast(b: Builder, tensor: str) -> list[str]:
    return [b.as_float32(tensor)]


def _nothing(b: Builder, kind: Kind) -> list[str]:
    return [b.empty(*[0] * (5 if kind.windows else 4))]


def states_after_layers(b: Builder, traced: Traced) -> str:
    """Return the states after the layers that are selected, (batch, layers in their order, token, width)."""
    return b.op("Concat", *(f"{state}.seen" for state in traced.returned_states), axis=1)


def _is_among(b: Builder, layer: int, kind: Kind) -> str:
    """Return whether the states after a layer are selected."""
    equal = b.op("Cast", b.op("Equal", f"{kind.name}.after", b.constant(layer)), to=INT64)
    return b.op("Greater", b.reduce("ReduceSum", equal, 0, keep=False), b.constant(0))


def _layer_of(b: Builder, state: str) -> list[str]:
    return [b.op("Unsqueeze", b.as_float32(state), b.constant([1]))]


def _no_layer_of(b: Builder, state: str) -> list[str]:
    return [b.op("Slice", *_layer_of(b, state), b.constant([0]), b.constant([0]), b.constant([1]))]


class MapsBuilder:
    """Builds maps and diagnostics of one kind from its weights (batch, heads, query, key) and values."""

    heads_axis = 1

    def __init__(
        self,
        b: Builder,
        kind: Kind,
        selected: str,
        output_projections: Sequence[npt.NDArray[np.generic]],
        image: ImageRule | None,
        visible: str | None = None,
    ) -> None:
        self.b = b
        self.kind = kind
        self.selected = selected
        self.weights = [f"{name}.seen" for name in kind.maps]
        self.values = [f"{name}.value.seen" for name in kind.maps]
        self.output_projections = output_projections
        self.image = image
        self.shares = _shares_of(b, visible) if visible else None
        """What part each row is of the mean of all rows, (batch, 1, query), if those of hidden cells are none of it."""
        self.layers, self.rows, self.heads, self.special, self.discard, self.sinks = (
            f"{kind.name}.{name}" for name in ("layers", "rows", "heads", "special", "discard", "sinks")
        )

    def maps(self, axes: Sequence[int | str]) -> str:
        """Return the maps asked for, (batch, heads, layers, rows, key), or an empty tensor if no row is selected.

        `axes` are those of the output, which tell whether the length of the last is fixed.
        """
        key = axes[-1] if isinstance(axes[-1], int) else 0
        makers: dict[str, Callable[[], str]] = {
            "raw": self.raw,
            "rollout": lambda: self.rollout(key),
            "norm": self.norm,
        }
        served: dict[str, Callable[[], str]] = {
            name: makers[name] for name in GRAPH_METHODS if name in self.kind.methods
        }
        return self.b.branch(
            self.selected,
            lambda: [_switch(self.b, "method", GRAPH_METHODS, served)],
            lambda: [self.b.empty(0, 0, 0, 0, key)],
        )[0]

    def raw(self) -> str:
        """Return the weights of the selected layers and rows, of the selected heads or fused over all."""
        b = self.b
        selected = zip(self.weights, self.rows_by_layer(), strict=True)
        picked = [self.picked(name, rows) for name, rows in selected]
        joined = b.op("Concat", *picked, axis=2)  # (batch, heads, layers x rows, key)
        fused = _switch(
            b,
            "fusion",
            FUSIONS,
            {
                "each": lambda: b.op("Gather", joined, self.heads, axis=1),
                "mean": lambda: b.reduce("ReduceMean", joined, 1),
                "max": lambda: b.reduce("ReduceMax", joined, 1),
                "min": lambda: b.reduce("ReduceMin", joined, 1),
            },
        )
        return self.split_layers(fused)

    def picked(self, weights: str, rows: str) -> str:
        """Return the rows of weights (batch, heads, query, key), or the mean of all rows for the row -1."""
        b = self.b

        def rows_alone() -> list[str]:
            return [b.op("Gather", weights, rows, axis=2)]

        if not self.kind.averages:
            return rows_alone()[0]
        return b.branch(self.asks_for_mean(), lambda: [self._mean_of(weights, rows, 2)], rows_alone)[0]

    def asks_for_mean(self) -> str:
        """Return whether the row that is asked for is the mean of all."""
        return self.b.op("Less", self.b.reduce("ReduceSum", self.rows, 0, keep=False), self.b.constant(0))

    def _mean_of(self, x: str, rows: str, axis: int) -> str:
        """Return the mean along an axis, the last but one, once for each of the rows, of which there is one or none."""
        b = self.b
        if self.shares:
            shares = b.op("Unsqueeze", self.shares, b.constant([1])) if axis == 2 else self.shares
            mean = b.op("MatMul", shares, x)
        else:
            mean = b.reduce("ReduceMean", x, axis)
        return b.op("Gather", mean, b.op("Add", rows, b.constant(1)), axis=axis)

    def rollout(self, key: int) -> str:
        """Return the selected rows of `explanations.rollout`; rows are normalised as they are multiplied.

        `key` is the length of the last axis of an answer without rows.
        """
        b = self.b
        shape = b.op("Concat", b.op("Shape", self.weights[0], end=1), b.constant([1, 1, 0, key]), axis=0)
        return b.branch(
            b.op("Greater", b.length(self.rows, 0), b.constant(0)),
            lambda: [self.followed()],
            lambda: [b.zeros(shape)],
        )[0]

    def followed(self) -> str:
        """Return the rows of `explanations.rollout`."""
        b = self.b
        fused = self.fused_heads()
        length = b.length(fused[0], 2)
        cut = b.branch(
            b.op("Greater", self.discard, b.constant(0)),
            lambda: [_discard_smallest(b, layer, length, self.discard) for layer in fused],
            lambda: fused,
        )
        joint = row_vectors(b, self.kind, self.rows, length, self.shares)
        if not self.shares:
            joint = b.op("Unsqueeze", joint, b.constant([0]))  # (1, row, key), where a mean of shares has a batch
        for included, layer in reversed(sum_parallel(b, self.kind, cut)):
            total = b.op("Add", b.reduce("ReduceSum", layer, 2, keep=False), b.constant(1, np.float32))
            share = b.op("Div", joint, b.op("Unsqueeze", total, b.constant([1])))
            further = b.op("Add", share, b.op("MatMul", share, layer))  # joint @ rownorm(layer + I)
            joint = b.op("Where", included, further, joint)
        return b.op("Unsqueeze", joint, b.constant([1, 2]))

    def norm(self) -> str:
        """Return `explanations.norms` of the selected layers and rows; a layer without rows is not computed."""
        b = self.b
        layers: list[str] = []
        projections = self.output_projections
        for weights, value, projection, rows in zip(
            self.weights, self.values, projections, self.rows_by_layer(), strict=True
        ):
            any_row = b.op("Greater", b.length(rows, 0), b.constant(0))
            alpha = b.op("Gather", weights, rows, axis=2)
            layers += b.branch(
                any_row,
                functools.partial(self._norms_of_rows, value, projection, weights, alpha, rows),
                functools.partial(_no_norms, b, alpha),
            )
        return self.split_layers(b.op("Unsqueeze", b.op("Concat", *layers, axis=1), b.constant([1])))

    def _norms_of_rows(
        self, value: str, projection: npt.NDArray[np.generic], weights: str, alpha: str, rows: str
    ) -> list[str]:
        """Return the norms of the rows `alpha` of weights, or the mean of all rows' norms."""

        def rows_alone() -> list[str]:
            return norms_of_layer(self.b, self.kind.heads, value, projection, alpha)

        def mean() -> list[str]:
            return [self._mean_of(norms_of_layer(self.b, self.kind.heads, value, projection, weights)[0], rows, 1)]

        return self.b.branch(self.asks_for_mean(), mean, rows_alone) if self.kind.averages else rows_alone()

    def diagnostics(self) -> str:
        """Return (batch, layer, head, query, figure), as `FIGURES` has them."""
        b = self.b

        def figures() -> list[str]:
            layers = [b.op("Unsqueeze", found, b.constant([1])) for found in self.figures_of_layers()]
            return [b.op("Concat", *layers, axis=1)]

        return b.branch("diagnose", figures, lambda: [b.empty(0, 0, 0, 0, 0)])[0]

    def figures_of_layers(self) -> Iterator[str]:
        """Yield the figures of each layer, (batch, heads, query, figure)."""
        b = self.b
        special = b.op("Unsqueeze", b.op("Cast", self.special, to=FLOAT), b.constant([1, 3]))
        places = patch_distances(b, self.kind, self.image)
        tiny = b.constant(1e-30, np.float32)
        for weights in (distributions(b, self.kind, weights) for weights in self.weights):
            log = b.op("Log", b.op("Max", weights, tiny))
            found = [
                b.op("Neg", b.reduce("ReduceSum", b.op("Mul", weights, log), 3)),
                b.op("MatMul", weights, special),
                *([distance(b, self.kind, weights, places)] if places else []),
            ]
            if places and self.kind.has_sinks:
                found.append(b.op("Expand", sink(b, self.kind, weights), b.op("Shape", found[0])))
            yield b.op("Concat", *found, axis=3)

    def fused_heads(self) -> list[str]:
        """Return every layer's weights fused over heads (batch, query, key), by the control `fusion`."""
        if not self.kind.has_sinks:
            return self._fused(self.weights)
        b = self.b
        return b.branch(
            b.op("Greater", self.sinks, b.constant(0, np.float32)),
            lambda: self._fused([self._without_sinks(layer) for layer in self.weights]),
            lambda: self._fused(self.weights),
        )

    def _fused(self, layers: Sequence[str]) -> list[str]:
        b = self.b

        def all_by(kind: str) -> Callable[[], list[str]]:
            return lambda: [b.reduce(kind, layer, self.heads_axis, keep=False) for layer in layers]

        def other() -> list[str]:
            return b.branch(_equals(b, "fusion", FUSIONS, "max"), all_by("ReduceMax"), all_by("ReduceMin"))

        return b.branch(_equals(b, "fusion", FUSIONS, "mean"), all_by("ReduceMean"), other)

    def _without_sinks(self, weights: str) -> str:
        """Return `explanations.without_sinks` of a layer's weights."""
        b = self.b
        few = b.op("Cast", b.op("LessOrEqual", sink(b, self.kind, weights), self.sinks), to=FLOAT)
        none = b.op("Sub", b.constant(1, np.float32), b.reduce("ReduceMax", few, 1))
        kept = b.op("Max", few, none)  # (batch, heads, 1, 1), 1 or 0
        others = b.op("Div", b.reduce("ReduceSum", b.op("Mul", weights, kept), 1), b.reduce("ReduceSum", kept, 1))
        return b.op("Where", b.op("Cast", kept, to=BOOL), weights, others)

    def rows_by_layer(self) -> list[str]:
        """Return for each layer the selected rows; none if the layer is not selected."""
        b = self.b
        counts = b.op("Mul", b.op("Cast", selected_layers(b, self.kind), to=INT64), b.op("Shape", self.rows))
        start = b.constant([0])
        return [
            b.op("Slice", self.rows, start, b.op("Gather", counts, b.constant([layer])))
            for layer in range(len(self.kind.maps))
        ]

    def split_layers(self, x: str) -> str:
        """Reshape (batch, heads, layers x rows, key) to (batch, heads, layers, rows, key)."""
        b = self.b
        shape = b.op("Shape", x)
        first, last = b.op("Slice", shape, b.constant([0]), b.constant([2])), b.op("Gather", shape, b.constant([3]))
        parts = b.op("Concat", first, b.op("Shape", self.layers), b.op("Shape", self.rows), last, axis=0)
        return b.op("Reshape", x, parts, allowzero=1)


def _no_norms(b: Builder, alpha: str) -> list[str]:
    """Return the shape of norms for a layer without rows: (batch, 0, key)."""
    return [b.reduce("ReduceMax", alpha, 1, keep=False)]


def _shares_of(b: Builder, visible: str) -> str:
    """Return the part that each cell is of the mean of all that are visible (batch, cell): (batch, 1, cell)."""
    shown = b.op("Cast", visible, to=FLOAT)
    return b.op("Unsqueeze", b.op("Div", shown, b.reduce("ReduceSum", shown, 1)), b.constant([1]))


def _discard_smallest(b: Builder, fused: str, length: str, discard: str) -> str:
    """Set the `discard` smallest entries to 0, ties by index; those of the first key are kept."""
    count = b.op("Mul", length, length)
    one = b.constant([0])
    flat = b.op("Reshape", fused, b.op("Concat", b.constant([0]), b.op("Unsqueeze", count, one), axis=0))
    values, order = b.ops("TopK", 2, flat, b.op("Unsqueeze", count, one), axis=1, largest=0, sorted=1)
    first = b.op("Less", b.op("Range", b.constant(0), count, b.constant(1)), discard)
    inner = b.op("Not", b.op("Equal", b.op("Mod", order, length), b.constant(0)))
    kept = b.op("Where", b.op("And", first, inner), b.constant(0, np.float32), values)
    return b.op("Reshape", b.op("ScatterElements", flat, order, kept, axis=1), b.op("Shape", fused))


def _equals(b: Builder, control: str, names: Sequence[str], name: str) -> str:
    return b.op("Equal", control, b.constant(names.index(name)))


def _switch(b: Builder, control: str, names: Sequence[str], makers: dict[str, Callable[[], str]]) -> str:
    """Return the tensor of the maker that a control selects by its index in `names`; by default the last one's."""
    (name, make), *others = makers.items()
    if not others:
        return make()
    return b.branch(
        _equals(b, control, names, name), lambda: [make()], lambda: [_switch(b, control, names, dict(others))]
    )[0]
