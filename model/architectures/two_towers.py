"""Two towers whose vectors are compared, one of pictures and one of texts: CLIP (Radford et al. 2021)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.architectures.text_encoder import TextEncoder, TextEncoderConfig
from model.architectures.vit import ViT, ViTConfig
from model.parts.attention import ALL_VISIBLE, Context, Contexts, Maps, Recall, causal, under, visible_keys
from model.parts.blocks import PreNormBlock, Stack
from model.parts.embedding import Embedding, Patches
from model.parts.heads import FirstLinear, Pool, Unit


@dataclass(frozen=True)
class TwoTowersConfig:
    """Sizes of both towers, and `outputs`, how many numbers each vector has. The towers' widths may differ."""

    image: ViTConfig
    text: TextEncoderConfig
    outputs: int


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


class CausalTextEncoder(TextEncoder):
    """A text encoder whose tokens look at themselves and those before them (Radford et al. 2021, section 2.4)."""

    def forward(
        self,
        source: Tensor,
        visible: Tensor,
        types: Tensor | None = None,
        *asked: Tensor,
        recalls: Sequence[Recall] | None = None,
    ) -> tuple[Tensor, Maps]:
        """Take tokens source and visible (batch, length), False on padding -> the head's answer, and the maps."""
        length = source.shape[1]
        embedded = self.embed(source, torch.arange(length, device=source.device), types)
        seen = visible_keys(visible) & causal(length, source.device)  # (batch, 1, query, key)
        x, maps = self.encoder(embedded, Context(seen), recalls)
        return self.head(x, visible, *asked), under("encoder", maps)


def clip_image(config: ViTConfig, outputs: int) -> ViT:
    """Compose CLIP's encoder of pictures: patches without a bias, a norm before the blocks, the class token projected.

    `classes` of the sizes is not used: it answers a vector of `outputs` numbers.
    """
    rows, columns = config.grid
    patches = Patches(config.image, config.channels, config.patch, config.width)
    patches.projection.register_parameter("bias", None)
    positions = nn.Embedding(1 + rows * columns, config.width)
    nn.init.trunc_normal_(positions.weight, std=0.02)
    encoder = NormedStack(config.norm(), config.blocks(PreNormBlock), config.norm())
    return ViT(patches, positions, encoder, FirstLinear(config.width, outputs, bias=False))


def clip_text(config: TextEncoderConfig, outputs: int) -> TextEncoder:
    """Compose CLIP's encoder of texts: causal, its last token, which ends every text, projected to a vector."""
    embed = Embedding(nn.Embedding(config.vocabulary, config.width), nn.Embedding(config.length, config.width))
    head = Pool("last", nn.Linear(config.width, outputs, bias=False))
    return CausalTextEncoder(embed, Stack(config.blocks(PreNormBlock), config.norm()), head)


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


def clip(config: TwoTowersConfig) -> TwoTowers:
    """Compose a CLIP of the given sizes with freshly initialised weights; its scale begins at ln(1 / 0.07)."""
    towers = clip_image(config.image, config.outputs), clip_text(config.text, config.outputs)
    return TwoTowers(*towers, scale=2.6592)
