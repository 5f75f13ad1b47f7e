"""The saliency graph: what stands out in a picture. It has no model, and is made node by node.

`model/methods/saliency.py` is what it is verified against; its constants are those of that definition.
"""

import functools
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from contract.manifest import SHOWN
from export.graphs.editing.builder import FLOAT, Builder
from export.graphs.editing.cleanup import prune
from export.plan import Plan
from export.traced.images import SalientCells
from model.methods import saliency as definition

IR_VERSION = 10
ROWS, COLUMNS = 2, 3
"""The axes of maps (batch, channel, row, column)."""


def saliency_graph(plan: Plan, opset: int) -> onnx.ModelProto:
    """Return the graph of a plan whose module is a `SalientCells`."""
    assert isinstance(plan.module, SalientCells)  # noqa: S101 # as plans of this role have it
    graph = helper.make_graph([], "main_graph", [], [])
    model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", opset)])
    b = Builder(model, "saliency.")
    for port in plan.inputs:
        b.input(port.name, helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype)), port.axes)
    (output,) = plan.outputs
    shown = SHOWN if len(plan.inputs) > 1 else None
    cells = _SaliencyBuilder(b, plan.module.saliency, shown).cells("pixels")
    before, behind = plan.module.beside
    b.output(output.name, b.op("Pad", cells, b.constant([0, before, 0, behind])), FLOAT, output.axes)
    return prune(model, plan)


