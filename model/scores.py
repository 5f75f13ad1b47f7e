"""How a query scores keys, beside `scaled_dot_product`: parts handed to `attend` and to what attends."""

import torch
from torch import Tensor, nn


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

    The projections of query and key, there W and U, are those of what attends.
    """

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, width, 1))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Score query (batch, heads, query, width) and key (batch, heads, key, width) -> (batch, heads, query, key)."""
        bent = torch.tanh(query[:, :, :, None] + key[:, :, None])  # (batch, heads, query, key, width)
        return (bent @ self.weight[:, None]).squeeze(-1)
