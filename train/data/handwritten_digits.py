"""Handwritten digits, one in an image: scikit-learn's scans and drawn strokes, brought to one size and varied."""

import functools
import random

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor
from torch.nn import functional as F

from model.architectures.vit import DIGITS_BOX, DIGITS_MEAN, DIGITS_STD, VIT_SIZES
from train.data.strokes import draw

SIDE = VIT_SIZES["digits"].image[0]
FIELD = 56  # side of a field, in pixels: scans and drawings are kept at this size
INK_SHARE = 0.25  # of the brightest pixel: brighter ones are ink when the bounding box is measured


@functools.cache
def scans() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return scikit-learn's digits as training fields, labels, held-out fields, labels; the split never changes.

    Fields are (count, 1, FIELD, FIELD) in [0, 1], each digit's bounding box centred with its longer side
    DIGITS_BOX / SIDE of the field's.
    """
    images, labels = load_digits(return_X_y=True)
    train, held, train_labels, held_labels = train_test_split(
        images.reshape(-1, 8, 8) / 16.0, labels, test_size=0.2, random_state=0, stratify=labels
    )
    return fields(train), torch.tensor(train_labels), fields(held), torch.tensor(held_labels)


@functools.cache
def strokes(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return drawn digits as fields and labels."""
    rng = random.Random(seed)  # noqa: S311 # training data, not secrets
    labels = [index % 10 for index in range(count)]
    return fields(np.stack([np.asarray(draw(rng, label, FIELD)) / 255.0 for label in labels])), torch.tensor(labels)


def fields(images: np.ndarray) -> Tensor:
    """Centre the ink of each image (count, height, width), in [0, 1], on its bounding box."""
    out = []
    for image in images:
        large = F.interpolate(torch.tensor(image, dtype=torch.float32)[None, None], (FIELD, FIELD), mode="bicubic")
        ink = large[0, 0] > INK_SHARE * large.max()
        rows, columns = ink.any(1).nonzero()[:, 0], ink.any(0).nonzero()[:, 0]
        top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
        # half the side of the new field, where the old one reaches from -1 to 1
        half = max(bottom - top, right - left) * SIDE / DIGITS_BOX / FIELD
        theta = torch.tensor([[half, 0, (left + right) / FIELD - 1], [0, half, (top + bottom) / FIELD - 1]])
        grid = F.affine_grid(theta[None], [1, 1, FIELD, FIELD], align_corners=False)
        out.append(F.grid_sample(large, grid, mode="bilinear", align_corners=False)[0])
    return torch.stack(out).clamp(0, 1)


def pixels(field: Tensor) -> Tensor:
    """Return the network's normalised inputs (batch, 1, SIDE, SIDE) for fields (batch, 1, FIELD, FIELD)."""
    return (F.interpolate(field, (SIDE, SIDE), mode="area") - DIGITS_MEAN) / DIGITS_STD


def augment(field: Tensor) -> Tensor:
    """Turn, slant, scale and shift each field a little, bend its strokes, and vary its pen."""
    batch = field.shape[0]
    turn, slant = torch.randn(batch) * 0.14, torch.randn(batch) * 0.12
    wide, high = 1 + torch.randn(batch) * 0.09, 1 + torch.randn(batch) * 0.06
    shift = torch.randn(2, batch) * 0.05
    rows = (
        torch.stack((wide * turn.cos(), slant - turn.sin(), shift[0]), dim=1),
        torch.stack((turn.sin(), high * turn.cos(), shift[1]), dim=1),
    )
    grid = F.affine_grid(torch.stack(rows, dim=1), list(field.shape), align_corners=False)
    bend = F.interpolate(torch.randn(batch, 2, 5, 5) * 0.035, (FIELD, FIELD), mode="bicubic").permute(0, 2, 3, 1)
    field = F.grid_sample(field, grid + bend, mode="bilinear", align_corners=False)
    level, gain = torch.empty(batch, 1, 1, 1).uniform_(0.3, 0.55), torch.empty(batch, 1, 1, 1).uniform_(4, 20)
    crisp = torch.sigmoid((field - level) * gain)  # a pen where the scan is a blur
    field = torch.where(torch.rand(batch, 1, 1, 1) < 0.5, crisp, field)
    return (field + torch.randn_like(field) * 0.03).clamp(0, 1)