class _SaliencyBuilder:
    """Builds the nodes of a definition; each method is that of the definition which has its name."""

    def __init__(self, b: Builder, defined: definition.Saliency, shown: str | None) -> None:
        self.b = b
        self.defined = defined
        self.shown = shown

    def cells(self, pixels: str) -> str:
        """Return the saliency of cells (batch, cell) of pixels (batch, height, width, channels), uint8."""
        b, defined = self.b, self.defined
        moved = b.op("Transpose", b.as_float32(pixels), perm=[0, 3, 1, 2])
        scales = self.seen(self.with_edges_beside(moved) if self.shown else moved)
        total = ""
        for centre in sorted({centre for centre, _ in defined.pairs}):
            contrasts = [self.contrast(scales, pair) for pair in defined.pairs if pair[0] == centre]
            promoted = [self.promote(self.within_picture(one, centre), definition.LEAST_RANGES[0]) for one in contrasts]
            total = b.op("Sum", *promoted, *([self.halved(total, centre - 1)] if total else []))
        conspicuous = self.conspicuity(self.within_picture(total, defined.base))
        salient = b.op("ReduceMean", conspicuous, b.constant([1]), keepdims=0)
        down, across = (self.kept(f"{name}_cells") for name in ("down", "across"))
        found = b.op("MatMul", b.op("MatMul", down, salient), b.op("Transpose", across, perm=[1, 0]))
        if self.shown:
            found = b.op("Mul", found, self.begun(defined.cell, defined.grid))
        return b.op("Flatten", found, axis=1)

    def kept(self, name: str) -> str:
        """Return a constant of the definition."""
        return self.b.constant(self.defined.get_buffer(name).numpy(), np.float32)

    def seen(self, pixels: str) -> list[str]:
        """Return the features at each scale."""
        scales = [self.opponents(pixels)]
        for scale, _ in enumerate(self.defined.sides[1:]):
            scales.append(self.halved(scales[-1], scale, 3))
        first = definition.CENTRES[0]
        return [self.with_angles(one, scale) if scale >= first else one for scale, one in enumerate(scales)]

    def opponents(self, pixels: str) -> str:
        """Return intensity, red less green, and blue less yellow."""
        b = self.b
        zero, half, byte = (b.constant(value, np.float32) for value in (0, 0.5, definition.BYTE))
        total = b.op("ReduceSum", pixels, b.constant([1]))
        brightest = b.op("ReduceMax", total, b.constant([ROWS, COLUMNS]))
        lit = b.op("Greater", b.op("Mul", total, b.constant(definition.LIT, np.float32)), brightest)
        shares = b.op("Div", pixels, b.op("Max", total, b.constant(1, np.float32)))
        hues = b.op("Mul", b.op("Where", lit, shares, zero), byte)
        red, green, blue = b.ops("Split", 3, hues, axis=1, num_outputs=3)

        def less(one: str, *others: str) -> str:
            rest = b.op("Mul", b.op("Add", *others), half)
            return b.op("Max", b.op("Sub", one, rest), zero)

        unlike = b.op("Mul", b.op("Abs", b.op("Sub", red, green)), half)
        mixed = b.op("Sub", b.op("Mul", b.op("Add", red, green), half), unlike)
        yellow = b.op("Max", b.op("Sub", mixed, blue), zero)
        first = b.op("Sub", less(red, green, blue), less(green, red, blue))
        second = b.op("Sub", less(blue, red, green), yellow)
        apart = b.op("Sub", total, b.op("ReduceMean", total, b.constant([ROWS, COLUMNS])))
        return b.op("Concat", b.op("Div", apart, b.constant(3, np.float32)), first, second, axis=1)

    def halved(self, maps: str, scale: int, channels: int = 3 + len(definition.ANGLES)) -> str:
        """Return maps at the scale behind theirs."""
        side = len(definition.BINOMIAL)
        kernel = np.broadcast_to(self.defined.get_buffer("smooth").numpy(), (channels, 1, side, side))
        wide = self.mirrored(maps, scale, side // 2 - 1, even=True)
        return self.b.op("Conv", wide, self.b.constant(kernel, np.float32), strides=[2, 2], group=channels)

    def with_angles(self, maps: str, scale: int) -> str:
        """Return the three features of a scale, and how much of the intensity lies along each angle."""
        b = self.b
        wide = self.mirrored(b.op("Gather", maps, b.constant([0]), axis=1), scale, definition.GABOR_SIDE // 2)
        even, odd = b.ops("Split", 2, b.op("Abs", b.op("Conv", wide, self.kept("gabors"))), axis=1, num_outputs=2)
        return b.op("Concat", maps, b.op("Add", even, odd), axis=1)

    def mirrored(self, maps: str, scale: int, margin: int, *, even: bool = False) -> str:
        """Return maps of a scale with a margin."""
        for axis, side in zip((ROWS, COLUMNS), self.defined.sides[scale], strict=True):
            places = self.b.constant(definition.mirrored_places(side, margin, even=even))
            maps = self.b.op("Gather", maps, places, axis=axis)
        return maps

    def contrast(self, scales: Sequence[str], pair: tuple[int, int]) -> str:
        """Return how a centre differs from its surround."""
        b, (centre, surround) = self.b, pair
        down, across = (self.kept(f"{name}_{centre}_{surround}") for name in ("down", "across"))
        grown = b.op("MatMul", b.op("MatMul", down, scales[surround]), b.op("Transpose", across, perm=[1, 0]))
        apart = b.op("Abs", b.op("Sub", scales[centre], grown))
        faint, zero = (b.constant(value, np.float32) for value in (definition.FAINT, 0))
        return b.op("Max", b.op("Sub", apart, faint), zero)

    def conspicuity(self, features: str) -> str:
        """Return the conspicuity of intensity, colour and orientation."""
        b, least = self.b, definition.LEAST_RANGES[1]
        sizes = b.constant([1, 1, 1, len(definition.ANGLES)])
        intensity, red_green, blue_yellow, angles = b.ops("Split", 4, features, sizes, axis=1)
        oriented = b.op("ReduceSum", self.promote(angles, least), b.constant([1]))
        parts = intensity, b.op("Add", red_green, blue_yellow), oriented
        return self.promote(b.op("Concat", *parts, axis=1), least)

    def promote(self, maps: str, least_range: float) -> str:
        """Return N(maps)."""
        b = self.b
        both = b.constant([ROWS, COLUMNS])
        one, least = (b.constant(value, np.float32) for value in (1, least_range))
        low, high = b.op("ReduceMin", maps, both), b.op("ReduceMax", maps, both)
        scaled = b.op("Div", b.op("Sub", maps, low), b.op("Max", b.op("Sub", high, low), least))
        most = b.op("ReduceMax", scaled, both)
        peaks = b.as_float32(self.local_maxima(scaled))
        count = b.op("Max", b.op("Sub", b.op("ReduceSum", peaks, both), one), one)
        heights = b.op("Mul", scaled, peaks)
        rest = b.op("Sub", b.op("ReduceSum", heights, both), b.op("ReduceMax", heights, both))
        apart = b.op("Sub", most, b.op("Div", rest, count))
        return b.op("Mul", scaled, b.op("Mul", apart, apart))

    def local_maxima(self, maps: str) -> str:
        """Return which pixels are local maxima."""
        b = self.b
        outside, axes = b.constant(-1, np.float32), b.constant([ROWS, COLUMNS])
        around = b.op("Pad", maps, b.constant([0, 0, 1, 1, 0, 0, 1, 1]), outside)
        large = np.iinfo(np.int64).max
        shifted = [
            b.op("Slice", around, b.constant([y, x]), b.constant([y - 2 or large, x - 2 or large]), axes)
            for y in range(3)
            for x in range(3)
        ]
        before, behind = (b.op("Max", *some) for some in (shifted[:4], shifted[5:]))
        rise = b.constant(definition.RISE, np.float32)
        above = b.op("Greater", maps, b.op("Add", before, rise))
        return b.op("And", above, b.op("GreaterOrEqual", maps, b.op("Sub", behind, rise)))

    def with_edges_beside(self, pixels: str) -> str:
        """Return pictures that go on beside what is shown as they end there."""
        b = self.b
        shape = b.op("Shape", pixels)
        for axis in (0, 1):
            last = b.op("Sub", self.sides_shown(axis), b.constant(1))
            places = b.op("Min", b.constant(np.arange(self.defined.sides[0][axis])[None]), last)  # (batch, place)
            spread = b.op("Unsqueeze", places, b.constant([1, 3 - axis]))
            pixels = b.op("GatherElements", pixels, b.op("Expand", spread, shape), axis=ROWS + axis)
        return pixels

    def sides_shown(self, axis: int) -> str:
        """Return the rows or columns of pixels that pictures fill, (batch, 1)."""
        return self.b.op("Gather", str(self.shown), self.b.constant([axis]), axis=1)

    def within_picture(self, maps: str, scale: int) -> str:
        """Return maps at a scale, 0 beside the picture."""
        if not self.shown:
            return maps
        shown = self.begun((2**scale, 2**scale), self.defined.sides[scale])
        return self.b.op("Mul", maps, self.b.op("Unsqueeze", shown, self.b.constant([1])))

    def begun(self, cell: tuple[int, int], sides: tuple[int, int]) -> str:
        """Return which cells of these sides in pixels begin in the picture, (batch, row, column), 1 or 0."""
        b = self.b
        first = [b.constant(np.arange(side)[None] * step) for side, step in zip(sides, cell, strict=True)]
        inside = [b.op("Less", places, self.sides_shown(axis)) for axis, places in enumerate(first)]
        pairs = [b.op("Unsqueeze", one, b.constant([axis])) for axis, one in zip((2, 1), inside, strict=True)]
        return b.as_float32(functools.reduce(functools.partial(b.op, "And"), pairs))
