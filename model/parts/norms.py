"""Norms and scales of features."""

import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """x / √(mean(x²) + ε) ⊙ g (Zhang & Sennrich 2019, equation 4), step by step, so that each step has its rule.

    Squares are single floats at least: those of half ones would be infinite from 256 on.
    """

    def __init__(self, width: int, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Take x (..., width) -> the same shape."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return x * scale.to(x.dtype) * self.weight


class LayerScale(nn.Module):
    """diag(w) x, on the branch of a residual block (Touvron et al. 2021, equation 3).

    w begins at `initial`, a small number in the paper.
    """

    def __init__(self, width: int, initial: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), initial))

    def forward(self, x: Tensor) -> Tensor:
        """Take x (..., width) -> the same shape."""
        return x * self.weight
