"""Swin: a Transformer of stages whose attention stays inside shifted windows (Liu et al. 2021)."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from model.parts.attention import (
    ALL_VISIBLE,
    Context,
    Contexts,
    KeyValue,
    Maps,
    MultiHeadAttention,
    Recall,
    Score,
    attend,
    scaled_dot_product,
    under,
)
from model.parts.blocks import PreNormBlock, Stack
from model.parts.embedding import Patches
from model.parts.heads import MeanLinear, head_width
from model.parts.positions import NoPositions, offsets
from model.parts.stacks import PlainSizes
from model.parts.windows import Windows, fitted


@dataclass(frozen=True)
class SwinConfig:
    """Sizes of a Swin; image and patch are (height, width) in pixels, window is the side of a window in tokens.

    `width` is that of the first stage, and each merging doubles it. `depths` and `heads` have one number a stage. A
    feed-forward is `ratio` times as wide inside. `absolute` is True if tokens are told their places in the whole image
    too, `bias` if queries, keys and values have one. `epsilon` is that of the norms of blocks and of the last one.
    Raises ValueError for sizes that do not divide.
    """

    image: tuple[int, int]
    channels: int
    patch: tuple[int, int]
    width: int
    depths: tuple[int, ...]
    heads: tuple[int, ...]
    window: int
    ratio: float
    classes: int
    activation: str = "gelu"
    epsilon: float = 1e-5
    absolute: bool = False
    bias: bool = True

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"window: must be 1 or more, given {self.window}")
        if any(side % patch for side, patch in zip(self.image, self.patch, strict=True)):
            (height, width), (rows, columns) = self.image, self.patch
            raise ValueError(f"image: sides must be multiples of the patch's {rows}x{columns}, given {height}x{width}")
        if len(self.depths) != len(self.heads):
            raise ValueError(f"heads: must be given for each of {len(self.depths)} stages, given {len(self.heads)}")
        for index, (rows, columns) in enumerate(self.grids):
            if index < len(self.grids) - 1 and (rows % 2 or columns % 2):
                raise ValueError(f"stage {index}: sides must be even, to be merged, given {rows}x{columns}")
            side = min(self.window, rows, columns)
            if rows % side or columns % side:
                raise ValueError(
                    f"stage {index}: sides must be multiples of the window's {side}, given {rows}x{columns}"
                )

    @property
    def grids(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of the tokens of each stage."""
        rows, columns = self.image[0] // self.patch[0], self.image[1] // self.patch[1]
        return tuple((rows >> index, columns >> index) for index in range(len(self.depths)))

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of the tokens of each stage."""
        return tuple(self.width << index for index in range(len(self.depths)))

    @property
    def stages(self) -> tuple[PlainSizes, ...]:
        """The sizes of the blocks of each stage."""
        return tuple(
            PlainSizes(width, depth, heads, int(width * self.ratio), self.activation, self.epsilon)
            for width, depth, heads in zip(self.widths, self.depths, self.heads, strict=True)
        )

    @property
    def windows(self) -> tuple[tuple[Windows, ...], ...]:
        """The windows of each block of each stage; those of every second block are shifted."""
        return tuple(
            tuple(fitted(*grid, self.window, shifted=block % 2 == 1) for block in range(depth))
            for grid, depth in zip(self.grids, self.depths, strict=True)
        )


class RelativelyPlaced(nn.Module):
    """QKᵀ/√d + B, B a learned number for each head and each difference of two places (Liu et al. 2021, equation 4)."""

    index: Tensor

    def __init__(self, heads: int, side: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(heads, (2 * side - 1) ** 2))
        nn.init.trunc_normal_(self.table, std=0.02)
        self.register_buffer("index", offsets(side, side), persistent=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Score query and key (..., heads, slot, width) -> (..., heads, slot, slot)."""
        return scaled_dot_product(query, key) + self.table[:, self.index]


class WindowAttention(MultiHeadAttention):
    """Attention of the tokens of a grid to those of their window (Liu et al. 2021, section 3.2).

    Its map is (batch, windows, heads, slot, slot). Windows that a shift wraps round the image's edge hold tokens that
    are no neighbours; those do not see each other.
    """

    same_side: Tensor | None

    def __init__(self, width: int, heads: int, windows: Windows, *, bias: bool, score: Score) -> None:
        super().__init__(width, heads, bias=bias, score=score)
        self.windows = windows
        visible = windows.visible()
        self.register_buffer("same_side", None if visible is None else visible[:, None], persistent=False)

    def forward(self, x: Tensor, context: Context = ALL_VISIBLE) -> tuple[Tensor, Maps]:
        """Let the tokens x (batch, token, width) look around in their windows; every token is visible.

        The context recalls keys and values (batch, windows, heads, slot, width of a head).
        """
        if context.visible is not None:
            raise ValueError("window attention: must be given all tokens of a grid, given a mask")
        cut = self.windows.cut(x)
        inside = replace(context, visible=self.same_side)
        mixed, maps = self.read(cut, context.recall(self.remember(cut, inside)), inside)
        return self.windows.join(mixed), maps

    def _mix(self, query: Tensor, remembered: KeyValue, context: Context) -> tuple[Tensor, Maps]:
        mixed, weights = attend(query, *remembered, context.visible, self.score, self.select, context.bias)
        return self.output(mixed.transpose(2, 3).flatten(3)), {"": weights}  # (batch, windows, slot, width)

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.reshape(*x.shape[:3], heads, -1).transpose(2, 3)  # (batch, windows, heads, slot, width of a head)


