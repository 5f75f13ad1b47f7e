"""The modules that are traced: a few lines each around one definition. Nothing here computes attention."""

from collections.abc import Iterable
from itertools import chain

import torch
from torch import Tensor, nn

from model.attention import KeyValue, Maps
from model.transformer import Transformer


def stacked(maps: Maps, names: Iterable[str]) -> Tensor:
    """Stack the named maps, (batch, heads, query, key) each -> (batch, layers, heads, query, key)."""
    return torch.stack([maps[name] for name in names], dim=1)


class Normalize(nn.Module):
    """Bytes of an image to what the network was trained on: (x / 255 - mean) / std a channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Iterable[float], std: Iterable[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(list(mean)))
        self.register_buffer("std", torch.tensor(list(std)))

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixels (batch, height, width, channels), uint8 -> (batch, channels, height, width)."""
        return ((pixels.to(self.mean.dtype) / 255 - self.mean) / self.std).permute(0, 3, 1, 2)


class ImagePredict(nn.Module):
    """Pixels -> logits."""

    def __init__(self, normalize: Normalize, model: nn.Module) -> None:
        super().__init__()
        self.normalize = normalize
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixels (batch, height, width, channels), uint8 -> logits (batch, classes)."""
        logits: Tensor = self.model(self.normalize(pixels))[0]
        return logits


class ImageAttention(ImagePredict):
    """Pixels -> logits and the stacked maps."""

    def __init__(self, normalize: Normalize, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__(normalize, model)
        self.names = names

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override] # more than its parent returns
        """Pixels (batch, height, width, channels), uint8 -> logits, maps (batch, layers, heads, query, key)."""
        logits, maps = self.model(self.normalize(pixels))
        return logits, stacked(maps, self.names)


class SequencePredict(nn.Module):
    """Source and target -> logits of the token after each target token."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, source_visible: Tensor, target: Tensor) -> Tensor:
        """Return logits (batch, target, vocabulary)."""
        logits: Tensor = self.model(source, source_visible, target)[0]
        return logits


class SequenceAttention(nn.Module):
    """Source and target -> logits and one stack of maps a kind."""

    def __init__(self, model: Transformer, names: tuple[tuple[str, ...], ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, source: Tensor, source_visible: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        """Return logits (batch, target, vocabulary) and each kind's maps (batch, layers, heads, query, key)."""
        logits, maps = self.model(source, source_visible, target)
        return logits, *(stacked(maps, names) for names in self.names)


class Encode(nn.Module):
    """Source -> every decoder block's cross keys and values."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, source_visible: Tensor) -> tuple[Tensor, ...]:
        """Return key, value, key, value, ... each (batch, heads, source, width of a head)."""
        return tuple(chain(*self.model.encode(source, source_visible)[0]))


class Decode(nn.Module):
    """One token a row and the caches -> logits of the next token and the caches with this token in them."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, token: Tensor, position: Tensor, source_visible: Tensor, *remembered: Tensor
    ) -> tuple[Tensor, ...]:
        """`remembered` holds the caches and then the memory, as key, value, key, value, ..."""
        pairs: list[KeyValue] = [(remembered[i], remembered[i + 1]) for i in range(0, len(remembered), 2)]
        layers = len(pairs) // 2
        logits, present, _ = self.model.step(token, position, pairs[:layers], pairs[layers:], source_visible)
        return logits, *chain(*present)
