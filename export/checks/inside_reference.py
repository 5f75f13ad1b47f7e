"""The reference for inside graphs: what each attention of a definition makes of one query and one key, in float64."""

import contextlib
import functools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from contract.manifest import HIDDEN_SCORE, Kind
from export.checks.comparison import Array
from export.checks.reference import Controls
from export.plan import Sizes
from export.traced.base import Traced
from model.parts.attention import Context, KeyValue, Maps, MultiHeadAttention, of_each_head

Mixed = tuple[Tensor, Tensor, Tensor, Context]
"""What one attention mixes: queries, keys and values (batch, heads, token, width of a head), and its context."""


def draw_cells(kinds: Sequence[Kind], sizes: Sizes, seed: int) -> Controls:
    """Return controls that ask for every layer, and of each input for one query and one key that all kinds have."""
    generator = torch.Generator().manual_seed(seed)
    controls = {f"{kind.name}.layers": torch.arange(len(kind.maps)) for kind in kinds}
    for name, axes in (("query", [kind.query for kind in kinds]), ("key", [kind.fed for kind in kinds])):
        least = min((sizes[axis] + 1) // 2 for axis in axes)  # the padding of a row begins behind its half
        controls[name] = torch.randint(least, (sizes["batch"],), generator=generator)
    return controls


def inside(exact: Traced, given: Sequence[Tensor], controls: Controls) -> list[Tensor]:
    """Return what the outputs of the inside graph are: for each kind (batch, heads, layer, numbers), in their order.

    They are those of `INSIDE`. The score of a hidden key is `HIDDEN_SCORE`.
    """
    with torch.no_grad(), _watching(exact.attentions) as seen:
        exact.observe(*given)
    found = []
    for kind in exact.kinds:
        layers = [_cell(*seen[name], controls["query"], controls["key"]) for name in kind.maps]
        found += [torch.stack(each, dim=2) for each in zip(*layers, strict=True)]
    return found


def without_hidden(scores: Array) -> Array:
    """Return what is inside with 0 for the scores of hidden keys, next to which a small difference would not show."""
    exact = np.asarray(scores, np.float64)
    return np.where(exact <= HIDDEN_SCORE, 0, exact)


@contextlib.contextmanager
def _watching(parts: Mapping[str, MultiHeadAttention]) -> Iterator[dict[str, Mixed]]:
    """Yield what each attention mixes within a block, by its name."""
    seen: dict[str, Mixed] = {}

    def watch(
        name: str, part: MultiHeadAttention, query: Tensor, remembered: KeyValue, context: Context
    ) -> tuple[Tensor, Maps]:
        key, value = (of_each_head(one, part.heads) for one in remembered)
        seen[name] = query, key, value, context
        return MultiHeadAttention._mix(part, query, remembered, context)

    for name, part in parts.items():
        vars(part)["_mix"] = functools.partial(watch, name, part)
    try:
        yield seen
    finally:
        for part in parts.values():
            del vars(part)["_mix"]


def _cell(query: Tensor, key: Tensor, value: Tensor, context: Context, row: Tensor, column: Tensor) -> list[Tensor]:
    """Return what one attention makes of a query and a key of each input of a batch, (batch, heads, numbers) each."""
    each = torch.arange(len(query))
    products = query @ key.mT / math.sqrt(query.shape[-1])
    scores = products if context.bias is None else products + context.bias
    if context.visible is not None:
        scores = scores.masked_fill(~context.visible, HIDDEN_SCORE)
    weights = scores.softmax(-1)
    of_row, of_column = (query, products, scores, weights, weights @ value), (key, value)
    q, *numbers, mixed = (x[each, :, row] for x in of_row)
    k, v = (x[each, :, column] for x in of_column)
    return [q, k, *numbers, v, mixed]
