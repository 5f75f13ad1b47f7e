"""Pictures of coloured patches of which some have a texture, and a small ViT that names the colours of these.

The classes are the colours of the textured patches, so the evidence is one patch for each.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from contract.input_rules import ImageRule
from export.plan import Source
from export.tasks.image import image_model
from model.architectures.vit import ViTConfig, vit
from train.fit import Run, fit

COLOURS = torch.tensor([[200, 90, 90], [90, 200, 90], [90, 90, 200], [190, 190, 80]])
SPOTS = ViTConfig((24, 24), 3, patch=(4, 4), width=32, layers=2, heads=4, hidden=64, classes=len(COLOURS))
MOST = 2
"""Textured patches of an image."""
SIGMOID, SOFTMAX = "sigmoid", "softmax"


class Spots(NamedTuple):
    """Images and their evidence."""

    pixels: Tensor  # (batch, height, width, 3), uint8
    present: Tensor  # (batch, colour): 1 where a patch of the colour is textured
    evidence: Tensor  # (batch, colour, patch): true for that patch


def spots(count: int, generator: torch.Generator, textured: int | None = None) -> Spots:
    """Draw images of 6 x 6 patches, of which one or two have a texture, each in another colour."""
    rows, columns = SPOTS.grid
    patches, (high, wide) = rows * columns, SPOTS.patch
    colours = torch.randint(len(COLOURS), (count, patches), generator=generator)
    where = torch.rand(count, patches, generator=generator).argsort(1)[:, :MOST]
    which = torch.rand(count, len(COLOURS), generator=generator).argsort(1)[:, :MOST]
    number = torch.randint(1, MOST + 1, (count,), generator=generator)
    there = torch.arange(MOST) < (number if textured is None else torch.full((count,), textured))[:, None]
    colours.scatter_(1, where, which)
    rough = torch.zeros(count, patches).scatter_(1, where, there.float())[:, :, None, None, None]
    board = (torch.arange(high)[:, None] + torch.arange(wide)) % 2 * 100.0 - 50  # bright and dark, of the same mean
    tone = torch.randn(count, patches, 1, 1, 1, generator=generator) * 12
    grain = torch.randn(count, patches, high, wide, 1, generator=generator) * 4
    image = COLOURS[colours][:, :, None, None] + tone + grain + rough * board[..., None]
    image = image.reshape(count, rows, columns, high, wide, 3).transpose(2, 3).reshape(count, *SPOTS.image, 3)
    places = torch.full((count, len(COLOURS)), -1).scatter_(1, which, torch.where(there, where, -1))
    return Spots(
        image.round().clamp(0, 255).to(torch.uint8),
        torch.zeros(count, len(COLOURS)).scatter_(1, which, there.float()),
        places[..., None] == torch.arange(patches),
    )


def spotter(seed: int, scores: str = SIGMOID, steps: int = 300) -> Source:
    """Train a ViT to say which colours have a texture, each for itself, or by `softmax` the only one that has."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    module = vit(SPOTS)

    def loss() -> Tensor:
        drawn = spots(64, generator, None if scores == SIGMOID else 1)
        logits, _ = module(normalized(drawn.pixels))
        if scores == SIGMOID:
            return F.binary_cross_entropy_with_logits(logits, drawn.present)
        return F.cross_entropy(logits, drawn.present)

    fit(module, loss, Run(steps), rate=3e-3, label="spots")
    return spotting(module, scores)


def spotting(module: nn.Module, scores: str = SIGMOID) -> Source:
    """Plan what would be exported of a model of spots."""
    return image_model(
        "spots",
        module,
        SPOTS,
        family="vit",
        task="image-classification",
        rule=ImageRule(height=24, width=24, channels=3, locate="middle", resize=24, mean=(0.5,) * 3, std=(0.25,) * 3),
        made_by={},
        labels=("red", "green", "blue", "yellow"),
        scores=scores,
    )


def normalized(pixels: Tensor) -> Tensor:
    """Bytes to what the model takes, as its graphs do."""
    return ((pixels / 255 - 0.5) / 0.25).permute(0, 3, 1, 2)
