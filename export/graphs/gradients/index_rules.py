"""The rules of differentiation of operators that cut, join and choose: Gather, Slice, Split, Concat, GatherElements."""

import functools

import onnx

from export.errors import ExportError
from export.graphs.gradients.tape import Rule, Tape, attributes_of


def _gather(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    x, places = node.input
    axis = attributes_of(node).get("axis", 0) % len(tape.shapes[x])
    place = tape.known_value(places)
    if place is None or place.ndim:
        shape = tape.op("Shape", x)
        flat = [_part(tape, shape, 0, axis), tape.constant([-1]), _part(tape, shape, axis + 1, len(tape.shapes[x]))]
        gradient = tape.op("Reshape", gradient, tape.op("Concat", *flat, axis=0))
        return _put(tape, x, gradient, axis, tape.op("Reshape", places, tape.constant([-1])))
    length = tape.length(x, axis)
    every = tape.op("Range", tape.constant(0), length, tape.constant(1))
    found = tape.op("Equal", every, tape.constant(int(place)) if place >= 0 else tape.op("Add", length, places))
    wide = tape.constant([-1, *[1] * (len(tape.shapes[x]) - axis - 1)])
    spread = tape.op("Unsqueeze", gradient, tape.constant([axis]))
    return tape.op("Where", tape.op("Reshape", found, wide), spread, tape.number(0, x))


def _part(tape: Tape, shape: str, start: int, end: int) -> str:
    """Return some lengths of a shape."""
    return tape.op("Slice", shape, tape.constant([start]), tape.constant([end]))


def _put(tape: Tape, x: str, gradient: str, axis: int, places: str) -> str:
    """Spread a gradient along an axis, to the length that x has there: each entry to its place, added up, else zeros.

    `places` is (number of entries along the axis).
    """
    rank = len(tape.shapes[x])
    size = tape.op("Shape", gradient)
    whole = [_part(tape, size, 0, axis), _part(tape, tape.op("Shape", x), axis, axis + 1)]
    zeros = tape.zeros(tape.op("Concat", *whole, _part(tape, size, axis + 1, rank), axis=0))
    wide = tape.op("Reshape", places, tape.constant([-1, *[1] * (rank - axis - 1)]))
    return _scatter(tape, x, zeros, tape.op("Expand", wide, size), gradient, axis)


def _scatter(tape: Tape, x: str, zeros: str, places: str, gradient: str, axis: int) -> str:
    """Add a gradient to zeros at places, in single floats: half ones are not added up everywhere."""
    found = tape.op("ScatterElements", zeros, places, tape.as_float32(gradient), axis=axis, reduction="add")
    return tape.op("Cast", found, to=tape.types[x])


def _slice(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    """Pad where the graph says how much was cut off; elsewhere, put each entry to its place."""
    x, shape = node.input[0], tape.shapes[node.input[0]]
    starts, ends, axes, steps = [*node.input[1:], "", ""][:4]
    lengths = tape.shapes[starts]
    if not isinstance(lengths[0], int):
        raise ExportError("gradient: Slice has a gradient here of a known number of axes")
    of_axis = [axis % len(shape) for axis in (tape.constant_value(axes).tolist() if axes else range(lengths[0]))]
    before = [0] * len(shape)
    after = [0] * len(shape)
    rest = list[int]()
    for number, axis in enumerate(of_axis):
        start, end = (_number(tape, name, number) for name in (starts, ends))
        step = _number(tape, steps, number) if steps else 1
        length = shape[axis]
        if start is None or end is None or step != 1:
            rest.append(number)
        elif isinstance(length, int):
            first, last, _ = slice(start, end).indices(length)
            before[axis], after[axis] = first, length - max(first, last)
        elif start >= 0 and end >= 2**31 - 1:
            before[axis] = start
        else:
            rest.append(number)
    if any(before) or any(after):
        gradient = tape.op("Pad", gradient, tape.constant(before + after), tape.number(0, x))
    for number in rest:
        every = tape.op("Range", tape.constant(0), tape.length(x, of_axis[number]), tape.constant(1))
        at = [_part(tape, name, number, number + 1) for name in (starts, ends)]
        by = _part(tape, steps, number, number + 1) if steps else tape.constant([1])
        gradient = _put(tape, x, gradient, of_axis[number], tape.op("Slice", every, *at, tape.constant([0]), by))
    return gradient


def _number(tape: Tape, name: str, at: int) -> int | None:
    """Return one entry of a tensor, None if it is not constant."""
    values = tape.known_value(name)
    return None if values is None else int(values[at])


def _split(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    parts = [tape.gradients.get(name) or _zeros_like(tape, name) for name in node.output]
    return tape.op("Concat", *parts, axis=attributes_of(node).get("axis", 0))


def _zeros_like(tape: Tape, name: str) -> str:
    return tape.op("Expand", tape.number(0, name), tape.op("Shape", name))


def _concat(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    names = node.input[: index + 1]
    axis = attributes_of(node)["axis"] % len(tape.shapes[names[0]])
    lengths = [tape.shapes[name][axis] for name in names]
    if all(isinstance(length, int) for length in lengths):
        *before, own = (int(length or 0) for length in lengths)
        start, end = tape.constant([sum(before)]), tape.constant([sum(before) + own])
    else:
        *sizes, size = (_part(tape, tape.op("Shape", name), axis, axis + 1) for name in names)
        start = functools.reduce(functools.partial(tape.op, "Add"), sizes, tape.constant([0]))
        end = tape.op("Add", start, size)
    return tape.op("Slice", gradient, start, end, tape.constant([axis]))


def _gather_elements(tape: Tape, node: onnx.NodeProto, gradient: str, index: int) -> str:
    x, places = node.input
    return _scatter(tape, x, tape.zeros(tape.op("Shape", x)), places, gradient, attributes_of(node).get("axis", 0))


INDEX_RULES: dict[str, Rule] = {
    "Gather": _gather,
    "Slice": _slice,
    "Split": _split,
    "Concat": _concat,
    "GatherElements": _gather_elements,
}
