"""The Vision Transformer (Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words")."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.attention import Maps, MultiHeadAttention, under
from model.blocks import Encoder, PreNormEncoderBlock
from model.parts import FeedForward, Patches


@dataclass(frozen=True)
class ViTConfig:
    """Sizes of a ViT; `image` is (height, width) in pixels, `hidden` the width inside the feed-forward."""

    image: tuple[int, int]
    channels: int
    patch: int
    width: int
    layers: int
    heads: int
    hidden: int
    classes: int
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if any(side % self.patch for side in self.image):
            height, width = self.image
            raise ValueError(f"image: sides must be multiples of the patch ({self.patch}), given {height}x{width}")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.image[0] // self.patch, self.image[1] // self.patch


VIT_SIZES = {
    # Dosovitskiy et al. 2021, table 1, at 224 pixels and 1000 classes
    "vit_b_16": ViTConfig((224, 224), 3, patch=16, width=768, layers=12, heads=12, hidden=3072, classes=1000),
    "vit_l_16": ViTConfig((224, 224), 3, patch=16, width=1024, layers=24, heads=16, hidden=4096, classes=1000),
    "vit_h_14": ViTConfig((224, 224), 3, patch=14, width=1280, layers=32, heads=16, hidden=5120, classes=1000),
    # bundled: handwritten digits
    "digits": ViTConfig((28, 28), 1, patch=4, width=96, layers=4, heads=4, hidden=384, classes=10),
}


class ViT(nn.Module):
    """Patches and a class token through an encoder; the class token's last state is classified."""

    def __init__(self, patches: Patches, positions: nn.Embedding, encoder: Encoder, head: nn.Linear) -> None:
        super().__init__()
        self.patches = patches
        self.positions = positions
        self.encoder = encoder
        self.head = head
        self.class_token = nn.Parameter(torch.zeros(1, 1, positions.embedding_dim))

    def forward(self, pixels: Tensor) -> tuple[Tensor, Maps]:
        """Pixels (batch, channels, height, width), normalised -> logits (batch, classes) and the encoder's maps."""
        x = self.patches(pixels)  # (batch, patches, width)
        x = torch.cat((self.class_token.expand(x.shape[0], -1, -1), x), dim=1)  # (batch, 1 + patches, width)
        x, maps = self.encoder(x + self.positions.weight, None)
        return self.head(x[:, 0]), under("encoder", maps)


def vit(config: ViTConfig) -> ViT:
    """Compose a ViT of the given sizes with freshly initialised weights."""

    def norm() -> nn.LayerNorm:
        return nn.LayerNorm(config.width, eps=config.epsilon)

    def block() -> PreNormEncoderBlock:
        return PreNormEncoderBlock(
            MultiHeadAttention(config.width, config.heads),
            FeedForward(config.width, config.hidden, nn.GELU()),
            norm,
        )

    rows, columns = config.grid
    positions = nn.Embedding(1 + rows * columns, config.width)
    nn.init.trunc_normal_(positions.weight, std=0.02)
    return ViT(
        patches=Patches(config.image, config.channels, config.patch, config.width),
        positions=positions,
        encoder=Encoder([block() for _ in range(config.layers)], norm()),
        head=nn.Linear(config.width, config.classes),
    )
