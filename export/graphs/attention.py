"""The graphs of attention and relevance: what is read off a model's weights, put behind the nodes that compute them.

What each computes is defined in `model/methods.py`, which verification holds it against. Everything is reduced here, in
the graph, and what is not asked for is not computed: it lies behind an `If`, or has no rows. (Rollout fuses all layers
of a kind, whichever it then goes through.)
"""

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx

from contract.manifest import FUSIONS, READ, ImageRule, Kind, KindName
from export.graphs.builder import BOOL, FLOAT, INT64, Builder
from export.graphs.gradient import differentiate
from export.tasks.traced import Look
from export.graphs.cleanup import finish
from export.plan import Plan

TYPES = {"int64": INT64, "bool": BOOL, "float32": FLOAT}
SCALE = 1024.0
"""Half floats: so many times the logit is differentiated, and its gradient divided again, lest small ones vanish."""


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


def relevance_graph(base: onnx.ModelProto, plan: Plan, look: Look) -> onnx.ModelProto:
    """Return the graph of the answer, its gradient, and the relevance of one row a target."""
    graph, b = _copied(base, plan, "relevance.")
    answer = plan.outputs[0].name
    b.output(answer, f"{answer}.seen", FLOAT, plan.outputs[0].axes)
    names = [name for kind in look.kinds for name in kind.maps]
    half = next(value for value in base.graph.output if value.name == names[0]).type.tensor_type.elem_type != FLOAT
    gradients = differentiate(graph, f"{answer}.seen", _seed(b, plan, f"{answer}.seen", SCALE if half else 1), names)
    layers = {kind.kind: [_relevance(b, name, gradients[name], half=half) for name in kind.maps] for kind in look.kinds}
    if "cross" in layers:
        _bimodal(b, plan, layers)
    else:
        kind, length = look.kinds[0], b.length(look.kinds[0].maps[0], 3)
        joint = b.one_hot("rows", length)  # (batch, row, key)
        for wanted, layer in reversed(_abreast(b, kind, layers[kind.kind])):
            joint = b.op("Where", wanted, b.op("Add", joint, b.op("MatMul", joint, layer)), joint)
        b.output(kind.kind, joint, FLOAT, plan.outputs[1].axes)
    return finish(graph, plan)


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