class Merging(nn.Module):
    """Join each 2 x 2 tokens and project them: half the sides, twice the width (Liu et al. 2021, section 3.1)."""

    def __init__(self, rows: int, columns: int, project: nn.Module) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        self.project = project

    def forward(self, x: Tensor) -> Tensor:
        """Take x (batch, token, width) -> (batch, a quarter of the tokens, what the projection makes)."""
        x = x.reshape(-1, self.rows // 2, 2, self.columns // 2, 2, x.shape[2])
        x = x.permute(0, 1, 3, 4, 2, 5)  # (batch, row, column, across, down, width), as checkpoints have it
        return self.project(x.flatten(3).flatten(1, 2))  # of (batch, merged token, four times the width)


class Stage(Stack):
    """Blocks of one grid, one after the other, then a merging; after the last stage it is `nn.Identity`."""

    def __init__(self, blocks: Iterable[nn.Module], merging: nn.Module) -> None:
        super().__init__(blocks, nn.Identity())
        self.merging = merging

    def forward(
        self, x: Tensor, contexts: Contexts = ALL_VISIBLE, recalls: Sequence[Recall] | None = None
    ) -> tuple[Tensor, Maps]:
        """Take x (batch, token, width) -> what is merged of it; `recalls` has one entry for each block."""
        x, maps = super().forward(x, contexts, recalls)
        return self.merging(x), maps


class Swin(nn.Module):
    """Patches with a norm and perhaps places, stages, and a head that takes the last states through a norm."""

    def __init__(
        self,
        patches: Patches,
        patch_norm: nn.Module,
        positions: nn.Module,
        stages: Iterable[Stage],
        norm: nn.LayerNorm,
        head: nn.Module,
    ) -> None:
        super().__init__()
        self.patches, self.patch_norm = patches, patch_norm
        self.positions = positions
        self.stages = nn.ModuleList(stages)
        self.norm = norm
        self.head = head

    @property
    def width(self) -> int:
        """How many numbers the head returns for an image."""
        return head_width(self.head, math.prod(self.norm.normalized_shape))

    def forward(self, pixels: Tensor, recalls: Sequence[Sequence[Recall]] | None = None) -> tuple[Tensor, Maps]:
        """Take normalised pixels (batch, channels, height, width) -> the head's answer, and the maps of all stages.

        `recalls` has for each stage one entry for each block. A map is (batch, windows, heads, slot, slot).
        """
        x = self.patch_norm(self.patches(pixels))  # (batch, token, width)
        x = x + self.positions(torch.arange(x.shape[1], device=x.device))
        each: Sequence[Sequence[Recall] | None] = recalls or [None] * len(self.stages)
        maps: Maps = {}
        for index, (stage, own) in enumerate(zip(self.stages, each, strict=True)):
            x, found = stage(x, recalls=own)
            maps |= under(f"stages.{index}", found)
        return self.head(self.norm(x)), maps


def compose(
    config: SwinConfig,
    block: type[PreNormBlock],
    attention: Callable[[int, Windows], WindowAttention],
    project: Callable[[int], nn.Module],
    head: nn.Module | None,
) -> Swin:
    """Compose a Swin; `attention` is given a stage's number and a block's windows, `project` the width to merge of."""
    stages = []
    for index, (sizes, windows) in enumerate(zip(config.stages, config.windows, strict=True)):
        last = index == len(config.depths) - 1
        merging = nn.Identity() if last else Merging(*config.grids[index], project(sizes.width))
        attentions = (attention(index, own) for own in windows)
        blocks = sizes.blocks(block, attention=attentions.__next__, feed_forward=sizes.feed_forward)
        stages.append(Stage(blocks, merging))
    positions: nn.Module = NoPositions()
    if config.absolute:
        positions = nn.Embedding(math.prod(config.grids[0]), config.width)
        nn.init.trunc_normal_(positions.weight, std=0.02)
    width = config.widths[-1]
    return Swin(
        Patches(config.image, config.channels, config.patch, config.width),
        nn.LayerNorm(config.width),
        positions,
        stages,
        nn.LayerNorm(width, eps=config.epsilon),
        head or MeanLinear(width, config.classes),
    )


def swin(config: SwinConfig, head: nn.Module | None = None) -> Swin:
    """Compose a Swin of the given sizes with freshly initialised weights; by default it classifies."""

    def attention(stage: int, windows: Windows) -> WindowAttention:
        width, heads = config.widths[stage], config.heads[stage]
        return WindowAttention(width, heads, windows, bias=config.bias, score=RelativelyPlaced(heads, windows.side))

    def project(width: int) -> nn.Module:
        return nn.Sequential(nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False))

    return compose(config, PreNormBlock, attention, project, head)


SWIN_SIZES = {
    # Liu et al. 2021, table 7, at 224 pixels and 1000 classes
    "swin_t": SwinConfig((224, 224), 3, (4, 4), 96, (2, 2, 6, 2), (3, 6, 12, 24), window=7, ratio=4, classes=1000),
    # bundled: the digit of the marked quarter
    "scenes-swin": SwinConfig((64, 64), 1, (4, 4), 48, (2, 2), (3, 6), window=4, ratio=4, classes=10),
}


SCENES_MEAN, SCENES_STD = 0.11, 0.25  # of the pixels in [0, 1] of the scenes that the bundled Swin reads
