"""Residual networks (He et al. 2016, "Deep Residual Learning for Image Recognition"): backbones of detectors."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

STRIDE = 32
"""Pixels a side of one cell of a residual network's grid: its stem halves twice, and three of its stages halve."""


class FrozenBatchNorm(nn.Module):
    """x * scale + shift per channel: a batch norm whose statistics were folded into two numbers (`folded`)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, channels, rows, columns) -> the same shape."""
        return x * self.scale[:, None, None] + self.shift[:, None, None]


def folded(
    weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, epsilon: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """Return scale and shift of a batch norm's weight, bias and statistics (Ioffe & Szegedy 2015, algorithm 2).

    They are in single floats at least: half floats would round them again.
    """
    scale = weight.double() / (variance.double() + epsilon).sqrt()
    dtype = torch.promote_types(weight.dtype, torch.float32)
    return scale.to(dtype), (bias.double() - mean.double() * scale).to(dtype)


class Residual(nn.Module):
    """y = relu(F(x) + s(x)) (equations 1 and 2): s is the identity, or a projection where the shape changes."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, channels, rows, columns) -> (batch, channels of the branch, rows, columns)."""
        return nn.functional.relu(self.branch(x) + self.shortcut(x))


def normed(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    """Compose a convolution without bias and a norm."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, FrozenBatchNorm(outputs))


def _residual(inputs: int, outputs: int, stride: int, *branch: nn.Module) -> Residual:
    same = inputs == outputs and stride == 1
    return Residual(nn.Sequential(*branch), nn.Identity() if same else normed(inputs, outputs, 1, stride))


def basic(inputs: int, outputs: int, stride: int) -> Residual:
    """Compose two convolutions of 3 x 3 and a shortcut (figure 5, left)."""
    first, second = normed(inputs, outputs, 3, stride), normed(outputs, outputs, 3, 1)
    return _residual(inputs, outputs, stride, first, nn.ReLU(), second)


def bottleneck(inputs: int, outputs: int, stride: int, strides: Callable[[int], tuple[int, int]]) -> Residual:
    """Compose convolutions of 1 x 1, 3 x 3 and 1 x 1, the first two of a quarter of the width (figure 5, right)."""
    narrow = outputs // 4
    one, three = strides(stride)
    branch = normed(inputs, narrow, 1, one), nn.ReLU(), normed(narrow, narrow, 3, three), nn.ReLU()
    return _residual(inputs, outputs, stride, *branch, normed(narrow, outputs, 1, 1))


Block = Literal["basic", "bottleneck", "bottleneck_first"]

BLOCKS: dict[Block, Callable[[int, int, int], Residual]] = {
    "basic": basic,
    "bottleneck": functools.partial(bottleneck, strides=lambda stride: (1, stride)),
    "bottleneck_first": functools.partial(bottleneck, strides=lambda stride: (stride, 1)),
}
"""What makes a block of a width, another width and a stride.

A `bottleneck` halves in its convolution of 3 x 3, as most trained networks do; `bottleneck_first` halves in its first
one, as in the paper.
"""


@dataclass(frozen=True)
class ResNetConfig:
    """Sizes of a residual network: the stem's width, and the width and the number of blocks of each of four stages."""

    channels: int
    stem: int
    widths: tuple[int, int, int, int]
    depths: tuple[int, int, int, int]
    block: Block

    def __post_init__(self) -> None:
        if self.block != "basic" and any(width % 4 for width in self.widths):
            raise ValueError(f"bottlenecks: widths must be multiples of 4, given {self.widths}")


RESNET_SIZES = {
    # He et al. 2016, table 1
    "resnet18": ResNetConfig(3, 64, (64, 128, 256, 512), (2, 2, 2, 2), "basic"),
    "resnet34": ResNetConfig(3, 64, (64, 128, 256, 512), (3, 4, 6, 3), "basic"),
    "resnet50": ResNetConfig(3, 64, (256, 512, 1024, 2048), (3, 4, 6, 3), "bottleneck"),
    "resnet101": ResNetConfig(3, 64, (256, 512, 1024, 2048), (3, 4, 23, 3), "bottleneck"),
    "resnet152": ResNetConfig(3, 64, (256, 512, 1024, 2048), (3, 8, 36, 3), "bottleneck"),
}


class ResNet(nn.Module):
    """A stem, which halves twice, and stages, each of which but the first halves: a cell for 32 x 32 pixels."""

    def __init__(self, stem: nn.Module, stages: list[nn.Sequential]) -> None:
        super().__init__()
        self.stem = stem
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.stages = nn.ModuleList(stages)

    def forward(self, pixels: Tensor) -> Tensor:
        """Take pixels (batch, channels, height, width) -> (batch, width of the last stage, height/32, width/32)."""
        x: Tensor = self.pool(self.relu(self.stem(pixels)))
        for stage in self.stages:
            x = stage(x)
        return x


def resnet(config: ResNetConfig) -> ResNet:
    """Compose a residual network of the given sizes, without its classifier."""
    make = BLOCKS[config.block]
    stages, inputs = [], config.stem
    for index, (outputs, depth) in enumerate(zip(config.widths, config.depths, strict=True)):
        first = make(inputs, outputs, 1 if index == 0 else 2)
        stages.append(nn.Sequential(first, *(make(outputs, outputs, 1) for _ in range(depth - 1))))
        inputs = outputs
    return ResNet(normed(config.channels, config.stem, 7, 2), stages)
