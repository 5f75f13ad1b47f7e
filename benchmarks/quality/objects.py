"""Objects whose places are known: which method points at a digit that `scenes-detr` found."""

from collections.abc import Callable

import numpy as np
import torch

from benchmarks.quality import measures, methods
from benchmarks.quality.methods import METHODS, REFERENCES, Subject
from export.plan import Source
from model.architectures.detector import SCENES_MEAN, SCENES_STD
from train.average_precision import overlap
from train.data.handwritten_digits import scans
from train.data.scenes import SIDE, Scene, on_box, scene
from train.recipes.scenes import THRESHOLD, tensors, to_corners

Report = Callable[[str], None]
UNSEEN = 2_000_003
"""The seed of the scenes."""
LEAST_OVERLAP = 0.5


def object_table(source: Source, count: int, report: Report) -> dict:
    """Measure, for every digit that is found rightly, how well each method points at its box.

    A cell is evidence if it touches the box. Raw and norm are of the cross-attention of the last layer; beside them
    stand the other layers.
    """
    *_, held, labels = scans()
    generator = torch.Generator().manual_seed(UNSEEN)
    subject, evidence = asked(source, [scene(held, labels, generator) for _ in range(count)])
    found = {}
    for method in (*METHODS, *REFERENCES):
        if methods.has(source, method):
            report(f"scenes-detr: {method}")
            found[method] = _means(methods.explain(source, method, subject), evidence)
    layers = len(source.attention[-1].maps)
    of_layers = {
        f"layer {layer}": _means(
            np.concatenate([methods.raw(source, part, layer).numpy() for part in subject.parts()]), evidence
        )
        for layer in range(layers)
    }
    return {"objects": len(subject), "cells": float(evidence.sum(1).mean()), "methods": found, "layers": of_layers}


def asked(source: Source, some: list[Scene]) -> tuple[Subject, np.ndarray]:
    """Return a subject for every digit that is found with its class and place, and the cells of its box."""
    pixels, digits, boxes = tensors(some)
    given = ((pixels * SCENES_STD + SCENES_MEAN).clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    with torch.no_grad():
        observed = source.traced.observe(given)
    chances, classes = observed.answer.softmax(-1)[..., :-1].max(-1)
    places = to_corners(observed.others[0])
    rows, evidence = [], []
    for image, (own, truth) in enumerate(zip(digits, boxes, strict=True)):
        for digit, box in zip(own.tolist(), to_corners(truth), strict=True):
            same = [
                number
                for number in range(classes.shape[1])
                if chances[image, number] >= THRESHOLD
                and classes[image, number] == digit
                and overlap(tuple(places[image, number].tolist()), tuple(box.tolist())) >= LEAST_OVERLAP
            ]
            if same:
                rows.append((image, same[0], digit))
                evidence.append([on_box(place, box * SIDE) for place in range(source.attention[-1].length)])
    image, number, digit = (torch.tensor(column) for column in zip(*rows, strict=True))
    inputs = (given[image],)
    subject = Subject(inputs, (torch.zeros_like(inputs[0]),), target=digit, position=number, row=number)
    return subject, np.array(evidence)


def _means(maps: np.ndarray, evidence: np.ndarray) -> dict[str, float]:
    return {name: float(values.mean()) for name, values in measures.located(maps, evidence).items()}
