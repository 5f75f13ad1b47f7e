"""Pictures of glyphs among distractors, and a ViT that says which glyphs stand in them: the evidence is known.

A picture has 48 x 48 pixels in grey. Up to eight figures of 8 x 8 pixels stand in a field of 3 x 3 squares, each
somewhere in its own. Five of the figures are glyphs, the classes; five others are like them and mean nothing.
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

GLYPHS = ViTConfig((48, 48), 1, patch=(6, 6), width=48, layers=4, heads=4, hidden=96, classes=5)
NAMES = ("plus", "cross", "ring", "tee", "zed")
DRAWN = """
...##... ##....## ..####.. ######## ########
...##... ###..### .######. ######## ########
...##... .######. ##....## ...##... .....##.
######## ..####.. ##....## ...##... ....##..
######## ..####.. ##....## ...##... ...##...
...##... .######. ##....## ...##... ..##....
...##... ###..### .######. ...##... ########
...##... ##....## ..####.. ...##... ########

##...... ##....## ######## ##...... .##..##.
##...... ##....## ######## .##..... .##..##.
##...... ##....## ##....## ..##.... .##..##.
##...... ##....## ##....## ...##... .##..##.
##...... ##....## ##....## ....##.. .##..##.
##...... ##....## ##....## .....##. .##..##.
######## ######## ##....## ......## .##..##.
######## ######## ##....## ......## .##..##.
"""
"""The glyphs, and below them the distractors."""
SIDE, SQUARE, SQUARES, PACE = 8, 16, 3, 2
"""Pixels of a figure and of its square, squares in a row, and pixels by which figures are shifted."""
DISTRACTORS = (3, 5)
"""The fewest and the most distractors of a picture."""
MOST = 2
"""Glyphs of a picture."""
SIGMOID, SOFTMAX = "sigmoid", "softmax"
STEPS = 2000
BATCH = 32


def figures() -> Tensor:
    """Return the bitmaps (figure, 8, 8) of glyphs and distractors."""
    blocks = [[line.split() for line in block.splitlines()] for block in DRAWN.strip().split("\n\n")]
    drawn = [["".join(line[index] for line in block) for index in range(5)] for block in blocks]
    return torch.tensor([[float(one == "#") for one in figure] for block in drawn for figure in block]).view(-1, 8, 8)


class Pictures(NamedTuple):
    """Pictures and their evidence."""

    pixels: Tensor  # (batch, height, width, 1), uint8
    present: Tensor  # (batch, glyph): 1 where the glyph stands in the picture
    evidence: Tensor  # (batch, glyph, patch): true for the patches that ink of the glyph touches


def pictures(count: int, generator: torch.Generator, glyphs: int | None = None) -> Pictures:
    """Draw pictures of none to two different glyphs, or of as many as are asked for, among distractors."""

    def drawn(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high + 1, (count, *shape), generator=generator)

    def shuffled(length: int, first: int) -> Tensor:
        return torch.rand(count, length, generator=generator).argsort(1)[:, :first]

    kinds, least, most = len(NAMES), *DISTRACTORS
    number = drawn(0, MOST) if glyphs is None else torch.full((count,), glyphs)
    which = torch.cat((shuffled(kinds, MOST), kinds + drawn(0, kinds - 1, most)), dim=1)  # (batch, figure)
    shown = torch.cat((torch.arange(MOST) < number[:, None], torch.arange(most) < drawn(least, most)[:, None]), dim=1)
    squares = shuffled(SQUARES**2, MOST + most)
    shift = drawn(0, (SQUARE - SIDE) // PACE, MOST + most, 2) * PACE
    top, left = (at * SQUARE + shift[..., axis] for axis, at in enumerate((squares // SQUARES, squares % SQUARES)))
    span = torch.arange(SIDE)
    height, width = GLYPHS.image
    row, column = top[..., None, None] + span[:, None], left[..., None, None] + span
    place = (row * width + column).flatten(2)  # (batch, figure, pixel)
    ink = (figures()[which] * shown[..., None, None]).flatten(2)
    layers = torch.zeros(count, MOST + most, height * width).scatter_(2, place, ink)
    tone = 0.4 + 0.6 * torch.rand(count, MOST + most, 1, generator=generator)
    image = (layers * tone).sum(1) + 0.06 * torch.randn(count, height * width, generator=generator) + 0.15
    patches = F.max_pool2d(layers[:, :MOST].reshape(-1, 1, height, width), GLYPHS.patch).reshape(count, MOST, -1)
    glyph = which[:, :MOST, None]
    evidence = torch.zeros(count, kinds, patches.shape[-1]).scatter_(1, glyph.expand_as(patches), patches)
    present = torch.zeros(count, kinds).scatter_(1, which[:, :MOST], shown[:, :MOST].float())
    pixels = (image.clamp(0, 1) * 255).round().to(torch.uint8).reshape(count, height, width, 1)
    return Pictures(pixels, present, evidence > 0)


MEAN, STD = 0.2, 0.3
"""The mean and the standard deviation of the pixels, which are in [0, 1]."""


def normalized(pixels: Tensor) -> Tensor:
    """Bytes to what the model takes, as its graphs do."""
    return ((pixels / 255 - MEAN) / STD).permute(0, 3, 1, 2)


def reader(seed: int, scores: str = SIGMOID, steps: int = STEPS, label: str = "glyphs") -> Source:
    """Train a ViT to say which glyphs stand in a picture, each for itself, or by `softmax` the only one."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    module = vit(GLYPHS)

    def loss() -> Tensor:
        drawn = pictures(BATCH, generator, None if scores == SIGMOID else 1)
        logits, _ = module(normalized(drawn.pixels))
        if scores == SIGMOID:
            return F.binary_cross_entropy_with_logits(logits, drawn.present)
        return F.cross_entropy(logits, drawn.present)

    fit(module, loss, Run(steps), rate=2e-3, label=label)
    return reading(module, scores)


def reading(module: nn.Module, scores: str = SIGMOID) -> Source:
    """Plan what would be exported of a model of glyphs."""
    height, width = GLYPHS.image
    return image_model(
        "glyphs",
        module,
        GLYPHS,
        family="vit",
        task="image-classification",
        rule=ImageRule(
            height=height, width=width, channels=1, locate="middle", resize=height, mean=(MEAN,), std=(STD,)
        ),
        made_by={},
        labels=NAMES,
        scores=scores,
    )
