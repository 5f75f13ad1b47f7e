"""Where tokens stand, told to attention: angles of queries and keys, a bias by distance, and windows of a text."""

import math

import torch
from torch import Tensor, nn

from model.attention import Rotation


class Rotary(nn.Module):
    """The angle m θ^(-2i/d) of the token at position m and pair i of a head d wide (Su et al. 2021, equation 15)."""

    frequencies: Tensor

    def __init__(self, width: int, theta: float = 10_000.0) -> None:
        if width % 2:
            raise ValueError(f"rotary positions: width of a head must be even, given {width}")
        super().__init__()
        pairs = torch.arange(0, width, 2, dtype=torch.float64)
        self.register_buffer("frequencies", (theta ** (-pairs / width)).float(), persistent=False)

    def forward(self, positions: Tensor) -> Rotation:
        """Return the cosine and the sine of each angle of positions (token) or (batch, token), and a pair."""
        angles = positions[..., None] * self.frequencies
        return Rotation(angles.cos(), angles.sin())


class RelativeBias(nn.Module):
    """A learned number for each head and each bucket of distances (Raffel et al. 2020, section 2.1).

    Where queries look both ways, half of the buckets are of later keys; else a later key is as far as the query itself.
    Of the buckets of one direction, the first half holds a distance each, and the others grow by a ratio up to the
    distance `farthest`; the last holds all beyond.
    """

    bucket: Tensor

    def __init__(self, heads: int, buckets: int, farthest: int = 128, *, both_ways: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        self.farthest = farthest
        self.register_buffer("bucket", bucket_of_each(buckets, farthest, both_ways=both_ways), persistent=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Take positions of queries and of keys, (token) or (batch, token) -> (..., heads, query, key)."""
        distance = key[..., None, :] - query[..., :, None]
        bucket = self.bucket[distance.clamp(-self.farthest, self.farthest) + self.farthest]
        bias: Tensor = self.table(bucket).movedim(-1, -3)
        return bias


def bucket_of_each(buckets: int, farthest: int, *, both_ways: bool) -> Tensor:
    """Return the bucket of each distance from -farthest to farthest, the key's position less the query's."""
    distances = torch.arange(-farthest, farthest + 1)
    own = buckets // 2 if both_ways else buckets
    away = distances.abs() if both_ways else (-distances).clamp(min=0)
    exact = own // 2
    ratio = torch.log(away.clamp(min=1).float() / exact) / math.log(farthest / exact)
    grown = (exact + (ratio * (own - exact)).long()).clamp(max=own - 1)
    found = torch.where(away < exact, away, grown)
    return found + (distances > 0).long() * own if both_ways else found


def near(query: Tensor, key: Tensor, reach: int) -> Tensor:
    """Return (..., query, key) of positions (..., token), True where a key is at most `reach` tokens away.

    Beltagy et al. 2020, section 3.1: a window of twice the reach and the token itself.
    """
    return (key[..., None, :] - query[..., :, None]).abs() <= reach
