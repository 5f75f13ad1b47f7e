"""YOLOS (Fang et al. 2021, "You Only Look at One Sequence"): a Vision Transformer whose last tokens become objects."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.architectures.detector import ObjectHead, box_perceptron
from model.architectures.vit import ViTConfig
from model.parts.attention import Maps, Recall, under
from model.parts.blocks import PreNormBlock, Stack
from model.parts.embedding import Patches
from model.parts.feed_forward import perceptron


@dataclass(frozen=True)
class YolosConfig(ViTConfig):
    """Sizes of a ViT, and the number of its detection tokens: the most objects that it finds in an image."""

    objects: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.registers or self.distillation_tokens:
            raise ValueError("registers, distillation_tokens: must be 0, since a YOLOS has none")

    @property
    def tokens(self) -> int:
        """How many tokens there are: the class token, the patches and the detection tokens."""
        rows, columns = self.grid
        return self.prefix + rows * columns + self.objects


class Yolos(nn.Module):
    """A class token, patches and detection tokens, an encoder, and a head of the detection tokens' last states."""

    def __init__(self, patches: Patches, positions: nn.Module, encoder: Stack, head: ObjectHead, objects: int) -> None:
        super().__init__()
        self.patches = patches
        self.positions = positions
        self.encoder = encoder
        self.head = head
        width = patches.projection.out_channels
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.detection_tokens = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, objects, width), std=0.02))

    def forward(self, pixels: Tensor, recalls: Sequence[Recall] | None = None) -> tuple[Tensor, Tensor, Maps]:
        """Take normalised pixels (batch, channels, height, width) -> logits, boxes, and the encoder's maps.

        logits (batch, object, classes + 1), boxes (batch, object, 4) as in `ObjectHead`, and maps (batch, heads, token,
        token) over the class token, the patches in reading order, and the detection tokens.
        """
        x = self.patches(pixels)  # (batch, patches, width)
        first, last = (token.expand(x.shape[0], -1, -1) for token in (self.class_token, self.detection_tokens))
        x = torch.cat((first, x, last), dim=1)  # (batch, token, width)
        x = x + self.positions(torch.arange(x.shape[1], device=x.device))
        x, maps = self.encoder(x, recalls=recalls)
        logits, boxes = self.head(x[:, x.shape[1] - last.shape[1] :])
        return logits, boxes, under("encoder", maps)


def positioned(config: YolosConfig, blocks: Iterable[nn.Module]) -> Stack:
    """Compose an encoder whose every block is told anew where tokens stand, as those of the authors' models are."""
    positions = torch.empty(config.layers - 1, config.tokens, config.width)
    return Stack(blocks, config.norm(), nn.Parameter(nn.init.trunc_normal_(positions, std=0.02)))


def yolos(config: YolosConfig, encoder: Stack | None = None) -> Yolos:
    """Compose a YOLOS of the given sizes with freshly initialised weights; `positioned` makes its usual encoder."""
    width = config.width
    learned = nn.Embedding(config.tokens, width)
    nn.init.trunc_normal_(learned.weight, std=0.02)
    return Yolos(
        Patches(config.image, config.channels, config.patch, width),
        learned,
        encoder or positioned(config, config.blocks(PreNormBlock)),
        ObjectHead(perceptron(width, width, width, config.classes + 1), box_perceptron(width)),
        config.objects,
    )
