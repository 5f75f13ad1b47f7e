"""Small detectors of each form, with random weights under which they find something else in every image."""

import io
import re

import numpy as np
import torch
from PIL import Image, ImageOps

from contract.input_rules import ImageRule
from export.pipeline import export
from export.tasks.detection import object_detector, sequence_detector
from model.architectures.conditional_detector import conditional_detector
from model.architectures.detector import DetectorConfig, detector
from model.architectures.yolos import YolosConfig, yolos
from model.parts.stacks import StackSizes
from tests.samples.traces import traces_kept

HEIGHT, WIDTH, CELL, OBJECTS = 32, 48, 8, 4
GRID = HEIGHT // CELL, WIDTH // CELL
CELLS = GRID[0] * GRID[1]
LABELS = ("cat", "dog", "bird")
MEAN, STD = (0.5, 0.4, 0.6), (0.3, 0.25, 0.2)
FITTED_MEAN = (0.485, 0.456, 0.406)
"""That of ImageNet, which no bytes are."""
SIZES = DetectorConfig(
    (HEIGHT, WIDTH), 3, cell=CELL, width=16, encoder=StackSizes(2, 2, 24), decoder=StackSizes(2, 2, 24),
    objects=OBJECTS, classes=len(LABELS),
)  # fmt: skip
TOKENS = YolosConfig(
    (HEIGHT, WIDTH), 3, patch=(CELL, CELL), layers=2, width=16, heads=2, hidden=24, classes=len(LABELS), objects=OBJECTS
)
SHARP = 2.0
"""How large the matrices are that choose what is looked at, and what an object is."""
STRETCHED = ImageRule(
    height=HEIGHT, width=WIDTH, channels=3, locate="middle", resize=(HEIGHT, WIDTH), mean=MEAN, std=STD
)
FITTED = ImageRule(height=HEIGHT, width=WIDTH, channels=3, locate="fit", mean=FITTED_MEAN, std=STD)


def sharpened(model, seed):
    """Draw weights so large that the model finds and sees something else in every image."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1:  # biases, and what norms multiply by
                parameter.copy_(0.3 * noise + name.endswith("weight"))
                continue
            wide = 1 if "queries" in name or "token" in name else parameter[0].numel() ** 0.5
            parameter.copy_(noise * (SHARP if re.search(r"\b(query|key|classes|box)\b", name) else 1.3) / wide)
    return model.eval()


MODELS = {
    "tiny": lambda: sharpened(detector(SIZES), 118),
    "fitted": lambda: sharpened(conditional_detector(SIZES), 31),
    "sequence": lambda: sharpened(yolos(TOKENS), 31),
}
"""A DETR whose pictures are stretched, a conditional one whose are fitted in and whose scores are sigmoid, a YOLOS."""


def write(folder):
    """Export all of them."""
    for name, make in MODELS.items():
        said = {"labels": LABELS, "made_by": {"definition": name}}
        if name == "sequence":
            source = sequence_detector(name, make(), TOKENS, family="yolos", rule=STRETCHED, **said)
        else:
            more = {"scores": "sigmoid", "rule": FITTED} if name == "fitted" else {"rule": STRETCHED}
            source = object_detector(name, make(), SIZES, family="detr", **more, **said)
        with traces_kept():
            export(source, "1", folder)


def picture(seed, width=WIDTH, height=HEIGHT):
    """Return a picture (height, width, 3) of a few rectangles, each of one colour, on black."""
    drawn = np.random.default_rng(seed)
    pixels = np.zeros((height, width, 3), np.uint8)
    for _ in range(4):
        (top, bottom), (left, right) = (sorted(drawn.integers(0, side + 1, 2)) for side in (height, width))
        pixels[top:bottom, left:right] = drawn.integers(0, 256, 3)
    return pixels


def encoded(pixels, kind="PNG", orientation=1):
    """Return the bytes of a picture, which EXIF says how to turn."""
    image, exif, file = Image.fromarray(pixels), Image.Exif(), io.BytesIO()
    exif[274] = orientation
    image.save(file, kind, **({} if orientation == 1 else {"exif": exif}))
    return file.getvalue()


SEVERAL, NOTHING = 0, 8
"""Pictures in which "tiny" finds objects of different classes, and none."""


def upright(sent):
    """Return a picture as a person sees it, by Pillow alone."""
    return ImageOps.exif_transpose(Image.open(io.BytesIO(sent))).convert("RGB")


def stretched(sent):
    """Return the pixels (height, width, 3) that a model takes which stretches its pictures."""
    return np.asarray(upright(sent).resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR))
