"""Pictures of one digit that stands anywhere, at several sizes, on a textured ground."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from model.architectures.vit import DIGITS_BOX
from train.data.handwritten_digits import INK_SHARE
from train.data.handwritten_digits import SIDE as DIGIT_SIDE

SIDE = 48  # of a picture, in pixels
SIZES = (14, 30)  # smallest and largest longer side of a digit, in pixels
WAVES = (1.5, 9.0)  # fewest and most waves of stripes across a picture
BLOBS = (4, 9, 20)  # cells of noise across a picture, from broad clouds to specks
GROUND_DEVIATIONS = (0.03, 0.12)  # of a ground's pixels
LEAST_CONTRAST = 0.4  # between the ink and the ground's middle


def placed(field: Tensor, size: Tensor, middle: Tensor) -> Tensor:
    """Place the digits of fields (batch, 1, FIELD, FIELD) -> how much of a pixel they cover (batch, 1, SIDE, SIDE).

    size (batch) is the digit's longer side in pixels, middle (batch, 2) where its middle stands: x and y, from -1 to 1.
    """
    batch = len(field)
    half = SIDE / (size * DIGIT_SIDE / DIGITS_BOX)
    zero = torch.zeros(batch)
    across, down = (-half[:, None] * middle).unbind(1)
    theta = torch.stack((torch.stack((half, zero, across), 1), torch.stack((zero, half, down), 1)), 1)
    grid = F.affine_grid(theta, [batch, 1, 2 * SIDE, 2 * SIDE], align_corners=False)
    return F.avg_pool2d(F.grid_sample(field, grid, mode="bilinear", align_corners=False), 2)


def ink_of(cover: Tensor) -> Tensor:
    """True for pixels (batch, SIDE, SIDE) that hold ink, of how much of each is covered (batch, 1, SIDE, SIDE)."""
    return cover[:, 0] > INK_SHARE * cover.amax((1, 2, 3))[:, None, None]


def anywhere(batch: int) -> tuple[Tensor, Tensor]:
    """Draw sizes (batch) and places (batch, 2) at which a digit stands wholly within a picture."""
    size = torch.empty(batch).uniform_(*SIZES)
    free = 1 - size / SIDE
    return size, torch.empty(batch, 2).uniform_(-1, 1) * free[:, None]


def grounds(batch: int) -> Tensor:
    """Draw textures (batch, 1, SIDE, SIDE) of mean 0 and deviation 1: clouds, specks and stripes in random shares."""
    parts = [
        F.interpolate(torch.randn(batch, 1, cells, cells), (SIDE, SIDE), mode="bicubic", align_corners=False)
        for cells in BLOBS
    ]
    turn = torch.rand(batch, 1, 1, 1) * math.pi
    waves = torch.empty(batch, 1, 1, 1).uniform_(*WAVES)
    line = torch.linspace(-0.5, 0.5, SIDE)
    along = turn.cos() * line + turn.sin() * line[:, None]
    parts.append((2 * math.pi * (waves * along + torch.rand(batch, 1, 1, 1))).sin())
    mixed = torch.cat(parts, 1) * torch.rand(batch, len(parts), 1, 1) ** 2
    texture = mixed.sum(1, keepdim=True)
    texture = texture - texture.mean((2, 3), keepdim=True)
    return texture / texture.std((2, 3), keepdim=True)


def on_grounds(cover: Tensor) -> Tensor:
    """Paint digits, given by how much of a pixel they cover, on grounds -> pictures (batch, 1, SIDE, SIDE) in [0, 1].

    The ink is brighter or darker than its ground, as it is drawn.
    """
    batch = len(cover)
    middle = torch.rand(batch, 1, 1, 1)
    deviation = torch.empty(batch, 1, 1, 1).uniform_(*GROUND_DEVIATIONS)
    ground = (middle + deviation * grounds(batch)).clamp(0, 1)
    below = (middle - LEAST_CONTRAST).clamp(min=0)
    above = (1 - LEAST_CONTRAST - middle).clamp(min=0)
    drawn = torch.rand(batch, 1, 1, 1) * (below + above)
    ink = torch.where(drawn < below, drawn, drawn - below + middle + LEAST_CONTRAST)
    return ground + (ink - ground) * cover.clamp(0, 1)
