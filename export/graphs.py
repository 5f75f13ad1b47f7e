"""The modules that are traced: a few lines each around one definition. Nothing here computes attention."""

from collections.abc import Iterable, Sequence
from itertools import chain

import torch
from torch import Tensor, nn

from model.attention import KeyValue, Maps
from model.gpt import GPT
from model.text_encoder import TextEncoder
from model.transformer import Transformer


def stacked(maps: Maps, names: Iterable[str]) -> Tensor:
    """Stack the named maps, (batch, heads, query, key) each -> (batch, layers, heads, query, key)."""
    return torch.stack([maps[name] for name in names], dim=1)


def pairs(tensors: Sequence[Tensor]) -> list[KeyValue]:
    """Pair up key, value, key, value, ..."""
    return list(zip(tensors[::2], tensors[1::2], strict=True))


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


class TextPredict(nn.Module):
    """Tokens -> what the head says of them; `typed` models are told which text each token is of."""

    def __init__(self, model: TextEncoder, *, typed: bool) -> None:
        super().__init__()
        self.model = model
        self.typed = typed

    def forward(self, source: Tensor, source_visible: Tensor, *rest: Tensor) -> Tensor:
        """Return the head's output; `rest` holds the types of a typed model, and the masked positions of fill-mask."""
        return self.look(source, source_visible, *rest)[0]

    def look(self, source: Tensor, source_visible: Tensor, *rest: Tensor) -> tuple[Tensor, Maps]:
        """Return the output and all maps."""
        types, asked = (rest[0], rest[1:]) if self.typed else (None, rest)
        looked: tuple[Tensor, Maps] = self.model(source, source_visible, types, *asked)
        return looked


class TextAttention(TextPredict):
    """Tokens -> the same and the stacked maps."""

    def __init__(self, model: TextEncoder, names: tuple[str, ...], *, typed: bool) -> None:
        super().__init__(model, typed=typed)
        self.names = names

    def forward(self, source: Tensor, source_visible: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override] # more than its parent returns
        """Return the head's output, maps (batch, layers, heads, query, key)."""
        output, maps = self.look(source, source_visible, *rest)
        return output, stacked(maps, self.names)


class ContinuePredict(nn.Module):
    """Tokens -> logits of the token after each."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, target: Tensor) -> Tensor:
        """Return logits (batch, target, vocabulary)."""
        logits: Tensor = self.model(target)[0]
        return logits


class ContinueAttention(nn.Module):
    """Tokens -> logits and the stacked maps."""

    def __init__(self, model: GPT, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits (batch, target, vocabulary), maps (batch, layers, heads, query, key)."""
        logits, maps = self.model(target)
        return logits, stacked(maps, self.names)


class ContinueEncode(nn.Module):
    """A text to continue -> every block's keys and values."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor) -> tuple[Tensor, ...]:
        """Return key, value, key, value, ... each (batch, heads, source, width of a head)."""
        return tuple(chain(*self.model.remember(source)))


class ContinueDecode(nn.Module):
    """One token a row and the caches -> logits of the next token and the caches with this token in them."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: Tensor, position: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """`past` holds the caches, as key, value, key, value, ..."""
        logits, present, _ = self.model.step(token, position, pairs(past))
        return logits, *chain(*present)


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
        caches = pairs(remembered)
        layers = len(caches) // 2
        logits, present, _ = self.model.step(token, position, caches[:layers], caches[layers:], source_visible)
        return logits, *chain(*present)
