"""Scaled dot-product and multi-head attention (Vaswani et al. 2017, section 3.2). What attends returns its weights."""

import math
from typing import TypeAlias

import torch
from torch import Tensor, nn

Maps: TypeAlias = dict[str, Tensor]
"""Path of the module that attended -> its weights, (batch, heads, query, key); rows are probability distributions."""

KeyValue: TypeAlias = tuple[Tensor, Tensor]
"""The keys and values that one attention reads, each (batch, heads, key, width of a head)."""


def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mix the values by softmax(QKᵀ/√d) (equation 1) and return the mix with the weights that made it.

    query (..., query, width), key and value (..., key, width); `visible` is boolean, broadcasts to (..., query, key),
    and is True where a query may look; None lets it look everywhere. A hidden key's weight is exactly 0. A row that
    sees nothing has no meaning and comes out uniform rather than NaN.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (..., query, key)
    if visible is not None:
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
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

    `bias` is that of queries, keys and values; the joining projection always has one.
    """

    def __init__(self, width: int, heads: int, *, bias: bool = True) -> None:
        if heads < 1 or width % heads:
            raise ValueError(f"attention: width must be a multiple of heads, given width {width} and {heads} heads")
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias)
        self.key = nn.Linear(width, width, bias)
        self.value = nn.Linear(width, width, bias)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, source: Tensor, visible: Tensor | None) -> tuple[Tensor, Maps]:
        """Let x (batch, query, width) look at source (batch, key, width)."""
        return self.read(x, self.remember(source), visible)

    def remember(self, source: Tensor) -> KeyValue:
        """Compute the keys and values of a source once, for any number of reads."""
        return self._split(self.key(source)), self._split(self.value(source))

    def read(self, x: Tensor, remembered: KeyValue, visible: Tensor | None) -> tuple[Tensor, Maps]:
        """Let x (batch, query, width) look at keys and values that were remembered."""
        mixed, weights = attend(self._split(self.query(x)), *remembered, visible)
        return self.output(mixed.transpose(1, 2).flatten(2)), {"": weights}  # (batch, query, width)

    def _split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(
            1, 2
        )  # (batch, heads, token, width of a head)
