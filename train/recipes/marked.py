"""`scenes-swin`: the digit that stands in the marked quarter of an image, by attention in shifted windows.

`python -m train.recipes.marked` trains a plain ViT of about as many parameters on the same scenes, and prints its
accuracy, which the card of `scenes-swin` quotes beside its own.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.swin import SCENES_MEAN, SCENES_STD, Swin, WindowAttention
from model.architectures.vit import ViTConfig, vit
from model.catalogue import build
from model.methods.windows import (
    WindowedStage,
    mean_of_rows,
    mean_row,
    windowed_relevance,
    windowed_relevance_of,
    windowed_rollout,
)
from model.parts.attention import Maps
from train.data.handwritten_digits import augment, scans
from train.data.marked import MarkedScene, marked_scene
from train.data.scenes import SIDE
from train.fit import Run, fit

STEPS = {"scenes-swin": 4000}
BATCH = 32  # scenes
RATE = 1e-3
POOLED_SCENES = 512  # scenes drawn together, from as many augmented fields
ALIKE, APART = 0.15, 0.6  # shares of the steps until which all digits of a scene are alike, and from which none must be
HELD_SCENES = 2000  # on which the figures are measured
MEASURED_TOGETHER = 50  # scenes in a batch

PLAIN_VIT = ViTConfig((SIDE, SIDE), 1, patch=(8, 8), width=76, layers=4, heads=4, hidden=304, classes=10)
"""A ViT with as many blocks as `scenes-swin`, and 292 078 parameters where that has 301 996. It attends to all of 64
patches.

Patches are as large as the cells of the second stage: with those of 4 x 4 pixels, a step takes five times as long.
"""


def tensors(some: Sequence[MarkedScene]) -> tuple[Tensor, Tensor]:
    """Return normalised pixels (batch, 1, SIDE, SIDE), and the digit of the marked quarter of each scene (batch)."""
    pixels = (torch.stack([one.picture for one in some]) - SCENES_MEAN) / SCENES_STD
    return pixels, torch.tensor([one.digits[one.marked] for one in some])


def drawing(fields: Tensor, labels: Tensor, generator: torch.Generator) -> Callable[[float], tuple[Tensor, Tensor]]:
    """Return what draws a batch of augmented scenes, given the chance that a digit is the one asked for."""
    pool: list[MarkedScene] = []

    def draw(alike: float) -> tuple[Tensor, Tensor]:
        if len(pool) < BATCH:
            some = torch.randint(len(fields), (POOLED_SCENES,))
            drawn, own = augment(fields[some]), labels[some]
            pool.extend(marked_scene(drawn, own, generator, alike) for _ in range(POOLED_SCENES))
        return tensors([pool.pop() for _ in range(BATCH)])

    return draw


def alike(share: float) -> float:
    """Return the chance that a digit repeats the one asked for, when a share of the steps is taken.

    At first all digits of a scene are alike, so that reading is learned before the mark counts.
    """
    return min(1.0, max(0.0, (APART - share) / (APART - ALIKE)))


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train a Swin; return it and the sentence its card quotes."""
    run.begin()
    module = build(name)
    assert isinstance(module, Swin)  # noqa: S101 # for the type checker
    learn(module, run, name)
    return module, measure(module, held_out(HELD_SCENES))


def learn(module: nn.Module, run: Run, label: str) -> None:
    """Train a classifier of marked scenes, which returns logits and maps."""
    fields, labels, _, _ = scans()
    generator = torch.Generator().manual_seed(run.seed)
    draw = drawing(fields, labels, generator)
    taken = 0

    def loss() -> Tensor:
        pixels, digits = draw(alike(taken / run.steps))
        return F.cross_entropy(module(pixels)[0], digits)

    def before(step: int) -> None:
        nonlocal taken
        taken = step

    fit(module, loss, run, rate=RATE, label=label, generator=generator, before=before)


def held_out(count: int) -> list[MarkedScene]:
    """Return scenes of the held-out digits, always the same."""
    _, _, held, labels = scans()
    generator = torch.Generator().manual_seed(1_000_003)
    return [marked_scene(held, labels, generator) for _ in range(count)]


def touched(boxes: Tensor, cell: int) -> Tensor:
    """Return (scene, cell), True where a cell of `cell` pixels a side touches the scene's box, of boxes (scene, 4)."""
    start = torch.arange(0, SIDE, cell)
    left, top, right, bottom = boxes.T[:, :, None]
    across, down = (start < right) & (start + cell > left), (start < bottom) & (start + cell > top)
    return (down[:, :, None] & across[:, None]).flatten(1)


