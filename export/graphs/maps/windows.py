"""Maps of windows in a graph: rows over all tokens, and products with them (defined in `model/parts/windows.py`)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from contract.manifest import Kind
from export.graphs.editing.builder import Builder
from model.parts.windows import Windows, found_at

Indices = npt.NDArray[np.int64]


class Places(NamedTuple):
    """Where the tokens of a grid stand in the windows of a layer."""

    tokens: Indices
    """The token of each slot of each window, (windows, slot)."""
    window: Indices
    """The window of each token, (token)."""
    slot: Indices
    """The slot of each token in its window, (token)."""

    @property
    def order(self) -> Indices:
        """The place of each token among all slots, (token)."""
        return self.window * self.tokens.shape[1] + self.slot


def places_of(kind: Kind) -> list[Places]:
    """Return where the tokens of a kind stand, for each of its layers."""
    rows, columns = kind.grid or (0, 0)
    found = []
    for cut in kind.windows:
        tokens = Windows(rows, columns, cut.side, cut.shift).places()
        window, slot = found_at(tokens)
        found.append(Places(tokens.numpy(), window.numpy(), slot.numpy()))
    return found


def unfolded_rows(b: Builder, weights: str, places: Places, rows: str) -> str:
    """Compute `windows.unfold_rows` of weights (batch, windows, heads, slot, slot): (batch, heads, row, token)."""
    slots = places.tokens.shape[1]
    turned = b.op("Transpose", weights, perm=[0, 2, 1, 3, 4])
    by_query = b.op("Reshape", turned, b.constant([0, 0, places.tokens.size, slots]))
    own = b.op("Gather", by_query, b.op("Gather", b.constant(places.order), rows), axis=2)  # (batch, heads, row, slot)
    window = b.constant(places.window)
    same = b.op("Equal", b.op("Unsqueeze", b.op("Gather", window, rows), b.constant([1])), window)  # (row, token)
    return b.op("Where", same, b.op("Gather", own, b.constant(places.slot), axis=3), b.constant(0, np.float32))


def mean_of_rows(b: Builder, weights: str, places: Places) -> str:
    """Compute `windows.mean_row`: (batch, heads, 1, token)."""
    sums = by_token(b, b.reduce("ReduceSum", weights, 3, keep=False), places)
    return b.op("Unsqueeze", b.op("Div", sums, b.constant(places.tokens.size, np.float32)), b.constant([2]))


def by_token(b: Builder, x: str, places: Places) -> str:
    """Put x (batch, windows, heads, slot, ...) in the order of tokens: (batch, heads, token, ...)."""
    turned = b.op("Transpose", x, perm=[0, 2, 1, 3])
    flat = b.op("Reshape", turned, b.constant([0, 0, places.tokens.size]))
    return b.op("Gather", flat, b.constant(places.order), axis=2)


def carry(b: Builder, joint: str, fused: str, places: Places) -> str:
    """Compute `windows.carry`: joint (batch, row, token) times fused maps (batch, windows, slot, slot)."""
    windows, slots = places.tokens.shape
    own = b.op("Gather", joint, b.constant(places.tokens.ravel()), axis=2)
    own = b.op("Transpose", b.op("Reshape", own, b.constant([0, 0, windows, slots])), perm=[0, 2, 1, 3])
    moved = b.op("Transpose", b.op("MatMul", own, fused), perm=[0, 2, 1, 3])  # (batch, row, windows, slot)
    return b.op("Gather", b.op("Reshape", moved, b.constant([0, 0, windows * slots])), b.constant(places.order), axis=2)


def spread(b: Builder, joint: str, grid: tuple[int, int]) -> str:
    """Compute `windows.spread` to a grid: each of four tokens gets a quarter of what their merged token has."""
    rows, columns = grid
    merged = (np.arange(rows)[:, None] // 2 * (columns // 2) + np.arange(columns) // 2).ravel()
    return b.op("Mul", b.op("Gather", joint, b.constant(merged), axis=2), b.constant(0.25, np.float32))


def row_sums(b: Builder, fused: str, places: Places) -> str:
    """Return the sum of each row of fused maps (batch, windows, slot, slot), (batch, 1, token)."""
    sums = b.op("Reshape", b.reduce("ReduceSum", fused, 3, keep=False), b.constant([0, places.tokens.size]))
    return b.op("Unsqueeze", b.op("Gather", sums, b.constant(places.order), axis=1), b.constant([1]))
