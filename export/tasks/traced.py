"""The modules that are traced: a few lines each around one definition. Nothing here computes attention."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from contract.manifest import Kind
from model.attention import KeyValue, Maps
from model.cache import recording
from model.convolutional import Convolutional
from model.gpt import GPT
from model.recurrent import Recurrent
from model.text_encoder import TextEncoder
from model.transformer import Transformer
from model.vit import ViT


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


class Seen(NamedTuple):
    """What a model answers, and for each kind, layer by layer, its weights and the values that they weighed."""

    answer: Tensor
    weights: list[list[Tensor]]
    values: list[list[Tensor]]


class Look(nn.Module):
    """A model whose answer, weights and values are looked at: the base of every graph but those that generate."""

    def __init__(self, model: nn.Module, kinds: Sequence[Kind]) -> None:
        super().__init__()
        self.model = model
        self.kinds = tuple(kinds)

    def see(self, *inputs: Tensor) -> Seen:
        """Run the model."""
        raise NotImplementedError

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the answer, all weights and all values."""
        seen = self.see(*inputs)
        return seen.answer, *chain(*seen.weights), *chain(*seen.values)

    def named(self, maps: Maps) -> list[list[Tensor]]:
        """Return the weights of each kind in the order of its layers."""
        return [[maps[name] for name in kind.maps] for kind in self.kinds]

    def joining(self, kind: Kind) -> list[Tensor]:
        """Return the projections (heads x width of a head, width) that join the heads of a kind's attentions.

        Where there are none, norms cannot be read.
        """
        if "norm" not in kind.methods:
            return []
        return [self.model.get_submodule(name).get_parameter("output.weight").detach().T for name in kind.maps]


def _values(seen: Sequence[KeyValue]) -> list[Tensor]:
    return [value for _, value in seen]


class ImageLook(Look):
    """Pixels (batch, height, width, channels), uint8 -> what a ViT says of them."""

    model: ViT

    def __init__(self, model: ViT, kinds: Sequence[Kind], normalize: Normalize) -> None:
        super().__init__(model, kinds)
        self.normalize = normalize

    def see(self, *inputs: Tensor) -> Seen:
        """Run the model."""
        seen: list[KeyValue] = []
        answer, maps = self.model(self.normalize(*inputs), [recording(seen)] * len(self.model.encoder.blocks))
        return Seen(answer, self.named(maps), [_values(seen)])


class TextLook(Look):
    """Tokens -> what an encoder's head says of them.

    Inputs are source and source_visible, the types of a `typed` model, and the masked positions of fill-mask.
    """

    def __init__(self, model: TextEncoder, kinds: Sequence[Kind], *, typed: bool) -> None:
        super().__init__(model, kinds)
        self.typed = typed

    def see(self, *inputs: Tensor) -> Seen:
        """Run the model."""
        source, visible, *rest = inputs
        types, asked = (rest[0], rest[1:]) if self.typed else (None, rest)
        seen: list[KeyValue] = []
        recalls = [recording(seen)] * len(self.kinds[0].maps)
        answer, maps = self.model(source, visible, types, *asked, recalls=recalls)
        return Seen(answer, self.named(maps), [_values(seen)])


class ContinueLook(Look):
    """Tokens -> logits of the token after each."""

    model: GPT

    def see(self, *inputs: Tensor) -> Seen:
        """Run the model."""
        seen: list[KeyValue] = []
        logits, maps = self.model(*inputs, [recording(seen)] * len(self.kinds[0].maps))
        return Seen(logits, self.named(maps), [_values(seen)])


class SequenceLook(Look):
    """Source, source_visible and target -> logits of the token after each target token."""

    model: Transformer

    def see(self, *inputs: Tensor) -> Seen:
        """Run the model."""
        source, visible, target = inputs
        own: list[KeyValue] = []
        fed: list[KeyValue] = []
        encoder, decoder, _ = self.kinds
        memory, maps = self.model.encode(source, visible, [recording(own)] * len(encoder.maps))
        logits, others = self.model.decode(target, memory, visible, [recording(fed)] * len(decoder.maps))
        return Seen(logits, self.named(maps | others), [_values(own), _values(fed), _values(memory)])


class Aligning(nn.Module):
    """A model whose decoder alone attends, and only to its source: tokens with source_visible, or an image."""

    def __init__(self, model: Recurrent | Convolutional, normalize: Normalize | None) -> None:
        super().__init__()
        self.model = model
        self.normalize = normalize

    def source(self, given: Sequence[Tensor]) -> tuple[Tensor, Any]:
        """Return what the model encodes, and which of it is visible."""
        if self.normalize:
            return self.normalize(*given), None
        source, visible = given
        return source, visible


class AlignLook(Look):
    """A source and target -> logits of the token after each target token.

    What recurs is traced step by step: as many as a target may be long, `unrolled`, of which those of its own remain.
    """

    def __init__(self, aligning: Aligning, kinds: Sequence[Kind], unrolled: int | None) -> None:
        super().__init__(aligning.model, kinds)
        self.aligning = aligning
        self.unrolled = unrolled

    def see(self, *inputs: Tensor) -> Seen:
        """Run the model."""
        *given, target = inputs
        length = target.shape[1]
        if self.unrolled:
            target = nn.functional.pad(target, (0, self.unrolled - length))
        source, visible = self.aligning.source(given)
        memory = self.aligning.model.encode(source, visible)
        logits, maps = self.aligning.model.decode(target, memory, visible)
        weights = [[layer[:, :, :length] for layer in kind] for kind in self.named(maps)]
        return Seen(logits[:, :length], weights, [[memory[1]] * len(kind) for kind in weights])


class AlignEncode(Aligning):
    """A source -> what every step reads of it."""

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """Return keys and values, and the first state of what recurs."""
        return self.model.encode(*self.source(given))


class AlignDecode(Aligning):
    """One token a row and the caches -> logits of the next token and the caches with this token in them."""

    def __init__(self, model: Recurrent | Convolutional, normalize: Normalize | None, caches: int) -> None:
        super().__init__(model, normalize)
        self.caches = caches

    def forward(self, token: Tensor, position: Tensor, *remembered: Tensor) -> tuple[Tensor, ...]:
        """`remembered` holds source_visible where the source is text, the caches, and then the memory."""
        visible: Any = None if self.normalize else remembered[0]
        rest = remembered if self.normalize else remembered[1:]
        past, memory = rest[: self.caches], rest[self.caches :]
        logits, present, _ = self.model.step(token, position, past, memory, visible)
        return logits, *present


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
