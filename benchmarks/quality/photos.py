"""What is seen of attention over photographs: maps of `photos`, drawn by the service over its examples."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from PIL import Image
from scipy.stats import spearmanr
from skimage.color import rgb2lab

from export.examples import PHOTOS
from export.plan import Source
from model.methods import explanations
from service.explanations.drawing import Panel, Style, overlay
from service.inputs.image_preprocessing import decode_image
from service.inputs.model_input import Box

Report = Callable[[str], None]
Seen: TypeAlias = tuple[float, float, float]
"""The share of pixels that are seen, the share of the map on them, and Spearman's correlation of how far the colours of
a cell are from the ground with its value."""

LEAST_DIFFERENCE = 5.0
"""A pixel is seen if its colour differs from that of the ground alone by more (CIE 1976)."""
MAX_PIXELS = 10**8
STYLES = {
    "to the largest value, over the photograph": Style(opacity=0.6, ground="photo", scale="full"),
    "as it comes": Style(),
}
SINK, DISCARD = 0.5, 0.9


def photo_table(source: Source, report: Report) -> dict:
    """Measure what is seen of each map, in each style: means over the photographs (and heads), and the least mass."""
    found: dict = {name: {} for name in STYLES}
    drawn = [(file, *maps_of(source, file)) for file in PHOTOS]
    for name, style in STYLES.items():
        report(f"photos: {name}")
        for kind in drawn[0][2]:
            every = [seen(file, box, one, style) for file, box, maps in drawn for one in maps[kind]]
            changed, mass, order = np.mean(every, axis=0)
            least = min(one for _, one, _ in every)
            found[name][kind] = {"changed": changed, "mass": mass, "least": least, "order": order}
    return {"photographs": len(PHOTOS), "styles": found}


def maps_of(source: Source, file: Path) -> tuple[Box, Mapping[str, np.ndarray]]:
    """Return where the model looks in a photograph, and maps of the class token (map, rows, columns) by name."""
    picture = decode_image(file.read_bytes(), source.image, MAX_PIXELS)
    (kind,) = source.attention
    with torch.no_grad():
        observed = source.traced.observe(torch.from_numpy(np.array(picture.pixels))[None])
    weights = [layer.double() for layer in observed.weights[0]]
    values, outputs = observed.values[0][-1].double(), source.traced.output_projections(kind)[-1].double()
    rows, included = torch.tensor([0]), torch.ones(len(weights), dtype=torch.bool)
    kept = [explanations.without_sinks(layer, kind.patches, torch.tensor(SINK)) for layer in weights]
    few = [explanations.discard(layer.mean(1), torch.tensor(DISCARD)) for layer in kept]
    found = {
        "rollout": explanations.rollout([layer.mean(1) for layer in weights], included, rows)[:, 0],
        "rollout, `sinks=out`, `discard=0.9`": explanations.rollout(few, included, rows)[:, 0],
        "raw, last layer, mean of heads": weights[-1].mean(1)[:, 0],
        "raw, last layer, each head": weights[-1][0, :, 0],
        "norm, last layer": explanations.norms(weights[-1], values, outputs)[:, 0],
    }
    return picture.box, {name: one[:, kind.patches].reshape(-1, *kind.grid).numpy() for name, one in found.items()}


def seen(file: Path, box: Box, values: np.ndarray, style: Style) -> Seen:
    """Return what is seen of a map (rows, columns) whose grid covers the box of a photograph."""
    apart = np.linalg.norm(colours(file, box, values, style) - colours(file, box, values * 0, style), axis=2)
    left, top, right, _ = (round(edge) for edge in box)
    rows, columns = values.shape
    cell = (right - left) // columns  # pixels of the side of a cell, whole ones
    cells = apart[top : top + rows * cell, left : left + columns * cell].reshape(rows, cell, columns, cell)
    shares = (cells > LEAST_DIFFERENCE).mean((1, 3))
    order = spearmanr(cells.mean((1, 3)).ravel(), values.ravel()).statistic
    return float(shares.mean()), float((shares * values).sum() / values.sum()), float(order)


def colours(file: Path, box: Box, values: np.ndarray, style: Style) -> np.ndarray:
    """Return what is drawn of a map over a photograph, in CIELAB (height, width, 3)."""
    return rgb2lab(np.asarray(overlay(Image.open(file), box, [Panel("", values)], style, MAX_PIXELS)))