def truths(some: Sequence[MarkedScene], cell: int) -> Tensor:
    """Return (3, scene, cell): which cells touch the digit asked for, which another digit, and which the mark."""
    order = [[(one.marked + step) % 4 for step in range(4)] for one in some]
    boxes = torch.stack([one.boxes[own] for one, own in zip(some, order, strict=True)])  # (scene, digit, 4)
    asked, *others = (touched(boxes[:, digit], cell) for digit in range(4))
    return torch.stack((asked, torch.stack(others).any(0), touched(torch.stack([one.mark for one in some]), cell)))


class Heat(NamedTuple):
    """What each method gives to each cell of the first stage, (scene, cell)."""

    rollout: Tensor
    relevance: Tensor
    last: Tensor


def heat(module: Swin, maps: Maps, logits: Tensor) -> Heat:
    """Return what the mean of all last states looked at, by rollout, by relevance of the predicted class, and last.

    `last` is the mean row of the last block's map, which is of the last stage, averaged over its heads.
    """
    score = logits.max(-1).values.sum()
    gradients = dict(zip(maps, torch.autograd.grad(score, list(maps.values())), strict=True))
    rolled, relevant = [], []
    for number, stage in enumerate(module.stages):
        attentions = [block.attention for block in stage.blocks]  # type: ignore[union-attr] # a ModuleList
        windows = [one.windows for one in attentions if isinstance(one, WindowAttention)]
        names = [f"stages.{number}.blocks.{index}.attention" for index in range(len(windows))]
        included = torch.ones(len(windows), dtype=torch.bool)
        rolled.append(WindowedStage(windows, [maps[name].mean(2) for name in names], included))
        evidence = [windowed_relevance_of(maps[name], gradients[name]) for name in names]
        relevant.append(WindowedStage(windows, evidence, included))
    grid, last = windows[-1], maps[names[-1]]
    start = mean_of_rows(grid.rows * grid.columns, last)
    return Heat(
        windowed_rollout(rolled, start)[:, 0],
        windowed_relevance(relevant, start)[:, 0],
        mean_row(last, grid.places()).mean(1)[:, 0],
    )


def accuracy(module: nn.Module, some: Sequence[MarkedScene]) -> float:
    """Return the share of scenes of which a classifier, which returns logits and maps, names the digit asked for."""
    parts = [tensors(some[first : first + MEASURED_TOGETHER]) for first in range(0, len(some), MEASURED_TOGETHER)]
    with torch.no_grad():
        right = sum(int((module(pixels)[0].argmax(-1) == digits).sum()) for pixels, digits in parts)
    return right / len(some)


def measure(module: Swin, some: Sequence[MarkedScene]) -> str:
    """Return the figures of a Swin on scenes, as the sentence that its card quotes."""
    hits = {method: torch.zeros(3) for method in Heat._fields}
    chance = {method: torch.zeros(3) for method in Heat._fields}
    for first in range(0, len(some), MEASURED_TOGETHER):
        part = some[first : first + MEASURED_TOGETHER]
        logits, maps = module(tensors(part)[0])
        for method, found in heat(module, maps, logits)._asdict().items():
            on = truths(part, SIDE // int(found.shape[1] ** 0.5)).float()  # (3, scene, cell)
            hottest = found.argmax(1).expand(3, -1)[:, :, None]
            hits[method] += on.gather(2, hottest).sum((1, 2))
            chance[method] += on.mean(2).sum(1)

    def shares(counted: Tensor) -> str:
        return " ".join(f"{share:.1%}" for share in (counted / len(some)).tolist())

    pointing = "; ".join(f"{method} {shares(hits[method])} (by chance {shares(chance[method])})" for method in hits)
    return (
        f"accuracy {accuracy(module, some):.2%} on {len(some)} held-out scenes; hottest cell of the mean row on the "
        f"digit asked for, on another one, on the mark: {pointing}"
    )


def main() -> None:
    """Train a plain ViT as `scenes-swin` is trained, and print what it reaches."""
    run = Run(STEPS["scenes-swin"])
    run.begin()
    module = vit(PLAIN_VIT)
    learn(module, run, "a plain ViT")
    print(f"a plain ViT: accuracy {accuracy(module, held_out(HELD_SCENES)):.2%} on {HELD_SCENES} held-out scenes")  # noqa: T201 # a command's answer


if __name__ == "__main__":
    main()
