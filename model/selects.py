"""What becomes of the softmax of scores before it weighs values, beside `soft`."""

import torch
from torch import Tensor, nn


class Hard(nn.Module):
    """Look at the likeliest key alone; of equal ones the first (Xu et al. 2015, section 4.1, at inference).

    In training the gradient is that of the shares, straight through the choice (Bengio et al. 2013, section 3.1).
    """

    def forward(self, shares: Tensor) -> Tensor:
        """Take shares (..., query, key) -> 1 at each row's largest, else 0."""
        chosen = nn.functional.one_hot(shares.argmax(-1), shares.shape[-1]).to(shares.dtype)
        return chosen + shares - shares.detach() if self.training else chosen


class ReAttention(nn.Module):
    """Norm(θᵀA): every head's map is a mixture of all, normalised a head (Zhou et al. 2021, equation 3).

    The norm is that over a batch, as the authors' code has it, so rows do not sum to one, and weights may be negative.
    What is hidden gets weight too: it is for tokens of which all are visible.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))  # a head is itself at first
        self.norm = nn.BatchNorm2d(heads)

    def forward(self, shares: Tensor) -> Tensor:
        """Take shares (batch, heads, query, key) -> the same shape."""
        mixed: Tensor = self.norm((self.weight.T @ shares.flatten(2)).reshape(shares.shape))
        return mixed
