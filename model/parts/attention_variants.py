"""Variants of attention: other scores, other weights made of the softmax, and attention along an axis of a grid.

Scores and selects are parts for `attend` and `MultiHeadAttention`, in place of `scaled_dot_product` and `soft`.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from model.parts.attention import Context, KeyValue, Maps, MultiHeadAttention, attend

# Scores: how well each key answers each query.


def dot_product(query: Tensor, key: Tensor) -> Tensor:
    """QKᵀ (Luong et al. 2015, section 3.1, "dot")."""
    return query @ key.transpose(-2, -1)


class Bilinear(nn.Module):
    """qᵀWk, a matrix W a head (Luong et al. 2015, section 3.1, "general")."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, width, width))
        nn.init.normal_(self.weight, std=1 / width)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Score query (batch, heads, query, width) and key (batch, heads, key, width) -> (batch, heads, query, key)."""
        return query @ self.weight @ key.transpose(-2, -1)


class Additive(nn.Module):
    """vᵀ tanh(q + k), a vector v a head (Bahdanau et al. 2015, appendix A.1.2).

    The paper's projections W and U are the query and key projections of the module that attends.
    """

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, width, 1))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Score query (batch, heads, query, width) and key (batch, heads, key, width) -> (batch, heads, query, key)."""
        bent = torch.tanh(query[:, :, :, None] + key[:, :, None])  # (batch, heads, query, key, width)
        return (bent @ self.weight[:, None]).squeeze(-1)


# Selects: the weights that are made of the softmax.


class Hard(nn.Module):
    """Give all weight to the largest share, the first of equal ones (Xu et al. 2015, section 4.1, at inference).

    In training the gradient is that of the shares, straight through the choice (Bengio et al. 2013, section 3.1).
    """

    def forward(self, shares: Tensor) -> Tensor:
        """Take shares (..., query, key) -> 1 at each row's largest, else 0."""
        chosen = nn.functional.one_hot(shares.argmax(-1), shares.shape[-1]).to(shares.dtype)
        return chosen + (shares - shares.detach()) if self.training else chosen


class ReAttention(nn.Module):
    """Norm(θᵀA): every head's map is a mixture of all, normalised a head (Zhou et al. 2021, equation 3).

    The norm is a batch norm, as in the authors' code, so rows do not sum to one and weights may be negative. Hidden
    keys get weight too, so it is only for inputs of which all tokens are visible.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))  # a head is itself at first
        self.norm = nn.BatchNorm2d(heads)

    def forward(self, shares: Tensor) -> Tensor:
        """Take shares (batch, heads, query, key) -> the same shape."""
        mixed: Tensor = self.norm((self.weight.T @ shares.flatten(2)).reshape(shares.shape))
        return mixed


# Which tokens see each other.


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

    A softmax over a line is a softmax over all tokens with only that line visible. So one map (batch, heads, token,
    token) holds the weights of all lines. In a block of `along_lines` it is computed line by line, without that map:
    for n places on lines of l, and some tokens before the grid, n x l scores in place of n².
    """

    line: Tensor

    def __init__(self, width: int, heads: int, axis: int, grid: Sequence[int], *, prefix: int = 0) -> None:
        super().__init__(width, heads)
        self.register_buffer("line", along(axis, grid, prefix), persistent=False)
        self.axis, self.grid, self.prefix = axis, tuple(grid), prefix
        self.by_lines = False

    def _mix(self, query: Tensor, remembered: KeyValue, context: Context) -> tuple[Tensor, Maps]:
        """Let queries look along their lines. Raises ValueError for tokens that are not the grid's."""
        if query.shape[2] != len(self.line):
            raise ValueError(
                f"axial attention: must be given the {len(self.line)} tokens of its grid, given {query.shape[2]}"
            )
        if self.by_lines and context.visible is None and context.bias is None:
            return self._mix_lines(query, *remembered), {}
        line = self.line if context.visible is None else self.line & context.visible
        return super()._mix(query, remembered, replace(context, visible=line))

    def _mix_lines(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Let queries (batch, heads, token, width of a head) look along their lines, those before the grid at all."""
        on_lines, _ = attend(self._lines(query[:, :, self.prefix :]), self._with_prefix(key), self._with_prefix(value))
        others = [length for axis, length in enumerate(self.grid) if axis != self.axis]
        on_grid = on_lines.reshape(query.shape[0], self.heads, *others, *on_lines.shape[2:]).movedim(-2, 2 + self.axis)
        places = on_grid.flatten(2, -2)  # (batch, heads, place, width of a head)
        if self.prefix:
            before, _ = attend(query[:, :, : self.prefix], key, value)
            places = torch.cat((before, places), dim=2)
        read: Tensor = self.output(places.transpose(1, 2).flatten(2))
        return read

    def _lines(self, x: Tensor) -> Tensor:
        """Turn x (batch, heads, place, width) -> (batch, heads x line, place on the line, width)."""
        return x.reshape(*x.shape[:2], *self.grid, x.shape[3]).movedim(2 + self.axis, -2).flatten(1, -3)

    def _with_prefix(self, x: Tensor) -> Tensor:
        """Turn x (batch, heads, token, width) -> (batch, heads x line, prefix and places on the line, width)."""
        lines = self._lines(x[:, :, self.prefix :])
        if not self.prefix:
            return lines
        before = x[:, :, : self.prefix].repeat_interleave(lines.shape[1] // self.heads, dim=1)
        return torch.cat((before, lines), dim=2)


@contextlib.contextmanager
def along_lines(model: nn.Module) -> Iterator[None]:
    """Let all axial attention of a model compute along its lines, and return no maps, within the block.

    With a mask it computes whole maps all the same, and returns them.
    """
    axial = [part for part in model.modules() if isinstance(part, AxialAttention)]
    before = [part.by_lines for part in axial]
    for part in axial:
        part.by_lines = True
    try:
        yield
    finally:
        for part, by_lines in zip(axial, before, strict=True):
            part.by_lines = by_lines
