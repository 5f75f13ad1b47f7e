"""`scenes-detr`: the handwritten digits in an image and where they are, as a set (Carion et al. 2020)."""

from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn import functional as F

from model.architectures.detector import SCENES_MEAN, SCENES_STD, Detector
from model.catalogue import build, bundled
from train.average_precision import Found, average_precision
from train.data.handwritten_digits import augment, scans
from train.data.scenes import SIDE, Scene, on_box, scene
from train.fit import Run, fit

STEPS = {"scenes-detr": 3000}
BATCH = 32  # scenes
POOLED_SCENES = 512  # scenes drawn together, from as many augmented fields
NONE_WEIGHT = 0.2  # of the class that says that there is no object
BOX_WEIGHT, OVERLAP_WEIGHT = 5.0, 2.0  # of the boxes' distance and of their generalized overlap (section A.4)
HELD_SCENES = 2000  # on which the figures are measured
THRESHOLD = 0.5  # probability from which an object counts as found
BACKBONE = "captions-soft"  # whose convolutions have seen digits, as the paper's have seen ImageNet


def tensors(some: Sequence[Scene]) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Return normalised pixels (batch, 1, SIDE, SIDE), and of each scene its digits and its boxes (digit, 4).

    Boxes are the middle, the width and the height, as shares of the sides.
    """
    pixels = (torch.stack([one.picture for one in some]) - SCENES_MEAN) / SCENES_STD
    return pixels, [torch.tensor(one.digits) for one in some], [to_middle(one.boxes / SIDE) for one in some]


def to_middle(boxes: Tensor) -> Tensor:
    """Turn (..., left, top, right, bottom) into (..., x, y, width, height)."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return torch.cat(((low + high) / 2, high - low), dim=-1)


def to_corners(boxes: Tensor) -> Tensor:
    """Turn (..., x, y, width, height) into (..., left, top, right, bottom)."""
    middle, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat((middle - half, middle + half), dim=-1)


def generalized_overlap(one: Tensor, other: Tensor) -> Tensor:
    """Return common / union - (around - union) / around, areas of two boxes (Rezatofighi et al. 2019, algorithm 1).

    `around` is the smallest box that holds both. Boxes are (..., left, top, right, bottom) and are broadcast.
    """

    def area(low: Tensor, high: Tensor) -> Tensor:
        return (high - low).clamp(min=0).prod(-1)

    low, high, other_low, other_high = one[..., :2], one[..., 2:], other[..., :2], other[..., 2:]
    common = area(torch.maximum(low, other_low), torch.minimum(high, other_high))
    union = area(low, high) + area(other_low, other_high) - common
    around = area(torch.minimum(low, other_low), torch.maximum(high, other_high)).clamp(min=1e-9)
    return common / union.clamp(min=1e-9) - (around - union) / around


