"""Attention: score, softmax, select, mix; and multi-head attention (Vaswani et al. 2017). It returns its weights.

The function that scores keys and the one that turns the softmax into weights are parts. Others than those of the paper
are in `model/attention_variants.py`.
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

Recall: TypeAlias = Callable[[KeyValue], KeyValue]
"""Takes the keys and values of the tokens given now, returns those to look at: the same ones, or a whole cache."""

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


def visible_keys(visible: Tensor) -> Tensor:
    """Make visible (batch, key) a mask for every head and every query: (batch, 1, 1, key)."""
    return visible[:, None, None, :]


def only_these(remembered: KeyValue) -> KeyValue:
    """Recall nothing beyond the tokens given now: a full pass without a cache."""
    return remembered


def each_recall(recalls: Sequence[Recall] | None, blocks: nn.ModuleList) -> Sequence[Recall]:
    """Return a recall for each block: by default, nothing beyond the tokens given now."""
    return recalls or [only_these] * len(blocks)


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

    def forward(self, x: Tensor, visible: Tensor | None, recall: Recall = only_these) -> tuple[Tensor, Maps]:
        """Let the tokens x (batch, token, width) look at each other, or at the cache that `recall` returns."""
        return self.read(x, recall(self.remember(x)), visible)

    def remember(self, source: Tensor, places: Tensor | None = None) -> KeyValue:
        """Compute the keys and values of source (batch, key, width) once, for any number of reads.

        `places` say where its tokens stand, and are added to what keys are made of, not values (Carion et al. 2020).
        """
        placed = source if places is None else source + places
        return self._split(self.key(placed)), self._split(self.value(source))

    def read(self, x: Tensor, remembered: KeyValue, visible: Tensor | None) -> tuple[Tensor, Maps]:
        """Let x (batch, query, width) look at remembered keys and values."""
        return self._mix(self._split(self.query(x)), remembered, visible)

    def _mix(self, query: Tensor, remembered: KeyValue, visible: Tensor | None) -> tuple[Tensor, Maps]:
        mixed, weights = attend(query, *remembered, visible, self.score, self.select)
        return self.output(mixed.transpose(1, 2).flatten(2)), {"": weights}  # (batch, query, width)

    def _split(self, x: Tensor) -> Tensor:
        x = x.reshape(x.shape[0], x.shape[1], self.heads, -1)  # (batch, token, heads, width of a head)
        return x.transpose(1, 2)  # (batch, heads, token, width of a head)
