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


class JointNorm(nn.Module):
    """The same of all heads of a token together (Walsh et al. 2025, "2 OLMo 2 Furious", section 3.2)."""

    def __init__(self, heads: int, width: int, epsilon: float) -> None:
        super().__init__()
        self.norm = RMSNorm(heads * width, epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, heads, token, width of a head) -> the same shape."""
        joined = x.transpose(1, 2)  # (batch, token, heads, width of a head)
        return self.norm(joined.flatten(2)).reshape(joined.shape).transpose(1, 2)


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
