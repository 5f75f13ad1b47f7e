"""Norms and scales of features."""

import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """x / √(mean(x²) + ε) ⊙ g (Zhang & Sennrich 2019, equation 4), step by step, so that each step has its rule."""

    def __init__(self, width: int, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Take x (..., width) -> the same shape."""
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon)
        return x * scale * self.weight


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
