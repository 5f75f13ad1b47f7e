"""The Audio Spectrogram Transformer (Gong et al. 2021): a ViT of overlapping patches of a spectrogram."""

from dataclasses import dataclass

from torch import nn

from model.architectures.vit import ViT
from model.parts.blocks import PreNormBlock, Stack
from model.parts.embedding import Patches
from model.parts.stacks import BlockSizes


@dataclass(frozen=True)
class SpectrogramConfig(BlockSizes):
    """Sizes of a transformer of spectrograms; `patch` and `stride` are (bands, frames).

    A class token and a distillation token stand before the patches.
    """

    bands: int
    frames: int
    patch: tuple[int, int]
    stride: tuple[int, int]
    width: int
    layers: int
    heads: int
    hidden: int
    classes: int
    activation: str = "gelu"
    epsilon: float = 1e-12
    bias: bool = True

    prefix = 2

    def __post_init__(self) -> None:
        if min(self.grid) < 1:
            (rows, columns), size = self.patch, f"{self.bands}x{self.frames}"
            raise ValueError(f"spectrogram: must hold a patch of {rows}x{columns}, given {size}")

    @property
    def grid(self) -> tuple[int, int]:
        """Rows of patches along bands, and columns along frames."""
        whole = zip((self.bands, self.frames), self.patch, self.stride, strict=True)
        rows, columns = ((size - patch) // stride + 1 for size, patch, stride in whole)
        return rows, columns


def spectrogram_transformer(config: SpectrogramConfig, head: nn.Module) -> ViT:
    """Compose a transformer of spectrograms with freshly initialised weights."""
    rows, columns = config.grid
    image = config.bands, config.frames
    blocks = config.blocks(
        PreNormBlock, attention=lambda: config.attention(bias=config.bias), feed_forward=config.feed_forward
    )
    return ViT(
        patches=Patches(image, 1, config.patch, config.width, config.stride),
        positions=nn.Embedding(config.prefix + rows * columns, config.width),
        encoder=Stack(blocks, config.norm()),
        head=head,
        distillation_tokens=1,
    )
