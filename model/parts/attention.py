"""Attention: score, softmax, select, mix; and multi-head attention (Vaswani et al. 2017). It returns its weights.

The function that scores keys and the one that turns the softmax into weights are parts. Others than those of the paper
are in `model/parts/attention_variants.py`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

Maps: TypeAlias = dict[str, Tensor]
"""Path of the module that attended -> its weights, (batch, heads, query, key), which multiplied the values."""

KeyValue: TypeAlias = tuple[Tensor, Tensor]
"""The keys and values that one attention reads, each (batch, key heads, key, width of a head)."""

Recall: TypeAlias = Callable[[KeyValue], KeyValue]
"""Takes the keys and values of the tokens given now, returns those to look at: the same ones, or a whole cache."""

Score: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Query (..., query, width) and key (..., key, width) -> how well each key answers each query, (..., query, key)."""

Select: TypeAlias = Callable[[Tensor], Tensor]
"""Softmax of the scores (..., query, key) -> the weights that the values are multiplied by."""


class Rotation(NamedTuple):
    """The angles by which the queries and keys of tokens are turned, (token, angle) or (batch, token, angle) each."""

    cosine: Tensor
    sine: Tensor


class Distances(NamedTuple):
    """How far each key is from each query, as a class of distances, and a state for each class."""

    states: Tensor
    """(class, width)."""
    classes: Tensor
    """(query, key)."""


def only_these(remembered: KeyValue) -> KeyValue:
    """Recall nothing beyond the tokens given now: a full pass without a cache."""
    return remembered


@dataclass(frozen=True)
class Context:
    """What surrounds the tokens that a layer is given: what they may look at, and where they stand."""

    visible: Tensor | None = None
    """True where a query may look, broadcasts to (batch, heads, query, key); None lets it look everywhere."""
    bias: Tensor | None = None
    """What is added to scores, broadcasts to (batch, heads, query, key)."""
    rotation: Rotation | None = None
    """How the queries and keys of the tokens given now are turned."""
    positions: Tensor | None = None
    """What is added to what queries and keys are made of, and not to values: (token, width), or of each of a batch."""
    distances: Distances | None = None
    """What scores are made of beside queries and keys."""
    recall: Recall = only_these
    """What is made of the keys and values of the tokens given now."""


ALL_VISIBLE = Context()
"""Every token is seen, and nothing is said of where any stands."""

Contexts: TypeAlias = Context | Sequence[Context]
"""What surrounds the tokens of every layer, or of each layer."""


def of_layers(contexts: Contexts, recalls: Sequence[Recall] | None, layers: int) -> Sequence[Context]:
    """Return the context of each layer, with a recall of its own if some are given."""
    each = [contexts] * layers if isinstance(contexts, Context) else contexts
    return [replace(one, recall=recall) for one, recall in zip(each, recalls, strict=True)] if recalls else each


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
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Mix the values by select(softmax(score(Q, K) + bias)) and return the mix with the weights that made it.

    query (..., query, width), key and value (..., key, width); `visible` is boolean, broadcasts to (..., query, key),
    and is True where a query may look; None lets it look everywhere. A hidden key's share is exactly 0. A row that
    sees nothing has no meaning and comes out uniform rather than NaN.

    Two tokens of three numbers look at each other; then a query scores two keys 112 and 96, which over √64 are 14 and
    12 (Alammar 2018, "The Illustrated Transformer"):

    >>> x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> query = x @ torch.tensor([[0.01, 0.03], [0.02, 0.02], [0.03, 0.01]])
    >>> key = x @ torch.tensor([[0.05, 0.05], [0.06, 0.05], [0.07, 0.05]])
    >>> mixed, weights = attend(query, key, value=x @ torch.tensor([[0.02, 0.02], [0.01, 0.02], [0.01, 0.01]]))
    >>> weights
    tensor([[0.4787, 0.5213],
            [0.4474, 0.5526]])
    >>> mixed
    tensor([[0.1326, 0.1682],
            [0.1363, 0.1729]])
    >>> attend(torch.ones(1, 64), torch.tensor([[1.75], [1.5]]).expand(2, 64), value=torch.eye(2))[1]
    tensor([[0.8808, 0.1192]])
    """
    scores = score(query, key)  # (..., query, key)
    if bias is not None:
        scores = scores + bias
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


def under(name: str, maps: Maps) -> Maps:
    """Prefix every path with the name of the part that returned it, so that paths read like the state dict."""
    return {f"{name}.{path}" if path else name: weights for path, weights in maps.items()}


def rotated(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn x (batch, heads, token, width of a head) by n angles: entry i and entry i + n are a pair.

    Su et al. 2021 ("RoFormer"), equation 34, with the pairs of GPT-NeoX. What is behind 2n entries stays as it is.
    """
    cosine, sine = (angles.to(x.dtype).unsqueeze(-3) for angles in rotation)  # (1 or batch x 1, token, angle)
    half = cosine.shape[-1]
    first, second = x[..., :half], x[..., half : 2 * half]
    turned = (first * cosine - second * sine, second * cosine + first * sine)
    return torch.cat((*turned, x[..., 2 * half :]) if x.shape[-1] > 2 * half else turned, dim=-1)


