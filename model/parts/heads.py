"""Heads: what an encoder's last states become, such as classes, one vector, missing words, or weights of words."""

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

Pooling: TypeAlias = Literal["first", "last", "mean", "max", "mean_sqrt_length", "weighted_mean"]
"""How the states of a text's tokens become one: the first, the last, the mean, the maximum, sum / √length, or the mean
with weights 1, 2, 3, ..."""
WordPooling: TypeAlias = Literal["max", "sum"]
"""How the weights of a word at a text's tokens become one."""


class FirstState(nn.Module):
    """The class token's last state itself (Caron et al. 2021, section 4)."""

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
    """A `FirstDense` and a second layer, which classifies (Devlin et al. 2019, section 4)."""

    def __init__(self, width: int, classes: int, activation: nn.Module) -> None:
        super().__init__(width, width, activation)
        self.output = nn.Linear(width, classes)

    def forward(self, x: Tensor, visible: Tensor | None = None) -> Tensor:
        """Take states (batch, token, width) -> logits (batch, classes)."""
        logits: Tensor = self.output(super().forward(x))
        return logits


class DistilledClassifier(nn.Module):
    """The mean of a classifier of the class token and one of the distillation token (Touvron et al. 2021, DeiT)."""

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


class PrefixMean(nn.Module):
    """The mean of the first tokens' last states, as of a class and a distillation token, and what is behind it.

    Gong et al. 2021 (AST) classify it by a norm and a linear layer.
    """

    def __init__(self, prefix: int, behind: nn.Module) -> None:
        super().__init__()
        self.prefix = prefix
        self.behind = behind

    def forward(self, x: Tensor) -> Tensor:
        """Take states (batch, token, width) -> what `behind` returns of (batch, width)."""
        found: Tensor = self.behind(x[:, : self.prefix].mean(dim=1))
        return found


class PatchMean(PrefixMean):
    """The mean of the last states of patches, behind `prefix` other tokens, and what is behind it (Bao et al. 2022)."""

    def forward(self, x: Tensor) -> Tensor:
        """Take states (batch, token, width) -> what `behind` returns of (batch, width)."""
        found: Tensor = self.behind(x[:, self.prefix :].mean(dim=1))
        return found


class ProjectedMeanClassifier(nn.Module):
    """States through a linear layer, their mean, and a linear classifier (Yang et al. 2021, SUPERB, section 3)."""

    def __init__(self, width: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.projection = nn.Linear(width, hidden)
        self.output = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Take states (batch, token, width), all of them visible -> logits (batch, classes)."""
        logits: Tensor = self.output(self.projection(x).mean(dim=1))
        return logits


class MeanState(nn.Module):
    """The mean of all last states."""

    def forward(self, x: Tensor, visible: Tensor | None = None) -> Tensor:
        """Take states (batch, token, width), all of them visible -> (batch, width)."""
        return x.mean(dim=1)


class MeanLinear(nn.Linear):
    """A linear classifier of the mean of all last states (Liu et al. 2021, section 4.1)."""

    def forward(self, x: Tensor, visible: Tensor | None = None) -> Tensor:
        """Take states (batch, token, width), all of them visible -> logits (batch, classes)."""
        return super().forward(x.mean(dim=1))


def first_state(x: Tensor, shown: Tensor, count: Tensor) -> Tensor:
    """Return the first token's state."""
    return x[:, 0]


def last_state(x: Tensor, shown: Tensor, count: Tensor) -> Tensor:
    """Return the state of the last visible token, on whichever side padding stands."""
    index = torch.arange(x.shape[1], device=x.device)[:, None]  # (token, 1)
    last = (index * shown).amax(dim=1, keepdim=True)  # (batch, 1, 1)
    return x.gather(1, last.expand(-1, -1, x.shape[2]))[:, 0]


def mean_state(x: Tensor, shown: Tensor, count: Tensor) -> Tensor:
    """Return the mean of the visible states."""
    return x.masked_fill(~shown, 0).sum(dim=1) / count


def max_state(x: Tensor, shown: Tensor, count: Tensor) -> Tensor:
    """Return the maximum of the visible states in each channel."""
    return x.masked_fill(~shown, torch.finfo(x.dtype).min).amax(dim=1)


def scaled_sum(x: Tensor, shown: Tensor, count: Tensor) -> Tensor:
    """Return the sum of the visible states, divided by the square root of their number."""
    return x.masked_fill(~shown, 0).sum(dim=1) / count.sqrt()


def weighted_mean(x: Tensor, shown: Tensor, count: Tensor) -> Tensor:
    """Return the mean of the visible states with the weights 1, 2, 3, ... (Muennighoff 2022, SGPT, section 3.2.1)."""
    number = count[:, :, None]  # (batch, 1, 1)
    # the sum of these is 1; half floats hold each factor, and not the sum of the weights
    share = shown.cumsum(dim=1).to(x.dtype) / number * (2 / (number + 1))
    return (x.masked_fill(~shown, 0) * share).sum(dim=1)


POOLS: dict[Pooling, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "first": first_state,
    "last": last_state,
    "mean": mean_state,
    "max": max_state,
    "mean_sqrt_length": scaled_sum,
    "weighted_mean": weighted_mean,
}
"""Each makes one state (batch, width) of states (batch, token, width), of which some are shown (batch, token, 1).

The last argument is how many are shown, (batch, 1).
"""


class Unit(nn.Module):
    """x / ‖x‖: a vector of length one."""

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, width) -> the same shape."""
        return x / x.norm(dim=1, keepdim=True).clamp_min(1e-12)


class Dense(nn.Module):
    """a(Wx + b) of a vector; where it is `residual`, x is added, or Ux where the widths differ."""

    def __init__(self, width: int, outputs: int, activation: nn.Module, *, bias: bool, residual: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(width, outputs, bias)
        self.activation = activation
        self.residual: nn.Module | None = None
        if residual:
            self.residual = nn.Identity() if width == outputs else nn.Linear(width, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, width) -> (batch, outputs)."""
        y: Tensor = self.activation(self.linear(x))
        return y if self.residual is None else y + self.residual(x)