def _tapped(graph: onnx.ModelProto, b: Builder, kinds: Sequence[Kind]) -> str:
    """Copy all weights and values as they are computed, as `<name>.seen` in single floats, where they are to be read.

    Otherwise each copy is empty and a layer's memory is the next one's, as in a graph without them: what is read stands
    at the end, and would keep all of it. Returns whether anything is to be read.
    """
    computed = list(graph.graph.node)
    any_row = [b.op("Greater", b.length(f"{kind.kind}.rows", 0), b.constant(0)) for kind in kinds]
    looking = functools.reduce(functools.partial(b.op, "Or"), any_row, "diagnose")
    weighing = b.op("And", looking, b.op("Equal", "method", b.constant(READ.index("norm"))))
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
        served: dict[str, Callable[[], str]] = {name: makers[name] for name in READ if name in self.kind.methods}
        key = axes[-1] if isinstance(axes[-1], int) else 0
        return self.b.branch(
            self.looking, lambda: [self._chosen("method", READ, served)], lambda: [self.b.nothing(0, 0, 0, 0, key)]
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
        """Return the rows of `methods.rollout`, of no row nothing; rows are normalised as they are multiplied."""
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
        """Return `methods.norms` of layers and rows; a layer without rows is left out."""
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
        """Return weights as distributions: as they are, or `methods.shares` of them."""
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


def patch_centres(grid: tuple[int, int], image: ImageRule) -> npt.NDArray[np.float64]:
    """Return the centres (patch, 2) of an image's patches, down and across, in pixels of what the model takes."""
    down, across = image.height / grid[0], image.width / grid[1]
    return np.array([[(y + 0.5) * down, (x + 0.5) * across] for y in range(grid[0]) for x in range(grid[1])])


def _wanted(b: Builder, kind: Kind) -> str:
    """Return (layer): is it among those asked for."""
    among = b.op(
        "Equal",
        b.op("Unsqueeze", f"{kind.kind}.layers", b.constant([1])),
        b.constant(np.arange(len(kind.maps))[None]),
    )
    return b.op("Cast", b.reduce("ReduceMax", b.op("Cast", among, to=INT64), 0, keep=False), to=BOOL)


def _abreast(b: Builder, kind: Kind, maps: Sequence[str]) -> list[tuple[str, str]]:
    """`methods.abreast`: return the layers that maps add up to, each behind whether any map of it is asked for."""
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


def _seed(b: Builder, plan: Plan, answer: str, scale: float) -> str:
    """Return what the answer is weighed with: 1 at each row's target, which is its likeliest where it is negative."""
    sequence = any(port.name == "position" for port in plan.inputs)
    row = answer
    if sequence:  # (batch, position, class)
        row = b.op("GatherND", answer, b.op("Unsqueeze", "position", b.constant([1])), batch_dims=1)
    likeliest = b.op("ArgMax", row, axis=1, keepdims=0)
    target = b.op("Where", b.op("Less", "explained", b.constant(0)), likeliest, "explained")
    seed = b.op("Mul", b.one_hot(target, b.length(row, 1)), b.constant(scale, np.float32))
    if not sequence:
        return seed
    at = b.op("Unsqueeze", b.one_hot("position", b.length(answer, 1)), b.constant([2]))
    return b.op("Mul", at, b.op("Unsqueeze", seed, b.constant([1])))


def _relevance(b: Builder, weights: str, gradient: str, *, half: bool) -> str:
    """`methods.relevance_of`: (batch, query, key)."""
    if half:
        weights, gradient = b.floats(weights), b.op("Div", b.floats(gradient), b.constant(SCALE, np.float32))
    return b.reduce("ReduceMean", b.op("Relu", b.op("Mul", weights, gradient)), 1, keep=False)


def _bimodal(b: Builder, plan: Plan, layers: Mapping[KindName, list[str]]) -> None:
    """`methods.bimodal_relevance`, and of it the row of each target's position."""

    def eye(layer: str) -> str:
        length = b.length(layer, 2)
        return b.op(
            "Unsqueeze", b.one_hot(b.op("Range", b.constant(0), length, b.constant(1)), length), b.constant([0])
        )

    def normalized(relevance: str, eye: str) -> str:
        rest = b.op("Sub", relevance, eye)
        total = b.reduce("ReduceSum", rest, 2)
        zero, one = b.constant(0, np.float32), b.constant(1, np.float32)
        some = b.op("Greater", total, zero)
        shares = b.op("Div", rest, b.op("Where", some, total, one))
        return b.op("Add", b.op("Where", some, shares, zero), eye)

    def grown(relevance: str, layer: str) -> str:
        return b.op("Add", relevance, b.op("MatMul", layer, relevance))

    source, target = eye(layers["encoder"][0]), eye(layers["decoder"][0])
    ii, qq = source, target
    qi = b.op("Mul", layers["cross"][0], b.constant(0, np.float32))
    for layer in layers["encoder"]:
        ii = grown(ii, layer)
    ii = normalized(ii, source)
    for own, across in zip(layers["decoder"], layers["cross"], strict=True):
        qq, qi = grown(qq, own), grown(qi, own)
        share = b.op("Transpose", normalized(qq, target), perm=[0, 2, 1])
        qi = b.op("Add", qi, b.op("MatMul", b.op("MatMul", share, across), ii))
    at = b.op("Unsqueeze", b.one_hot("position", b.length(qq, 1)), b.constant([1]))  # (batch, 1, target)
    for port, relevance in zip(plan.outputs[1:], (qq, qi), strict=True):
        b.output(port.name, b.op("MatMul", at, relevance), FLOAT, port.axes)