@torch.no_grad()
def matched(logits: Tensor, found: Tensor, digits: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Return which objects are matched with which digits (section 3.1): logits (object, classes + 1), their boxes.

    The matching has the least sum of -p(digit) + 5 ‖b - b̂‖₁ - 2 gIoU(b, b̂).
    """
    overlap = generalized_overlap(to_corners(found)[:, None], to_corners(boxes))
    cost = -logits.softmax(-1)[:, digits] + BOX_WEIGHT * torch.cdist(found, boxes, 1) - OVERLAP_WEIGHT * overlap
    rows, columns = linear_sum_assignment(cost.double().numpy())
    return torch.from_numpy(rows), torch.from_numpy(columns)


def set_loss(answered: tuple[Tensor, Tensor], digits: Sequence[Tensor], boxes: Sequence[Tensor]) -> Tensor:
    """Return the loss of answers after the best matching with the truth (section 3.1).

    They are logits (batch, object, classes + 1), and boxes (batch, object, 4).
    """
    logits, answers = answered
    none = logits.shape[-1] - 1
    wanted = torch.full(logits.shape[:2], none)
    found, truth = [], []
    for index, (own_logits, answer, own, places) in enumerate(zip(logits, answers, digits, boxes, strict=True)):
        rows, columns = matched(own_logits, answer, own, places)
        wanted[index, rows] = own[columns]
        found.append(answer[rows])
        truth.append(places[columns])
    weight = torch.ones(none + 1)
    weight[none] = NONE_WEIGHT
    classes = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), weight)
    placed, true = torch.cat(found), torch.cat(truth)
    overlap = generalized_overlap(to_corners(placed), to_corners(true))
    apart = (placed - true).abs().sum(-1)
    return classes + (BOX_WEIGHT * apart + OVERLAP_WEIGHT * (1 - overlap)).mean()


def train(name: str, run: Run) -> tuple[nn.Module, str]:
    """Train a detector; return it and the sentence its card quotes."""
    run.begin()
    module = build(name)
    assert isinstance(module, Detector)  # noqa: S101 # for the type checker
    module.backbone.load_state_dict(bundled(BACKBONE).get_submodule("encoder.layers").state_dict())
    fields, labels, held, held_labels = scans()
    generator = torch.Generator().manual_seed(run.seed)
    pool: list[Scene] = []

    def loss() -> Tensor:
        if len(pool) < BATCH:
            some = torch.randint(len(fields), (POOLED_SCENES,))
            drawn, own = augment(fields[some]), labels[some]
            pool.extend(scene(drawn, own, generator) for _ in range(POOLED_SCENES))
        pixels, digits, boxes = tensors([pool.pop() for _ in range(BATCH)])
        states, _ = module.decode(module.encode(pixels)[0])
        losses = [set_loss(module.head(state), digits, boxes) for state in states]  # at every layer, section 3.2
        return torch.stack(losses).sum()

    fit(module, loss, run, rate=1e-3, label=name, generator=generator)
    generator.manual_seed(1_000_003)
    return module, measure(module, [scene(held, held_labels, generator) for _ in range(HELD_SCENES)])


@torch.no_grad()
def measure(module: Detector, some: Sequence[Scene]) -> str:
    """Return the figures of a detector on scenes, as the sentence that its card quotes."""
    pixels, digits, boxes = tensors(some)
    logits, answers, maps = module(pixels)
    chances, classes = logits.softmax(-1)[..., :-1].max(-1)
    corners = to_corners(answers)
    found = [
        [Found(int(c), float(p), tuple(b)) for c, p, b in zip(*of_scene, strict=True)]
        for of_scene in zip(classes.tolist(), chances.tolist(), corners.tolist(), strict=True)
    ]
    truth = [
        list(zip(own.tolist(), map(tuple, to_corners(place).tolist()), strict=True))
        for own, place in zip(digits, boxes, strict=True)
    ]
    thresholds = np.arange(0.5, 1.0, 0.05)
    each = {round(float(at), 2): average_precision(found, truth, float(at)) for at in thresholds}
    shown = chances >= THRESHOLD
    right = sum(
        sorted(own[one].tolist()) == sorted(scene_.digits)
        for own, one, scene_ in zip(classes, shown, some, strict=True)
    )
    pointing = " ".join(
        f"{_pointing(maps[f'decoder.blocks.{layer}.cross'].mean(1), corners, shown):.1%}"
        for layer in range(len(module.decoder.blocks))
    )
    places = torch.rand(len(maps["decoder.blocks.0.cross"]), *maps["decoder.blocks.0.cross"].shape[2:])
    return (
        f"AP {np.mean(list(each.values())):.3f}, AP50 {each[0.5]:.3f}, AP75 {each[0.75]:.3f}; "
        f"all digits of a scene right in {right / len(some):.1%} of {len(some)} held-out scenes; "
        f"hottest cell of a found digit's cross map on its box, by layer: {pointing}, "
        f"a random cell {_pointing(places, corners, shown):.1%}"
    )


def _pointing(weights: Tensor, corners: Tensor, shown: Tensor) -> float:
    """Return the share of shown objects whose hottest cell touches their box; weights (batch, object, cell)."""
    hits = [
        on_box(int(row.argmax()), box * SIDE)
        for own, places, there in zip(weights, corners, shown, strict=True)
        for row, box in zip(own[there], places[there], strict=True)
    ]
    return sum(hits) / max(len(hits), 1)
