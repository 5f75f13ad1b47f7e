"""Compares the states of tokens: which are alike, in one input or in two, and which parts they make up."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from contract.manifest import IMAGE_VISIBLE, Kind, Method
from service.arrays import Array
from service.explanations.answer import AttentionMap
from service.explanations.query import AttentionQuery
from service.explanations.states import Exact, States, colours, likeness, middle_of
from service.inputs.model_input import ModelInput

Side = tuple[ModelInput, Mapping[str, Array]]
"""An input, and its states as `AttentionResult` has them."""
Found = tuple[States, npt.NDArray[np.bool_]]
"""The states of an input after one layer, and which of its tokens are parts of it."""


async def compare_states(query: AttentionQuery, sides: Sequence[Side]) -> list[list[AttentionMap]]:
    """Return the maps of each side: of an input, and perhaps of another one. Rows are those of the first.

    It computes on a thread. Raises Unacceptable for rows that the first input does not have.
    """
    return await asyncio.to_thread(_compare, query, sides)


def _compare(query: AttentionQuery, sides: Sequence[Side]) -> list[list[AttentionMap]]:
    maps: list[list[AttentionMap]] = [[] for _ in sides]
    has_rows = query.rules.numbers == 1
    for asked in query.kinds:
        kind, (first, _) = asked.kind, sides[0]
        rows = tuple(query.rows(asked, first.lengths))
        order = sorted(asked.layers)
        for layer in asked.layers:
            found = [(states[kind.name][order.index(layer)], _parts(kind, item)) for item, states in sides]
            named = {"name": kind.name, "kind": kind.name, "layer": layer, "heads": None, "normalized": False}
            entry: dict[str, object] = named if has_rows else {**named, "queries": None}
            for own, values in zip(maps, COMPARISONS[query.method](found, rows), strict=True):
                own.append(AttentionMap(kind, entry, values.astype(np.float32), rows if has_rows else None))
    return maps


def _parts(kind: Kind, item: ModelInput) -> npt.NDArray[np.bool_]:
    """Return which tokens are parts of an input: its patches, or the tokens that are not special."""
    if not kind.grid:
        return ~item.special[kind.key].astype(np.bool_)
    parts = np.zeros(kind.length, np.bool_)
    parts[kind.patches] = item.arrays.get(IMAGE_VISIBLE, True)
    return parts


def _similar(sides: list[Found], rows: Sequence[int]) -> list[Exact]:
    """Return for each side how like its tokens are to those of the rows, (1, row, token)."""
    middle = middle_of(sides)
    asked = sides[0][0][list(rows)]
    return [likeness(asked, states, middle)[None] for states, _ in sides]


def _coloured(sides: list[Found], _: Sequence[int]) -> list[Exact]:
    """Return for each side the colour of each token, (colour, 1, token)."""
    return [own[:, None] for own in colours(sides)]


COMPARISONS: Mapping[Method, Callable[[list[Found], Sequence[int]], list[Exact]]] = {
    "similar": _similar,
    "parts": _coloured,
}
