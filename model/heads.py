"""What is read off an encoder's last states: classes, one vector, missing words."""

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

Pooling: TypeAlias = Literal["first", "mean", "max", "mean_sqrt_length"]
"""How the states of a text's tokens become one: the first, their mean, their maximum, or sum / √length."""


class FirstState(nn.Module):
    """The class token's last state as it is (Caron et al. 2021, section 4)."""

    def forward(self, x: Tensor, visible: Tensor | None = None) -> Tensor:
        """Take states (batch, token, width) -> (batch, width)."""
        return x[:, 0]


class FirstLinear(nn.Linear):
    """A linear classifier of the class token's last state (Dosovitskiy et al. 2021, section 3.1)."""

    def forward(self, x: Tensor, visible: Tensor | None = None) -> Tensor:
        """Take states (batch, token, width) -> logits (batch, classes)."""
        return super().forward(x[:, 0])


class FirstDense(nn.Module):
    """The class token's last state through a layer with an activation (Devlin et al. 2019: the pooler)."""

    def __init__(self, width: int, hidden: int, activation: nn.Module) -> None:
        super().__init__()
        self.dense = nn.Linear(width, hidden)
        self.activation = activation

    def forward(self, x: Tensor, visible: Tensor | None = None) -> Tensor:
        """Take states (batch, token, width) -> (batch, hidden)."""
        pooled: Tensor = self.activation(self.dense(x[:, 0]))
        return pooled


class FirstClassifier(FirstDense):
    """The same, classified by a second layer (Devlin et al. 2019, section 4)."""

    def __init__(self, width: int, classes: int, activation: nn.Module) -> None:
        super().__init__(width, width, activation)
        self.output = nn.Linear(width, classes)

    def forward(self, x: Tensor, visible: Tensor | None = None) -> Tensor:
        """Take states (batch, token, width) -> logits (batch, classes)."""
        logits: Tensor = self.output(super().forward(x))
        return logits


class DistilledClassifier(nn.Module):
    """The mean of what the class token and the distillation token say (Touvron et al. 2021, DeiT, section 4)."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.classifier = nn.Linear(width, classes)
        self.distilled = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Take states (batch, token, width) -> logits (batch, classes)."""
        return (self.classifier(x[:, 0]) + self.distilled(x[:, 1])) / 2


class FirstAndMeanClassifier(nn.Linear):
    """A linear classifier of the class token beside the mean of the patches (Oquab et al. 2023, DINOv2, appendix B)."""

    def __init__(self, width: int, classes: int, prefix: int) -> None:
        super().__init__(2 * width, classes)
        self.prefix = prefix

    def forward(self, x: Tensor) -> Tensor:
        """Take states (batch, token, width) -> logits (batch, classes)."""
        return super().forward(torch.cat((x[:, 0], x[:, self.prefix :].mean(dim=1)), dim=1))


class Pool(nn.Module):
    """One vector a text (Reimers & Gurevych 2019, section 3), of length one if `unit`; padding has no part in it."""

    def __init__(self, pooling: Pooling, *, unit: bool) -> None:
        super().__init__()
        self.pooling = pooling
        self.unit = unit

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """Take states (batch, token, width) and visible (batch, token) -> (batch, width)."""
        shown = visible[:, :, None]
        count = visible.sum(dim=1, keepdim=True).to(x.dtype)
        if self.pooling == "first":
            pooled = x[:, 0]
        elif self.pooling == "max":
            pooled = x.masked_fill(~shown, torch.finfo(x.dtype).min).amax(dim=1)
        else:
            pooled = x.masked_fill(~shown, 0).sum(dim=1) / (count if self.pooling == "mean" else count.sqrt())
        return pooled / pooled.norm(dim=1, keepdim=True).clamp_min(1e-12) if self.unit else pooled


class MaskedWords(nn.Module):
    """Which words stand at the masked places (Devlin et al. 2019, section 3.1); the last layer may be the embedding."""

    def __init__(self, width: int, vocabulary: int, activation: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.activation = activation
        self.norm = norm
        self.output = nn.Linear(width, vocabulary)

    def forward(self, x: Tensor, visible: Tensor, masked: Tensor) -> Tensor:
        """Take states (batch, token, width), positions masked (batch, mask) -> logits (batch, mask, vocabulary)."""
        x = x.gather(1, masked[:, :, None].expand(-1, -1, x.shape[2]))
        logits: Tensor = self.output(self.norm(self.activation(self.dense(x))))
        return logits


def head_width(head: nn.Module, width: int) -> int:
    """Return how many numbers a head makes of states of a width: as many as its last layer has outputs."""
    layers = [layer for layer in head.modules() if isinstance(layer, nn.Linear)]
    return layers[-1].out_features if layers else width
