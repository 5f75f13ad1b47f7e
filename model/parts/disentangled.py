"""Attention to what a token is and to how far away it is, apart (He et al. 2021, "DeBERTa")."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from model.parts.attention import Context, KeyValue, Maps, MultiHeadAttention

TERMS = 3
"""Content to content, content to distance, distance to content."""


def scaled_by_terms(query: Tensor, key: Tensor) -> Tensor:
    """QKᵀ/√(3d): a term of the scores (He et al. 2021, equation 4)."""
    return query @ key.transpose(-2, -1) / math.sqrt(TERMS * query.shape[-1])


class DisentangledAttention(MultiHeadAttention):
    """Scores of what a query and a key are, of the query and their distance, and of their distance and the key.

    With δ(i, j) the class of their distance, and queries and keys of distances projected as those of tokens:
    Ã_ij = (Q_i·K_j + Q_i·K^r_δ(i,j) + K_j·Q^r_δ(i,j)) / √(3d). (Equation 4 of the paper has δ(j, i) in the last term;
    its authors' code has δ(i, j).)
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads, score=scaled_by_terms)

    def _mix(self, query: Tensor, remembered: KeyValue, context: Context) -> tuple[Tensor, Maps]:
        """Let queries look at keys. Raises ValueError in a context without distances."""
        if context.distances is None:
            raise ValueError("disentangled attention: must be given distances, given none")
        key, _ = remembered
        states, classes = context.distances
        of_query, of_key = (self._split(project(states[None]), self.heads) for project in (self.query, self.key))
        near = scaled_by_terms(query, of_key)  # (batch, heads, query, class)
        far = scaled_by_terms(key, of_query)  # (batch, heads, key, class)
        outer = query.shape[:2]
        to_distance = near.gather(-1, classes.expand(*outer, -1, -1))
        from_distance = far.gather(-1, classes.T.expand(*outer, -1, -1)).transpose(-2, -1)
        return super()._mix(query, remembered, replace(context, bias=to_distance + from_distance))


def logarithmic_classes(length: int, buckets: int, farthest: int) -> Tensor:
    """Return the class of each distance from 1 - length to length - 1, 0 to 2 buckets - 1, `buckets` for no distance.

    Distances up to half of the buckets have one each; those beyond are joined by a logarithm that ends at `farthest`
    (He et al. 2023, section 2.1, as in the authors' code). They are computed in single floats, as there.
    """
    distance = torch.arange(1 - length, length)
    middle = buckets // 2
    away = distance.abs().clamp(min=middle)
    steps = torch.log(away / middle) / torch.log(torch.tensor((farthest - 1) / middle)) * (middle - 1)
    joined = torch.where(distance.abs() <= middle, distance, (steps.ceil().long() + middle) * distance.sign())
    return (joined + buckets).clamp(0, 2 * buckets - 1)


def plain_classes(length: int, farthest: int) -> Tensor:
    """Return the class of each distance from 1 - length to length - 1: its own, up to `farthest` (equation 3)."""
    return (torch.arange(1 - length, length) + farthest).clamp(0, 2 * farthest - 1)
