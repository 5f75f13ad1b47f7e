"""Swin V2: cosines for products, places by a small network, norms behind the branches (Liu et al. 2022)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.architectures.swin import Swin, SwinConfig, WindowAttention, compose
from model.parts.blocks import BranchNormBlock
from model.parts.positions import offsets
from model.parts.windows import Windows

PLACES_HIDDEN = 512  # width of the network that makes B of places, as in the authors' code
LARGEST_SCALE = 100.0  # 1/τ with the least τ of 0.01 (section 3.2)
FARTHEST = 8  # what the largest difference of two places is scaled to before its logarithm, as in the authors' code
LARGEST_BIAS = 16.0  # as in the authors' code


@dataclass(frozen=True)
class SwinV2Config(SwinConfig):
    """Sizes of a Swin V2. `trained_windows` are the sides of the windows that its weights were trained with.

    They have one number a stage; places are scaled as with those windows. 0, or no numbers at all, says that they are
    the windows of the stage.
    """

    trained_windows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trained_windows and len(self.trained_windows) != len(self.depths):
            raise ValueError(
                f"trained windows: must be given for each of {len(self.depths)} stages, "
                f"given {len(self.trained_windows)}"
            )
        for side in self.trained_windows:
            if side < 0 or side == 1:
                raise ValueError(f"trained windows: must be 0, or 2 or more, given {side}")


def log_spaced(side: int, trained: int) -> Tensor:
    """Return ((2 side - 1)², 2): sign(x) log₂(1 + |x|) / log₂ 8 of each difference of two places (equation 4).

    Differences of rows and of columns are scaled so that the largest in a window of the side `trained` is 8.
    """
    step = torch.arange(1 - side, side, dtype=torch.float64) * FARTHEST / max(trained - 1, 1)
    spaced = step.sign() * (1 + step.abs()).log2() / math.log2(FARTHEST)
    return torch.cartesian_prod(spaced, spaced).to(torch.get_default_dtype())


class CosinePlaced(nn.Module):
    """cos(q, k)/τ + B, τ ≥ 0.01 learned for each head, B = 16 sigmoid(MLP(places)) (equations 2 and 3)."""

    index: Tensor
    places: Tensor

    def __init__(self, heads: int, side: int, trained: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10)))  # ln 1/τ
        self.mlp = nn.Sequential(nn.Linear(2, PLACES_HIDDEN), nn.ReLU(), nn.Linear(PLACES_HIDDEN, heads, bias=False))
        self.register_buffer("places", log_spaced(side, trained), persistent=False)
        self.register_buffer("index", offsets(side, side), persistent=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """Score query and key (..., heads, slot, width) -> (..., heads, slot, slot)."""
        cosine = _unit(query) @ _unit(key).transpose(-2, -1)
        table = LARGEST_BIAS * torch.sigmoid(self.mlp(self.places)).T  # (heads, difference)
        return cosine * self.scale.clamp(max=math.log(LARGEST_SCALE)).exp() + table[:, self.index]


def _unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True).clamp_min(1e-12)


def swin_v2(config: SwinV2Config, head: nn.Module | None = None) -> Swin:
    """Compose a Swin V2 of the given sizes with freshly initialised weights; by default it classifies."""
    trained = config.trained_windows or (0,) * len(config.depths)

    def attention(stage: int, windows: Windows) -> WindowAttention:
        width, heads = config.widths[stage], config.heads[stage]
        score = CosinePlaced(heads, windows.side, trained[stage] or windows.side)
        made = WindowAttention(width, heads, windows, bias=config.bias, score=score)
        made.key = nn.Linear(width, width, bias=False)  # as in the authors' code
        return made

    def project(width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(4 * width, 2 * width, bias=False), nn.LayerNorm(2 * width))

    return compose(config, BranchNormBlock, attention, project, head)


SWIN_V2_SIZES = {
    # Liu et al. 2022, section 3.6: Swin V2-T at 256 pixels, 1000 classes, with windows of 8
    "swin_v2_t": SwinV2Config((256, 256), 3, (4, 4), 96, (2, 2, 6, 2), (3, 6, 12, 24), window=8, ratio=4, classes=1000),
}
