"""The graphs of attention and relevance: what is read off a model's weights, put behind the nodes that compute them.

What each computes is defined in `model/explanations.py`, which verification holds it against. Everything is reduced
here, in the graph, and what is not asked for is not computed: it lies behind an `If`, or has no rows. (Rollout fuses
all layers of a kind, whichever it then goes through.)
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import onnx

from contract.manifest import FUSIONS, GRAPH_METHODS, ImageRule, Kind
from export.graphs.base_graph import _abreast, _copied, _wanted
from export.graphs.builder import FLOAT, INT64, Builder
from export.graphs.cleanup import finish
from export.plan import Plan, patch_centres
from export.tasks.traced import Look


def attention_graph(base: onnx.ModelProto, plan: Plan, look: Look, image: ImageRule | None) -> onnx.ModelProto:
    """Return the graph that answers, and reads of the weights what its controls ask for."""
    graph, b = _copied(base, plan, "read.")
    b.output(plan.outputs[0].name, f"{plan.outputs[0].name}.seen", FLOAT, plan.outputs[0].axes)
    shown = {port.name: port.axes for port in plan.outputs}
    looking = _tapped(graph, b, look.kinds)
    for kind in look.kinds:
        reading = Reading(b, kind, looking, [weight.numpy() for weight in look.joining(kind)], image)
        b.output(kind.kind, reading.maps(shown[kind.kind]), FLOAT, shown[kind.kind])
        name = f"{kind.kind}.diagnostics"
        b.output(name, reading.diagnostics(), FLOAT, shown[name])
    return finish(graph, plan)


def _tapped(graph: onnx.ModelProto, b: Builder, kinds: Sequence[Kind]) -> str:
    """Copy all weights and values as they are computed, as `<name>.seen` in single floats, where they are to be read.

    Otherwise each copy is empty and a layer's memory is the next one's, as in a graph without them: what is read stands
    at the end, and would keep all of it. Returns whether anything is to be read.
    """
    computed = list(graph.graph.node)
    any_row = [b.op("Greater", b.length(f"{kind.kind}.rows", 0), b.constant(0)) for kind in kinds]
    looking = functools.reduce(functools.partial(b.op, "Or"), any_row, "diagnose")
    weighing = b.op("And", looking, b.op("Equal", "method", b.constant(GRAPH_METHODS.index("norm"))))
    first = list(graph.graph.node)[len(computed) :]
    taps: dict[str, onnx.NodeProto] = {}
    for kind in kinds:
        for name in kind.maps:
            for tensor, asked in ((name, looking), (f"{name}.value", weighing)):
                b.branch(asked, functools.partial(_floats, b, tensor), lambda: [b.nothing(0, 0, 0, 0)])
                taps[tensor] = graph.graph.node[-1]
                taps[tensor].output[0] = f"{tensor}.seen"
    nodes = first
    for node in computed:
        nodes += [node, *(taps[name] for name in node.output if name in taps)]
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    return looking


def _floats(b: Builder, tensor: str) -> list[str]:
    return [b.floats(tensor)]


class Reading:
    """Builds what is read off the weights (batch, heads, query, key) of one kind, and the values that they weighed."""

    def __init__(
        self,
        b: Builder,
        kind: Kind,
        looking: str,
        joining: Sequence[npt.NDArray[np.generic]],
        image: ImageRule | None,
    ) -> None:
        self.b = b
        self.kind = kind
        self.looking = looking
        self.weights = [f"{name}.seen" for name in kind.maps]
        self.values = [f"{name}.value.seen" for name in kind.maps]
        self.joining = joining
        self.image = image
        self.layers, self.rows, self.heads, self.special, self.discard = (
            f"{kind.kind}.{name}" for name in ("layers", "rows", "heads", "special", "discard")
        )

    def maps(self, axes: Sequence[int | str]) -> str:
        """Return what was asked for: (batch, heads, layers, rows, key), or nothing; `axes` says which have a length."""
        makers: dict[str, Callable[[], str]] = {"raw": self.raw, "rollout": self.rollout, "norm": self.norm}
        served: dict[str, Callable[[], str]] = {
            name: makers[name] for name in GRAPH_METHODS if name in self.kind.methods
        }
        key = axes[-1] if isinstance(axes[-1], int) else 0
        return self.b.branch(
            self.looking,
            lambda: [self._chosen("method", GRAPH_METHODS, served)],
            lambda: [self.b.nothing(0, 0, 0, 0, key)],
        )[0]

    def raw(self) -> str:
        """Return the weights of layers and rows, and of heads, or fused over all."""
        b = self.b
        picked = [b.op("Gather", name, rows, axis=2) for name, rows in zip(self.weights, self._rows(), strict=True)]
        joined = b.op("Concat", *picked, axis=2)  # (batch, heads, layers x rows, key)
        fused = self._chosen(
            "fusion",
            FUSIONS,
            {
                "each": lambda: b.op("Gather", joined, self.heads, axis=1),
                "mean": lambda: b.reduce("ReduceMean", joined, 1),
                "max": lambda: b.reduce("ReduceMax", joined, 1),
                "min": lambda: b.reduce("ReduceMin", joined, 1),
            },
        )
        return self._layered(fused)

    def rollout(self) -> str:
        """Return the rows of `explanations.rollout`, of no row nothing; rows are normalised as they are multiplied."""
        b = self.b
        shape = b.op("Concat", b.op("Shape", self.weights[0], end=1), b.constant([1, 1, 0, 1]), axis=0)
        return b.branch(
            b.op("Greater", b.length(self.rows, 0), b.constant(0)),
            lambda: [self._rolled_out()],
            lambda: [b.zeros(shape)],
        )[0]

    def _rolled_out(self) -> str:
        b = self.b
        fused = self._fused()
        length = b.length(fused[0], 2)
        cut = b.branch(
            b.op("Greater", self.discard, b.constant(0)),
            lambda: [self._discarded(layer, length) for layer in fused],
            lambda: fused,
        )
        joint = b.op("Unsqueeze", b.one_hot(self.rows, length), b.constant([0]))  # (1, row, key)
        for wanted, layer in reversed(_abreast(b, self.kind, cut)):
            total = b.op("Add", b.reduce("ReduceSum", layer, 2, keep=False), b.constant(1, np.float32))
            share = b.op("Div", joint, b.op("Unsqueeze", total, b.constant([1])))
            further = b.op("Add", share, b.op("MatMul", share, layer))  # joint @ rownorm(layer + I)
            joint = b.op("Where", wanted, further, joint)
        return b.op("Unsqueeze", joint, b.constant([1, 2]))

    def norm(self) -> str:
        """Return `explanations.norms` of layers and rows; a layer without rows is left out."""
        b = self.b
        made = []
        for weights, value, joining, rows in zip(self.weights, self.values, self.joining, self._rows(), strict=True):
            asked = b.op("Greater", b.length(rows, 0), b.constant(0))
            alpha = b.op("Gather", weights, rows, axis=2)

            def norms(value: str = value, joining: npt.NDArray[np.generic] = joining, alpha: str = alpha) -> list[str]:
                output = b.constant(joining.reshape(self.kind.heads, -1, joining.shape[1]), np.float32)
                added = b.op("MatMul", value, output)  # (batch, heads, key, width)
                turned = self._heads_last(alpha)  # (batch, key, row, heads)
                # at rank 3 the runtime takes the swap of axes into the product, rather than turn the vectors twice
                vectors = b.op("Transpose", added, perm=[0, 2, 1, 3])
                flat = b.op("Reshape", vectors, b.constant([-1, self.kind.heads, joining.shape[1]]))
                gram = b.op("MatMul", flat, b.op("Transpose", flat, perm=[0, 2, 1]))
                outer = b.op("Slice", b.op("Shape", turned), b.constant([0]), b.constant([2]))
                pairs = b.op("Concat", outer, b.constant([self.kind.heads] * 2), axis=0)
                gram = b.op("Reshape", gram, pairs)  # (batch, key, heads, heads)
                square = b.reduce("ReduceSum", b.op("Mul", b.op("MatMul", turned, gram), turned), 3, keep=False)
                return [b.op("Transpose", b.op("Sqrt", b.op("Relu", square)), perm=[0, 2, 1])]

            def nothing(alpha: str = alpha) -> list[str]:
                return [b.reduce("ReduceMax", alpha, 1, keep=False)]

            made += b.branch(asked, norms, nothing)
        return self._layered(b.op("Unsqueeze", b.op("Concat", *made, axis=1), b.constant([1])))

    def _heads_last(self, alpha: str) -> str:
        """Turn (batch, heads, row, key) to (batch, key, row, heads), in two steps: at once it takes thrice the time."""
        b = self.b
        shape = b.op("Shape", alpha)
        flat = b.op("Reshape", alpha, b.constant([0, 0, -1]))
        rows = b.op("Concat", *(b.op("Gather", shape, b.constant([axis])) for axis in (0, 2, 3, 1)), axis=0)
        split = b.op("Reshape", b.op("Transpose", flat, perm=[0, 2, 1]), rows)
        return b.op("Transpose", split, perm=[0, 2, 1, 3])

    def diagnostics(self) -> str:
        """Return (batch, layer, head, query, figure): entropy, mass on special tokens, and distance in an image."""
        b = self.b

        def figures() -> list[str]:
            special = b.op("Unsqueeze", b.op("Cast", self.special, to=FLOAT), b.constant([1, 3]))
            places, tiny = self._places(), b.constant(1e-30, np.float32)
            layers = []
            for weights in map(self._shares, self.weights):
                log = b.op("Log", b.op("Max", weights, tiny))
                found = [
                    b.op("Neg", b.reduce("ReduceSum", b.op("Mul", weights, log), 3)),
                    b.op("MatMul", weights, special),
                    *([self._distance(weights, places)] if places else []),
                ]
                layers.append(b.op("Unsqueeze", b.op("Concat", *found, axis=3), b.constant([1])))
            return [b.op("Concat", *layers, axis=1)]

        return b.branch("diagnose", figures, lambda: [b.nothing(0, 0, 0, 0, 0)])[0]

    def _shares(self, weights: str) -> str:
        """Return weights as distributions: as they are, or `explanations.shares` of them."""
        if self.kind.normalized:
            return weights
        b, size = self.b, self.b.op("Abs", weights)
        return b.op("Div", size, b.op("Max", b.reduce("ReduceSum", size, 3), b.constant(1e-30, np.float32)))

    def _places(self) -> str | None:
        """Return how far patches are from each other (patch, patch), in pixels of the image that the model takes."""
        if not self.image or not self.kind.grid or self.kind.query != self.kind.key:
            return None
        centres = patch_centres(self.kind.grid, self.image)
        apart = np.linalg.norm(centres[:, None] - centres, axis=-1)
        return self.b.constant(apart, np.float32)

    def _distance(self, weights: str, apart: str) -> str:
        b, prefix, end = self.b, self.kind.prefix, np.iinfo(np.int64).max
        among = b.op("Slice", weights, *(b.constant(ends) for ends in ([prefix, prefix], [end, end], [2, 3])))
        total = b.op("Max", b.reduce("ReduceSum", among, 3), b.constant(1e-30, np.float32))
        mean = b.op("Div", b.reduce("ReduceSum", b.op("Mul", among, apart), 3), total)
        return b.op("Pad", mean, b.constant([0, 0, prefix, 0, 0, 0, 0, 0]), b.constant(0, np.float32))

    def _fused(self) -> list[str]:
        """Return every layer's weights fused over heads (batch, query, key), as `fusion` asks."""
        b = self.b

        def all_by(kind: str) -> Callable[[], list[str]]:
            return lambda: [b.reduce(kind, weights, 1, keep=False) for weights in self.weights]

        def other() -> list[str]:
            return b.branch(self._is("fusion", FUSIONS, "max"), all_by("ReduceMax"), all_by("ReduceMin"))

        return b.branch(self._is("fusion", FUSIONS, "mean"), all_by("ReduceMean"), other)

    def _discarded(self, fused: str, length: str) -> str:
        """Set the `discard` smallest entries to 0, ties by index; those of the first key stay."""
        b = self.b
        count = b.op("Mul", length, length)
        one = b.constant([0])
        flat = b.op("Reshape", fused, b.op("Concat", b.constant([0]), b.op("Unsqueeze", count, one), axis=0))
        values, order = b.ops("TopK", 2, flat, b.op("Unsqueeze", count, one), axis=1, largest=0, sorted=1)
        first = b.op("Less", b.op("Range", b.constant(0), count, b.constant(1)), self.discard)
        inner = b.op("Not", b.op("Equal", b.op("Mod", order, length), b.constant(0)))
        kept = b.op("Where", b.op("And", first, inner), b.constant(0, np.float32), values)
        return b.op("Reshape", b.op("ScatterElements", flat, order, kept, axis=1), b.op("Shape", fused))

    def _rows(self) -> list[str]:
        """Return for each layer the rows asked for: all of them, or none where the layer is not."""
        b = self.b
        counts = b.op("Mul", b.op("Cast", _wanted(b, self.kind), to=INT64), b.op("Shape", self.rows))
        start = b.constant([0])
        return [
            b.op("Slice", self.rows, start, b.op("Gather", counts, b.constant([layer])))
            for layer in range(len(self.kind.maps))
        ]

    def _layered(self, x: str) -> str:
        """Split layers x rows, of (batch, heads, layers x rows, key)."""
        b = self.b
        shape = b.op("Shape", x)
        first, last = b.op("Slice", shape, b.constant([0]), b.constant([2])), b.op("Gather", shape, b.constant([3]))
        parts = b.op("Concat", first, b.op("Shape", self.layers), b.op("Shape", self.rows), last, axis=0)
        return b.op("Reshape", x, parts, allowzero=1)

    def _is(self, control: str, names: Sequence[str], name: str) -> str:
        return self.b.op("Equal", control, self.b.constant(names.index(name)))

    def _chosen(self, control: str, names: Sequence[str], makers: dict[str, Callable[[], str]]) -> str:
        """Return what the maker makes that a control names; the last one where it names none."""
        (name, make), *others = makers.items()
        if not others:
            return make()
        return self.b.branch(
            self._is(control, names, name), lambda: [make()], lambda: [self._chosen(control, names, dict(others))]
        )[0]
