"""Feed-forward layers and their activations."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn


class QuickGELU(nn.Module):
    """x sigmoid(1.702 x), an approximation of GELU (Hendrycks & Gimpel 2016)."""

    def forward(self, x: Tensor) -> Tensor:
        """Take and return any shape."""
        return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU("tanh"),
    "quick_gelu": QuickGELU,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}
"""What makes an activation, by the name that a configuration gives it."""


class FeedForward(nn.Sequential):
    """W₂ a(W₁x): two layers and an activation, the same at every position (Vaswani et al. 2017, equation 2)."""

    def __init__(self, width: int, hidden: int, activation: nn.Module, *, bias: bool = True) -> None:
        super().__init__(nn.Linear(width, hidden, bias), activation, nn.Linear(hidden, width, bias))


def perceptron(*widths: int) -> nn.Sequential:
    """Compose linear layers from each width to the next, with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class GatedFeedForward(nn.Module):
    """W₃(a(W₁x) ⊙ W₂x), by default SwiGLU, in which a is SiLU (Shazeer 2020, equations 5 and 6).

    `bias` is that of W₁ and W₂, and of W₃ unless `output_bias` says otherwise.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        activation: nn.Module | None = None,
        *,
        bias: bool = True,
        output_bias: bool | None = None,
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias)
        self.up = nn.Linear(width, hidden, bias)
        self.activation = activation or nn.SiLU()
        self.output = nn.Linear(hidden, width, bias if output_bias is None else output_bias)

    def forward(self, x: Tensor) -> Tensor:
        """Take x (..., width) -> the same shape."""
        mixed: Tensor = self.output(self.activation(self.gate(x)) * self.up(x))
        return mixed
