"""Faithfulness of a map: the probability of a class as the patches that the map names are deleted or inserted.

Samek et al. 2017; Petsiuk et al. 2018 (RISE, section 4.2). Beside each curve stands that of one random order with a
fixed seed: a map whose curve is no better explains nothing.
"""

import asyncio
from collections.abc import Sequence

import numpy as np

from service.arrays import Array, probabilities
from service.batching.admission import Priority
from service.concurrency import together
from service.inputs.image_inputs import ImageInputs
from service.inputs.model_input import Picture
from service.repository.predictor import Predictor
from service.repository.served_model import Prediction

STEPS = 10
"""Steps of a curve after its beginning. Each deletes or inserts an equal share of the patches."""
SEED = 0
ORDERS = 2
"""The map's order and the random one."""


def count_predictions(names: Sequence[str]) -> int:
    """Return how many predictions an evaluation of these curves takes."""
    return ORDERS * len(names) * (STEPS + 1)


async def evaluate(
    served: Predictor,
    picture: Picture,
    scores: Array,
    target: int,
    names: Sequence[str],
    digits: int,
    priority: Priority,
) -> dict[str, object]:
    """Return the curves of a map's scores (patch) and of a random order, for the probability of a class.

    Raises TypeError for a model that takes no images.
    """
    inputs, grid = served.inputs, served.manifest.attention[0].grid
    if not isinstance(inputs, ImageInputs) or grid is None:
        raise TypeError(f"{served.manifest.name}: must take images")
    orders = (np.argsort(-scores, kind="stable"), np.random.default_rng(SEED).permutation(len(scores)))
    found: list[Prediction] = []
    for name in names:
        for order in orders:
            curve = await asyncio.to_thread(perturbed, picture.pixels, grid, order, name)
            found += await together(served.predict(inputs.image_input(picture, pixels), priority) for pixels in curve)
    chances = np.array([probabilities(logits, served.manifest.scores)[target] for logits in found])
    curves = chances.reshape(len(names), ORDERS, STEPS + 1)
    areas = ((curves[..., 1:] + curves[..., :-1]) / 2).mean(-1).round(digits)
    return {
        "target": target,
        "fractions": (np.arange(STEPS + 1) / STEPS).round(3),
        "curves": [
            {
                "name": name,
                "probabilities": own.round(digits),
                "area": float(area),
                "random": {"seed": SEED, "probabilities": chance.round(digits), "area": float(least)},
            }
            for name, (own, chance), (area, least) in zip(names, curves, areas, strict=True)
        ],
    }


def perturbed(pixels: Array, grid: tuple[int, int], order: Array, name: str) -> list[Array]:
    """Return the image with more and more of its patches black, or black with more and more of its patches."""
    images = []
    for step in range(STEPS + 1):
        chosen = np.zeros(grid[0] * grid[1], np.bool_)
        chosen[order[: round(step / STEPS * len(order))]] = True
        mask = chosen.reshape(grid)
        for axis in (0, 1):
            mask = mask.repeat(pixels.shape[axis] // grid[axis], axis)
        images.append(np.where(mask[..., None] == (name == "insertion"), pixels, 0).astype(np.uint8))
    return images