class Cut(nn.Module):
    """The first numbers of a vector (Kusupati et al. 2022)."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.out_features = numbers

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, width) -> (batch, numbers)."""
        return x[:, : self.out_features]


class Pool(nn.Module):
    """One vector for each text (Reimers & Gurevych 2019, section 3), to which padding contributes nothing.

    What is `behind` takes it, such as `Unit` where vectors are to have length one.
    """

    def __init__(self, pooling: Pooling, behind: nn.Module) -> None:
        super().__init__()
        self.pool = POOLS[pooling]
        self.behind = behind

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """Take states (batch, token, width) and visible (batch, token) -> (batch, width)."""
        shown = visible[:, :, None]  # (batch, token, 1)
        count = visible.sum(dim=1, keepdim=True).to(x.dtype)  # (batch, 1)
        pooled: Tensor = self.behind(self.pool(x, shown, count))
        return pooled


class EachLinear(nn.Linear):
    """A linear classifier of each token's last state (Devlin et al. 2019, section 5.3)."""

    def forward(self, x: Tensor, visible: Tensor | None = None) -> Tensor:
        """Take states (batch, token, width) -> logits (batch, token, classes)."""
        return super().forward(x)


class EachThen(nn.Module):
    """What `each` makes of every token's state, given to a head."""

    def __init__(self, each: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.each = each
        self.head = head

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """Take states (batch, token, width) and visible (batch, token) -> what the head returns."""
        return self.head(self.each(x), visible)


class WordParts(NamedTuple):
    """The parts of a head whose last layer is over the vocabulary."""

    dense: nn.Module
    activation: nn.Module
    norm: nn.Module
    output: nn.Linear


def word_parts(
    width: int, vocabulary: int, activation: nn.Module, norm: nn.Module, hidden: int | None = None
) -> WordParts:
    """Compose the parts of BERT's head (Devlin et al. 2019, section 3.1), `hidden` wide inside."""
    inside = hidden or width
    return WordParts(nn.Linear(width, inside), activation, norm, nn.Linear(inside, vocabulary))


class Words(nn.Module):
    """Logits of words: W norm(a(dense(x))) (Devlin et al. 2019, section 3.1); W may be the embedding's matrix."""

    def __init__(self, parts: WordParts) -> None:
        super().__init__()
        self.dense, self.activation, self.norm, self.output = parts

    def logits(self, x: Tensor) -> Tensor:
        """Take states (batch, token, width) -> logits (batch, token, vocabulary)."""
        logits: Tensor = self.output(self.norm(self.activation(self.dense(x))))
        return logits


def states_at(x: Tensor, places: Tensor) -> Tensor:
    """Return the states (batch, place, width) of x (batch, token, width) at some places (batch, place)."""
    return x.gather(1, places[:, :, None].expand(-1, -1, x.shape[2]))


class MaskedWords(Words):
    """Which words stand at masked positions (Devlin et al. 2019, section 3.1)."""

    def forward(self, x: Tensor, visible: Tensor, masked: Tensor) -> Tensor:
        """Take states (batch, token, width), positions masked (batch, mask) -> logits (batch, mask, vocabulary)."""
        return self.logits(states_at(x, masked))


class SparseWords(Words):
    """A weight for each word of the vocabulary, most of them 0 (SPLADE, Formal et al. 2021, arXiv 2107.05720, eq. 1).

    It is the sum over a text's tokens of log(1 + relu(logit)), or the maximum (arXiv 2109.10086, eq. 6), which is that
    of the largest logit. With two `logs` it is log(1 + log(1 + relu(logit))) (Geng et al. 2025, arXiv 2504.14839).
    """

    def __init__(self, parts: WordParts, pooling: WordPooling = "max", logs: int = 1) -> None:
        super().__init__(parts)
        self.pooling = pooling
        self.logs = logs

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """Take states (batch, token, width) and visible (batch, token) -> weights (batch, vocabulary)."""
        logits, shown = self.logits(x), visible[:, :, None]
        if self.pooling == "max":
            return self._weights(logits.masked_fill(~shown, torch.finfo(x.dtype).min).amax(dim=1))
        return self._weights(logits).masked_fill(~shown, 0).sum(dim=1)

    def _weights(self, logits: Tensor) -> Tensor:
        weights = logits.relu()
        for _ in range(self.logs):
            weights = weights.log1p()
        return weights


def head_width(head: nn.Module, width: int) -> int:
    """Return how many numbers a head returns: the outputs of its last layer, or the states' width if it has none."""
    layers = [layer for layer in head.modules() if isinstance(layer, (nn.Linear, Cut))]
    return layers[-1].out_features if layers else width
