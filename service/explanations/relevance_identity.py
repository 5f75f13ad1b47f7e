"""The identity that relevance starts from: R = I + ..., (Chefer et al., ICCV 2021, section 3.1)."""

import numpy as np

from contract.manifest import Kind
from service.arrays import Array
from service.explanations.query import AttentionQuery
from service.explanations.selection import MEAN_ROW


def identity_rows(query: AttentionQuery, kind: Kind, rows: tuple[int, ...], keys: int) -> Array:
    """Return the rows (row, key) of the identity that a map of relevance of a kind starts from.

    A row starts as 1 at its own token or, in a later stage, as equal parts of 1 at the tokens of the first stage that
    were merged into its own; the mean of all rows as the same part of 1 at every token. Rows that look at tokens of
    another kind, as those of `cross` do, start as 0.
    """
    own = next(one for one in query.model_kinds if one.name == kind.name)
    start = np.zeros((len(rows), keys), np.float32)
    if own.query != own.fed:
        return start
    for index, row in enumerate(rows):
        among = _merged_into(own, kind, row) if row != MEAN_ROW else slice(None)
        start[index, among] = 1
    start /= start.sum(1, keepdims=True)
    return start


def _merged_into(own: Kind, first: Kind, row: int) -> Array:
    """Return which tokens of the kind `first` a row of its own kind stands for: itself, or those merged into it."""
    if own.grid is None or first.grid is None or own.grid == first.grid:
        return np.array([row])
    (rows, columns), (first_rows, first_columns) = own.grid, first.grid
    down, across = first_rows // rows, first_columns // columns
    tokens: Array = np.arange(first_rows * first_columns).reshape(rows, down, columns, across)
    return tokens[row // columns, :, row % columns].ravel()
