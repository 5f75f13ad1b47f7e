"""Attention: score, softmax, select, mix; and multi-head attention (Vaswani et al. 2017). It returns its weights.

How a query scores keys (`model/scores.py`) and what becomes of the softmax (`model/selects.py`) are parts.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

Maps: TypeAlias = dict[str, Tensor]
"""Path of the module that attended -> its weights, (batch, heads, query, key), which multiplied the values."""

KeyValue: TypeAlias = tuple[Tensor, Tensor]
"""The keys and values that one attention reads, each (batch, heads, key, width of a head)."""


Score: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Query (..., query, width) and key (..., key, width) -> how well each key answers each query, (..., query, key)."""

Select: TypeAlias = Callable[[Tensor], Tensor]
"""Softmax of the scores (..., query, key) -> the weights that the values are multiplied by."""


def scaled_dot_product(query: Tensor, key: Tensor) -> Tensor:
    """QKᵀ/√d (Vaswani et al. 2017, equation 1)."""
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def soft(shares: Tensor) -> Tensor:
    """Weigh every key by its share: the expected value (Bahdanau et al. 2015, equation 5)."""
    return shares


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Tensor | None = None,
    score: Score = scaled_dot_product,
    select: Select = soft,
) -> tuple[Tensor, Tensor]:
    """Mix the values by select(softmax(score(Q, K))) and return the mix with the weights that made it.

    query (..., query, width), key and value (..., key, width); `visible` is boolean, broadcasts to (..., query, key),
    and is True where a query may look; None lets it look everywhere. A hidden key's share is exactly 0. A row that
    sees nothing has no meaning and comes out uniform rather than NaN.
    """
    scores = score(query, key)  # (..., query, key)
    if visible is not None:
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    weights = select(scores.softmax(dim=-1))
    return weights @ value, weights


def causal(length: int, device: torch.device | None = None) -> Tensor:
    """Return (length, length), True where the key is not later than the query."""
    index = torch.arange(length, device=device)
    return index <= index[:, None]


def under(name: str, maps: Maps) -> Maps:
    """Prefix every path with the name of the part that returned it, so that paths read like the state dict."""
    return {f"{name}.{path}" if path else name: weights for path, weights in maps.items()}


class MultiHeadAttention(nn.Module):
    """Several attentions side by side on slices of the width, joined by one projection (section 3.2.2).

    `bias` is that of queries, keys and values; the joining projection always has one. `score` and `select` are those
    of `attend`, for queries and keys of one head's width; each has a batch and all heads before them.
    """

    def __init__(
        self, width: int, heads: int, *, bias: bool = True, score: Score = scaled_dot_product, select: Select = soft
    ) -> None:
        if heads < 1 or width % heads:
            raise ValueError(f"attention: width must be a multiple of heads, given width {width} and {heads} heads")
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias)
        self.key = nn.Linear(width, width, bias)
        self.value = nn.Linear(width, width, bias)
        self.output = nn.Linear(width, width)
        self.score = score
        self.select = select

    def forward(self, x: Tensor, source: Tensor, visible: Tensor | None) -> tuple[Tensor, Maps]:
        """Let x (batch, query, width) look at source (batch, key, width)."""
        return self.read(x, self.remember(source), visible)

    def remember(self, source: Tensor) -> KeyValue:
        """Compute the keys and values of a source once, for any number of reads."""
        return self._split(self.key(source)), self._split(self.value(source))

    def read(self, x: Tensor, remembered: KeyValue, visible: Tensor | None) -> tuple[Tensor, Maps]:
        """Let x (batch, query, width) look at keys and values that were remembered."""
        mixed, weights = attend(self._split(self.query(x)), *remembered, visible, self.score, self.select)
        return self.output(mixed.transpose(1, 2).flatten(2)), {"": weights}  # (batch, query, width)

    def _split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(
            1, 2
        )  # (batch, heads, token, width of a head)


def along(axis: int, grid: Sequence[int], prefix: int = 0) -> Tensor:
    """Return (token, token), True where two places of a grid differ along one axis at most.

    Tokens are a grid of any number of axes in reading order, behind `prefix` tokens that see all and are seen by all.
    Raises ValueError for an axis that the grid does not have.
    """
    if not 0 <= axis < len(grid):
        raise ValueError(f"axial attention: axis must be from 0 to {len(grid) - 1}, those of the grid, given {axis}")
    places = torch.cartesian_prod(*(torch.arange(length) for length in grid)).reshape(-1, len(grid))  # (place, axis)
    others = [index for index in range(len(grid)) if index != axis]
    line = (places[:, None, others] == places[None, :, others]).all(-1)
    return nn.functional.pad(line, (prefix, 0, prefix, 0), value=True)


class AxialAttention(MultiHeadAttention):
    """Attention of every place of a grid to those on its line along one axis (Ho et al. 2019, section 3).

    The softmax over a line is the softmax over all tokens of which only the line is visible. So the weights of all
    lines lie unfolded in one map, whose first axis is the batch.
    """

    line: Tensor

    def __init__(self, width: int, heads: int, axis: int, grid: Sequence[int], *, prefix: int = 0) -> None:
        super().__init__(width, heads)
        self.register_buffer("line", along(axis, grid, prefix), persistent=False)

    def read(self, x: Tensor, remembered: KeyValue, visible: Tensor | None) -> tuple[Tensor, Maps]:
        """Let x (batch, token, width) look along its lines. Raises ValueError for tokens that are not the grid's."""
        if x.shape[1] != len(self.line):
            raise ValueError(
                f"axial attention: must be given the {len(self.line)} tokens of its grid, given {x.shape[1]}"
            )
        return super().read(x, remembered, self.line if visible is None else self.line & visible)
