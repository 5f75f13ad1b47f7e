"""The size of an attention answer, computed from the lengths of the axes before anything runs, and its limits."""

from collections.abc import Mapping, Sequence
from typing import get_args

from contract.input_rules import NODES
from contract.manifest import FIGURES, OBJECTS, POOL, STATE_METHODS, Method
from service.errors import TooLarge, Unacceptable
from service.explanations import curves, drawing, graph_drawing, matrix_drawing
from service.explanations.comparison import curve_names, is_comparison
from service.explanations.pictures import Space
from service.explanations.pooling import pooled_length
from service.explanations.query import AttentionQuery
from service.inputs.model_input import Picture

MAP_BYTES = 384  # of a map's entry, without its values
FIGURES_BYTES = 640  # of how the values of a signed map add up: its parts, what it is against, four numbers
ROW_BYTES = 2  # brackets
ROW_NUMBER_BYTES = 6  # which token a row stands for
ARRAY_HEADER_BYTES = 384  # of an array in an npz
TOKEN_BYTES = 64  # a token with its span
OBJECT_BYTES = 320  # an object with its label and box
CURVE_BYTES = 2048  # of two curves
ALIGNED_BYTES = 6  # an index of `aligned`
MOST_PANELS = 144  # of one picture


def check_size(
    query: AttentionQuery,
    lengths: Sequence[Mapping[str, int]],
    targets: Sequence[int],
    limit: int,
    over: Mapping[str, int] | None = None,
) -> None:
    """Raise TooLarge if the answer for inputs with these axis lengths and numbers of targets would pass a limit.

    `over` are the axis lengths of another input, over whose parts the rows of each are shown too. A picture is not
    counted in bytes; `check_picture` limits its pixels.
    """
    if query.form == "png":
        return
    size = sum(answer_bytes(query, one, count) for one, count in zip(lengths, targets, strict=True))
    size += sum(answer_bytes(query, one, over=over) for one in lengths if over)
    if size > limit:
        raise TooLarge(
            f"attention: at most {limit} bytes an answer, this one would have {size}; "
            "ask for fewer layers, heads, queries, targets, digits or inputs, or for rollout or pool"
        )


def answer_bytes(
    query: AttentionQuery, lengths: Mapping[str, int], targets: int = 1, over: Mapping[str, int] | None = None
) -> int:
    """Return the bytes that the answer for one input has at most; its columns are `over` another, if that is given."""
    shown = over or lengths
    options = query.options
    texts = sum(length for name, length in shown.items() if name not in (OBJECTS, POOL, *_grids(query)))
    total = TOKEN_BYTES * texts + OBJECT_BYTES * lengths.get(OBJECTS, 0)
    for kind_query in query.kinds:
        maps = query.count_maps(kind_query, targets)
        rows = query.count_rows(kind_query, lengths)
        numbers = ROW_NUMBER_BYTES * rows if rows < lengths[kind_query.kind.query] else 0
        if options.hard:
            total += maps * kind_query.maps_of_heads * rows * ALIGNED_BYTES
        rows, keys = (pooled_length(length, options.pool) for length in (rows, shown[query.shown(kind_query.kind).key]))
        rows *= kind_query.maps_of_heads * query.rules.numbers
        values = _values_bytes(query, rows, keys, normalized=kind_query.kind.normalized)
        total += maps * (MAP_BYTES + values + numbers + (FIGURES_BYTES if query.rules.signed else 0))
    if options.diagnostics:
        total += sum(len(kind.maps) * kind.heads * len(FIGURES) * (options.digits + 6) for kind in query.model_kinds)
    return total + CURVE_BYTES * (
        most_orders(query) if is_comparison(query) else len(options.evaluate) * options.orders
    )


def _grids(query: AttentionQuery) -> set[str]:
    """Return the axes whose places are the patches of an image, which an answer does not list."""
    return {kind.key for kind in query.model_kinds if kind.grid}


def _values_bytes(query: AttentionQuery, rows: int, keys: int, *, normalized: bool) -> int:
    """Return the bytes that the values of one map have at most. Weights of a `normalized` kind are from 0 to 1."""
    options = query.options
    size = rows * keys * (1 if options.dtype == "uint8" else 4)
    if query.form == "npz":
        return size + ARRAY_HEADER_BYTES
    if options.encoding == "base64":
        return 4 * -(-size // 3)
    number = options.digits + 3  # "0.", the digits and a comma
    if query.rules.above_one or not normalized:
        number += 3  # larger than one, or negative
    if query.rules.signed:
        number += 5  # a logit may be in the thousands
    return rows * (ROW_BYTES + keys * number)


def most_orders(query: AttentionQuery) -> int:
    """Return the most orders of parts that an evaluation has curves of: those of all methods, and the random one."""
    return len(get_args(Method)) - len(STATE_METHODS) + 1 if is_comparison(query) else 2


def check_picture(
    query: AttentionQuery,
    lengths: Mapping[str, int],
    picture: Picture | None,
    targets: int,
    space: Space,
    over: Mapping[str, int] | None = None,
) -> None:
    """Take the space of what is drawn of an input, if the answer is a picture. Raises TooLarge and Unacceptable.

    `picture` is that of the input, None for a text; columns are `over` another input, if that is given.
    """
    if query.form != "png":
        return
    width = query.options.width
    if query.options.evaluate:
        space.take(curves.picture_size(len(curve_names(query)), most_orders(query), width))
        return
    if len({(one.kind.query, one.kind.key) for one in query.kinds}) > 1:
        raise Unacceptable(
            f"format: a png shows one kind; ask for kind, one of {', '.join(one.kind.name for one in query.kinds)}"
        )
    over_grid = picture is not None and query.kinds[0].kind.grid is not None
    image = (picture.width, picture.height) if picture and over_grid else None
    if NODES in lengths:
        image = (graph_drawing.SIDE, graph_drawing.SIDE)
    panels = rows = 0
    for kind in query.kinds:
        maps = query.count_maps(kind, targets)
        rows = query.count_rows(kind, lengths)
        if query.by_gradient and kind.kind.query == "target":  # of generated tokens, rows of one map
            maps, rows = query.count_maps(kind, 1), targets
        panels += kind.maps_of_heads * maps * (rows if over_grid else 1)
    if panels > MOST_PANELS:
        raise TooLarge(f"png: at most {MOST_PANELS} panels, given {panels}; ask for fewer layers, heads or queries")
    keys = (over or lengths)[query.shown(query.kinds[0].kind).key]
    space.take(
        drawing.overlay_size(*image, panels, width, titled=query.rules.path or not over_grid)
        if image
        else matrix_drawing.matrix_size(rows, keys, panels, width)
    )
