"""The Vision Transformer (Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words") and those that followed it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from model.parts.attention import ALL_VISIBLE, Maps, Recall, under
from model.parts.blocks import PreNormBlock, Stack
from model.parts.embedding import Patches
from model.parts.heads import FirstLinear, head_width
from model.parts.stacks import BlockSizes


@dataclass(frozen=True)
class ViTConfig(BlockSizes):
    """Sizes of a ViT; image and patch are (height, width) in pixels, `hidden` the width inside the feed-forward.

    Tokens beside the class token: `distillation_tokens` with a position (DeiT, Touvron et al. 2021, has one), and
    `registers` without (Darcet et al. 2024).
    """

    image: tuple[int, int]
    channels: int
    patch: tuple[int, int]
    width: int
    layers: int
    heads: int
    hidden: int
    classes: int
    activation: str = "gelu"
    epsilon: float = 1e-6
    distillation_tokens: int = 0
    registers: int = 0

    class_tokens: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if any(side % patch for side, patch in zip(self.image, self.patch, strict=True)):
            (height, width), (rows, columns) = self.image, self.patch
            raise ValueError(f"image: sides must be multiples of the patch's {rows}x{columns}, given {height}x{width}")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.image[0] // self.patch[0], self.image[1] // self.patch[1]

    @property
    def prefix(self) -> int:
        """How many tokens stand before the first patch."""
        return self.class_tokens + self.distillation_tokens + self.registers


class PatchesAloneConfig(ViTConfig):
    """Sizes of a ViT without a class token."""

    class_tokens = 0


VIT_SIZES = {
    # Dosovitskiy et al. 2021, table 1, at 224 pixels and 1000 classes
    "vit_b_16": ViTConfig((224, 224), 3, patch=(16, 16), width=768, layers=12, heads=12, hidden=3072, classes=1000),
    "vit_l_16": ViTConfig((224, 224), 3, patch=(16, 16), width=1024, layers=24, heads=16, hidden=4096, classes=1000),
    "vit_h_14": ViTConfig((224, 224), 3, patch=(14, 14), width=1280, layers=32, heads=16, hidden=5120, classes=1000),
    # bundled: handwritten digits
    "digits": ViTConfig((28, 28), 1, patch=(4, 4), width=96, layers=4, heads=4, hidden=384, classes=10),
    "scenes-dino": ViTConfig((48, 48), 1, patch=(4, 4), width=96, layers=4, heads=4, hidden=384, classes=0),
}


DIGITS_MEAN, DIGITS_STD = 0.15, 0.3  # of the pixels in [0, 1] of the bundled digits
DIGITS_BOX = 20  # longer side of a digit's bounding box, in pixels of the network's input


class ViT(nn.Module):
    """A class token and patches, an encoder, and a head that takes its last states.

    `surroundings` returns what surrounds the tokens of the layers, if patches are told their places there.
    """

    def __init__(
        self,
        patches: Patches,
        positions: nn.Module,
        encoder: Stack,
        head: nn.Module,
        *,
        class_tokens: int = 1,
        distillation_tokens: int = 0,
        registers: int = 0,
        surroundings: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.patches = patches
        self.positions = positions
        self.encoder = encoder
        self.head = head
        width = patches.projection.out_channels
        self.surroundings = surroundings
        self.class_token = _extra_tokens(class_tokens, width)
        self.distillation_token = _extra_tokens(distillation_tokens, width)
        self.registers = _extra_tokens(registers, width)

    @property
    def width(self) -> int:
        """How many numbers the head returns for an image."""
        return head_width(self.head, self.patches.projection.out_channels)

    def forward(self, pixels: Tensor, recalls: Sequence[Recall] | None = None) -> tuple[Tensor, Maps]:
        """Take normalised pixels (batch, channels, height, width) -> the head's answer, and the encoder's maps."""
        x = self.patches(pixels)  # (batch, patches, width)
        placed = [token for token in (self.class_token, self.distillation_token) if token is not None]
        x = torch.cat([*(token.expand(x.shape[0], -1, -1) for token in placed), x], dim=1)  # (batch, token, width)
        x = x + self.positions(torch.arange(x.shape[1], device=x.device))
        if self.registers is not None:
            before = sum(token.shape[1] for token in placed)
            x = torch.cat((x[:, :before], self.registers.expand(x.shape[0], -1, -1), x[:, before:]), dim=1)
        contexts = self.surroundings() if self.surroundings else ALL_VISIBLE
        x, maps = self.encoder(x, contexts, recalls)
        return self.head(x), under("encoder", maps)


def _extra_tokens(count: int, width: int) -> nn.Parameter | None:
    return nn.Parameter(torch.zeros(1, count, width)) if count else None


def vit(
    config: ViTConfig,
    head: nn.Module | None = None,
    *,
    blocks: Iterable[nn.Module] | None = None,
    positions: nn.Module | None = None,
    norm: nn.Module | None = None,
    surroundings: nn.Module | None = None,
) -> ViT:
    """Compose a ViT of the given sizes with freshly initialised weights.

    By default it classifies, learns its positions, and has the paper's blocks and a last norm.
    """
    rows, columns = config.grid
    learned = nn.Embedding(config.class_tokens + config.distillation_tokens + rows * columns, config.width)
    nn.init.trunc_normal_(learned.weight, std=0.02)
    return ViT(
        patches=Patches(config.image, config.channels, config.patch, config.width),
        positions=positions or learned,
        encoder=Stack(blocks or config.blocks(PreNormBlock), norm or config.norm()),
        head=head or FirstLinear(config.width, config.classes),
        class_tokens=config.class_tokens,
        distillation_tokens=config.distillation_tokens,
        registers=config.registers,
        surroundings=surroundings,
    )
