"""Models of images, with the normalization of their pixels."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from contract.input_rules import ImageRule
from contract.manifest import Kind
from export.traced.base import Observed, Traced, values_of
from model.architectures.two_towers import PooledViT
from model.architectures.vit import ViT
from model.methods.saliency import Saliency
from model.parts.attention import Context, KeyValue
from model.parts.attention_variants import along_lines
from model.parts.cache import recording
from model.parts.embedding import within


class Normalize(nn.Module):
    """Normalize the bytes of an image as the network was trained: (x / 255 - mean) / std per channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Iterable[float], std: Iterable[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(list(mean))[:, None, None])
        self.register_buffer("std", torch.tensor(list(std))[:, None, None])

    def forward(self, pixels: Tensor, shown: Tensor | None = None) -> Tensor:
        """Take pixels (batch, height, width, channels), uint8; return (batch, channels, height, width).

        Of an image that was fitted in, `shown` (batch, 2) are the rows and columns that it fills; the others become 0.
        The channels are moved first: a runtime computes along the last axis, which would have three numbers otherwise.
        """
        normal = (pixels.to(self.mean.dtype).permute(0, 3, 1, 2) / 255 - self.mean) / self.std
        return normal if shown is None else normal.masked_fill(~within(shown, normal.shape[-2:]), 0)


class TracedViT(Traced):
    """A ViT: pixels (batch, height, width, channels), uint8 -> the answer of its head."""

    model: ViT
    stacks = ("encoder",)

    def __init__(self, model: ViT, kinds: Sequence[Kind], normalize: Normalize) -> None:
        super().__init__(model, kinds)
        self.normalize = normalize

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        recorded: list[KeyValue] = []
        answer, maps = self.model(self.normalize(*inputs), [recording(recorded)] * len(self.model.encoder.blocks))
        return Observed(answer, self.by_kind(maps), [values_of(recorded)])


class TracedPooledViT(Traced):
    """A ViT whose vector attends to its last states: pixels (batch, height, width, channels), uint8 -> the vector."""

    model: PooledViT
    stacks = ("encoder",)

    def __init__(self, model: PooledViT, kinds: Sequence[Kind], normalize: Normalize) -> None:
        super().__init__(model, kinds)
        self.normalize = normalize

    def observe(self, *inputs: Tensor) -> Observed:
        """Run the model; return its answer, maps and values."""
        own: list[KeyValue] = []
        fed: list[KeyValue] = []
        recalls = [recording(own)] * len(self.model.encoder.blocks)
        answer, maps = self.model(self.normalize(*inputs), recalls, Context(recall=recording(fed)))
        return Observed(answer, self.by_kind(maps), [values_of(own), values_of(fed)])


class SalientCells(nn.Module):
    """The saliency of a picture in float64, by the tokens of a kind of attention: 0 for those that are no patches."""

    def __init__(self, rule: ImageRule, kind: Kind) -> None:
        super().__init__()
        assert kind.grid is not None  # noqa: S101 # of patches
        self.saliency = Saliency(rule.height, rule.width, kind.grid)
        self.beside = kind.prefix, kind.suffix

    def forward(self, *inputs: Tensor) -> tuple[Tensor]:
        """Take pixels (batch, height, width, channels), uint8, as they are before normalization, and what is shown."""
        pixels, *shown = inputs
        return (nn.functional.pad(self.saliency(pixels.permute(0, 3, 1, 2).double(), *shown), self.beside),)


class AxialViT(nn.Module):
    """The answer of a ViT with axial attention, computed along lines: without maps it needs no square of its tokens."""

    def __init__(self, traced: TracedViT) -> None:
        super().__init__()
        self.traced = traced

    def forward(self, *inputs: Tensor) -> tuple[Tensor]:
        """Take what the model takes; return its answer."""
        with along_lines(self.traced.model):
            answer, _ = self.traced.model(self.traced.normalize(*inputs))
        return (answer,)