def of_each_head(x: Tensor, heads: int) -> Tensor:
    """Give each head of queries the key head that it shares: (batch, heads, key, width) of (batch, key heads, ...)."""
    if x.shape[1] == heads:
        return x
    return x.unsqueeze(2).expand(-1, -1, heads // x.shape[1], -1, -1).flatten(1, 2)


class MultiHeadAttention(nn.Module):
    """Several attentions side by side on slices of the width, joined by one projection (section 3.2.2).

    `bias` is that of queries, keys and values (of keys unless `key_bias` says otherwise), `output_bias` that of the
    joining projection. A head is `head_width` wide, by default its share of the width. There may be fewer heads of keys
    and values (`key_heads`), each of which serves as many heads of queries (Ainslie et al. 2023); keys and values are
    remembered once; they are made of states `source` wide, by default as wide as those of queries. `norm` makes a norm
    of queries and one of keys, a head's width each (Henry et al. 2020). `score` and `select` are those of `attend`, for
    queries and keys of one head's width; each has a batch and all heads before them.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        bias: bool = True,
        key_bias: bool | None = None,
        output_bias: bool = True,
        key_heads: int | None = None,
        head_width: int | None = None,
        source: int | None = None,
        norm: Callable[[int], nn.Module] | None = None,
        score: Score = scaled_dot_product,
        select: Select = soft,
    ) -> None:
        if heads < 1 or (head_width is None and width % heads):
            raise ValueError(f"attention: width must be a multiple of heads, given width {width} and {heads} heads")
        if heads % (key_heads or heads):
            raise ValueError(f"attention: heads must be a multiple of key heads, given {heads} and {key_heads}")
        super().__init__()
        self.heads, self.key_heads = heads, key_heads or heads
        own = head_width or width // heads
        self.query = nn.Linear(width, heads * own, bias)
        self.key = nn.Linear(source or width, self.key_heads * own, bias if key_bias is None else key_bias)
        self.value = nn.Linear(source or width, self.key_heads * own, bias)
        self.output = nn.Linear(heads * own, width, output_bias)
        self.query_norm, self.key_norm = (norm(own) if norm else nn.Identity() for _ in range(2))
        self.score = score
        self.select = select

    def forward(self, x: Tensor, context: Context = ALL_VISIBLE) -> tuple[Tensor, Maps]:
        """Let the tokens x (batch, token, width) look at each other, or at what their context recalls."""
        return self.read(x, context.recall(self.remember(x, context)), context)

    def remember(self, source: Tensor, context: Context = ALL_VISIBLE) -> KeyValue:
        """Compute the keys and values of source (batch, key, width) once, for any number of reads."""
        key = self.key_norm(self._split(self.key(_placed(source, context)), self.key_heads))
        return _turned(key, context), self._split(self.value(source), self.key_heads)

    def read(self, x: Tensor, remembered: KeyValue, context: Context = ALL_VISIBLE) -> tuple[Tensor, Maps]:
        """Let x (batch, query, width) look at remembered keys and values."""
        query = self.query_norm(self._split(self.query(_placed(x, context)), self.heads))
        return self._mix(_turned(query, context), remembered, context)

    def _mix(self, query: Tensor, remembered: KeyValue, context: Context) -> tuple[Tensor, Maps]:
        key, value = (of_each_head(one, self.heads) for one in remembered)
        mixed, weights = attend(query, key, value, context.visible, self.score, self.select, context.bias)
        return self.output(mixed.transpose(1, 2).flatten(2)), {"": weights}  # (batch, query, width)

    def _split(self, x: Tensor, heads: int) -> Tensor:
        x = x.reshape(x.shape[0], x.shape[1], heads, -1)  # (batch, token, heads, width of a head)
        return x.transpose(1, 2)  # (batch, heads, token, width of a head)


def _placed(x: Tensor, context: Context) -> Tensor:
    return x if context.positions is None else x + context.positions


def _turned(x: Tensor, context: Context) -> Tensor:
    return x if context.rotation is None else rotated(x, context.rotation)
