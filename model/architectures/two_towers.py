"""Two towers whose vectors are compared: CLIP (Radford et al. 2021), SigLIP (Zhai et al. 2023).

One is of pictures, the other of texts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.architectures.text_encoder import TextEncoder, TextEncoderConfig
from model.architectures.vit import ViT, ViTConfig
from model.parts.attention import ALL_VISIBLE, Context, Contexts, Maps, Recall, under
from model.parts.blocks import PreNormBlock, Stack
from model.parts.contexts import Causal, Unplaced
from model.parts.embedding import Embedding, Patches
from model.parts.heads import FirstLinear, Pool, Unit
from model.parts.pooling import AttentionPool


@dataclass(frozen=True)
class TwoTowersConfig:
    """Sizes of both towers, and `outputs`, how many numbers each vector has. The towers' widths may differ."""

    image: ViTConfig
    text: TextEncoderConfig
    outputs: int


TWO_TOWERS_SIZES = {
    # bundled: scenes of coloured digits, and labels of 19 words
    "scenes-clip": TwoTowersConfig(
        ViTConfig((48, 48), 3, patch=(4, 4), width=96, layers=4, heads=4, hidden=384, classes=0),
        TextEncoderConfig(23, length=24, width=64, layers=2, heads=4, hidden=256, epsilon=1e-6),
        outputs=64,
    ),
}


class NormedStack(Stack):
    """A stack that normalises what enters it as well (Radford et al. 2021, section 2.4)."""

    def __init__(self, before: nn.Module, blocks: Sequence[nn.Module], norm: nn.Module) -> None:
        super().__init__(blocks, norm)
        self.before = before

    def forward(
        self, x: Tensor, contexts: Contexts = ALL_VISIBLE, recalls: Sequence[Recall] | None = None
    ) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> the same shape; `recalls` has one entry for each block."""
        return super().forward(self.before(x), contexts, recalls)


def clip_image(config: ViTConfig, head: nn.Module) -> ViT:
    """Compose CLIP's encoder of pictures: patches without a bias, and a norm before the blocks."""
    rows, columns = config.grid
    patches = Patches(config.image, config.channels, config.patch, config.width)
    patches.projection.register_parameter("bias", None)
    positions = nn.Embedding(1 + rows * columns, config.width)
    nn.init.trunc_normal_(positions.weight, std=0.02)
    encoder = NormedStack(config.norm(), config.blocks(PreNormBlock), config.norm())
    return ViT(patches, positions, encoder, head)


def clip_text(config: TextEncoderConfig, outputs: int) -> TextEncoder:
    """Compose CLIP's encoder of texts: causal, its last token, which ends every text, projected to a vector."""
    embed = Embedding(nn.Embedding(config.vocabulary, config.width), nn.Embedding(config.length, config.width))
    head = Pool("last", nn.Linear(config.width, outputs, bias=False))
    return TextEncoder(embed, Stack(config.blocks(PreNormBlock), config.norm()), head, Causal())


class PooledViT(nn.Module):
    """Patches, an encoder, and a vector that attends to its last states (Zhai et al. 2022, section 3.2)."""

    def __init__(self, patches: Patches, positions: nn.Module, encoder: Stack, pool: AttentionPool) -> None:
        super().__init__()
        self.patches = patches
        self.positions = positions
        self.encoder = encoder
        self.pool = pool

    @property
    def width(self) -> int:
        """How many numbers there are for an image."""
        return self.patches.projection.out_channels

    def forward(
        self, pixels: Tensor, recalls: Sequence[Recall] | None = None, across: Context = ALL_VISIBLE
    ) -> tuple[Tensor, Maps]:
        """Take normalised pixels (batch, channels, height, width) -> vectors, and the maps of encoder and pool.

        `across` is the context in which the pool looks at the last states.
        """
        x = self.patches(pixels)  # (batch, patch, width)
        x, maps = self.encoder(x + self.positions(torch.arange(x.shape[1], device=x.device)), recalls=recalls)
        pooled, found = self.pool(x, across)
        return pooled, under("encoder", maps) | under("pool", found)


def siglip_image(config: ViTConfig) -> PooledViT:
    """Compose SigLIP's encoder of pictures, whose vectors are as wide as it is."""
    rows, columns = config.grid
    positions = nn.Embedding(rows * columns, config.width)
    nn.init.trunc_normal_(positions.weight, std=0.02)
    return PooledViT(
        Patches(config.image, config.channels, config.patch, config.width),
        positions,
        Stack(config.blocks(PreNormBlock), config.norm()),
        AttentionPool(config.attention(), config.feed_forward(), config.norm()),
    )


def siglip_text(config: TextEncoderConfig, outputs: int) -> TextEncoder:
    """Compose SigLIP's encoder of texts: its last token, in a text that is filled with padding, projected."""
    embed = Embedding(nn.Embedding(config.vocabulary, config.width), nn.Embedding(config.length, config.width))
    head = Pool("last", nn.Linear(config.width, outputs))
    return TextEncoder(embed, Stack(config.blocks(PreNormBlock), config.norm()), head, Unplaced())


class TwoTowers(nn.Module):
    """Both towers, and what makes scores of the cosines of their vectors: eˢ·cos + b (Radford et al. 2021, figure 3).

    `scale` is s; CLIP has no bias b, and its scores become shares by softmax.
    """

    def __init__(self, image: nn.Module, text: nn.Module, scale: float, bias: float | None = None) -> None:
        super().__init__()
        self.image, self.text = image, text
        self.unit = Unit()
        self.scale = nn.Parameter(torch.tensor(scale))
        self.bias = None if bias is None else nn.Parameter(torch.tensor(bias))

    def forward(self, pixels: Tensor, source: Tensor, visible: Tensor) -> Tensor:
        """Take normalised pixels of some pictures, and tokens of some texts -> scores (picture, text)."""
        pictures, _ = self.image(pixels)
        texts, _ = self.text(source, visible)
        scores = self.scale.exp() * self.unit(pictures) @ self.unit(texts).T
        return scores if self.bias is None else scores + self.bias


def siglip(config: TwoTowersConfig) -> TwoTowers:
    """Compose a SigLIP of the given sizes with freshly initialised weights, as Zhai et al. 2023, section 3.2 begins.

    Raises ValueError if the vectors are not as wide as the encoder of pictures.
    """
    if config.outputs != config.image.width:
        raise ValueError(f"outputs: must be the width of the pictures' encoder, given {config.outputs}")
    towers = siglip_image(config.image), siglip_text(config.text, config.outputs)
    return TwoTowers(*towers, scale=math.log(10), bias=-10.0)


def clip(config: TwoTowersConfig) -> TwoTowers:
    """Compose a CLIP of the given sizes with freshly initialised weights: the class token and the end are projected."""
    image = clip_image(config.image, FirstLinear(config.image.width, config.outputs, bias=False))
    return TwoTowers(image, clip_text(config.text, config.outputs), scale=math.log(1 / 0.07))
