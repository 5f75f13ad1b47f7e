"""A vector that attends to states: pooling by attention."""

import torch
from torch import Tensor, nn

from model.parts.attention import ALL_VISIBLE, Context, Maps, MultiHeadAttention, under


class AttentionPool(nn.Module):
    """y = MHA(probe, x); z = y + FF(norm(y)): the head of Zhai et al. 2022, "Scaling Vision Transformers", section 3.2.

    The probe is learned, one query for every input; nothing is added to what it finds (Lee et al. 2019, section 3.2).
    """

    def __init__(self, attention: MultiHeadAttention, feed_forward: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.probe = nn.Parameter(torch.randn(1, 1, attention.query.in_features) * 0.02)
        self.attention = attention
        self.norm = norm
        self.feed_forward = feed_forward

    def forward(self, x: Tensor, context: Context = ALL_VISIBLE) -> tuple[Tensor, Maps]:
        """Take states (batch, token, width) -> (batch, width), and weights (batch, heads, 1, token)."""
        remembered = context.recall(self.attention.remember(x))
        found, maps = self.attention.read(self.probe.expand(x.shape[0], -1, -1), remembered, context)
        pooled = found + self.feed_forward(self.norm(found))
        return pooled[:, 0], under("attention", maps)
