"""Does attention say more than what stands out in a picture? `saliency`, which knows of no model, where truth is known.

Two of the models take grey pictures, whose saliency the service does not answer; here they have three equal channels.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benchmarks.quality import labels, measures, methods, objects
from benchmarks.quality.images import UNSEEN, Report
from benchmarks.quality.methods import Subject
from export.bundled import SOURCES
from export.plan import Source
from export.trained import trained
from model.architectures.two_towers import TwoTowers
from model.methods.saliency import Saliency
from train.data.handwritten_digits import scans
from train.data.scenes import scene
from train.recipes import clip, dino_scenes

SALIENCY, RANDOM = "saliency", "random"
CLASSLESS = ("raw", "rollout", "norm")
"""The methods of an embedding that is compared with none."""


def salient(source: Source, pixels: Tensor) -> np.ndarray:
    """Return the saliency (picture, patch) of the bytes that a model takes (picture, height, width, channels)."""
    kind = next(one for one in source.attention[::-1] if one.grid)
    assert kind.grid  # for the type checker
    defined = Saliency(*pixels.shape[1:3], kind.grid)
    coloured = pixels.double().permute(0, 3, 1, 2).expand(-1, 3, -1, -1)
    return torch.cat([defined(part) for part in coloured.split(methods.BATCH)]).numpy()


def salient_table(count: int, labelled: int, report: Report) -> dict:
    """Measure saliency on the pictures of the parts `objects` and `labels`, and on digits on grounds beside methods."""
    measured: dict[str, Callable[[], dict]] = {
        "scenes-detr": lambda: of_objects(count),
        "scenes-clip": lambda: of_labels(labelled),
        "scenes-dino": of_grounds,
    }
    found = {}
    for name, measure in measured.items():
        report(f"saliency, {name}")
        found[name] = measure()
    return found


def of_objects(count: int) -> dict:
    """Measure the objects that `scenes-detr` finds: is what stands out the one that is asked for?"""
    *_, held, digits = scans()
    generator = torch.Generator().manual_seed(objects.UNSEEN)
    source = SOURCES["scenes-detr"]()
    subject, evidence = objects.asked(source, [scene(held, digits, generator) for _ in range(count)])
    return {SALIENCY: _means(salient(source, subject.inputs[0]), evidence)}


def of_labels(count: int) -> dict:
    """Measure the digits that labels name, of two that are in each picture."""
    source, towers = SOURCES["scenes-clip"](), trained("scenes-clip", TwoTowers)
    drawn = clip.held_out(count, 2, UNSEEN)
    likely = clip.likeliest(towers, drawn, 2)
    subjects, evidence = labels.asked(
        towers, [one for one, found in zip(drawn, likely, strict=True) if found == set(one.things)]
    )
    return {SALIENCY: _means(salient(source, subjects[labels.ALONE].inputs[0]), evidence)}


def of_grounds() -> dict:
    """Measure saliency and methods of `scenes-dino` by the patches that hold ink, of digits anywhere on grounds."""
    source = SOURCES["scenes-dino"]()
    pictures, inked = dino_scenes.scenes(scans()[2].repeat(dino_scenes.HELD_SCENES, 1, 1, 1), dino_scenes.HELD_SEED)
    pixels = (pictures * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    subject = Subject((pixels,), (torch.zeros_like(pixels),), row=torch.zeros(len(pixels), dtype=torch.int64))
    maps = {SALIENCY: salient(source, pixels)}
    for method in (*CLASSLESS, RANDOM):
        maps[method] = methods.explain(source, method, subject)[:, source.attention[0].prefix :]
    return {name: _means(own, inked.numpy()) for name, own in maps.items()}


def _means(maps: np.ndarray, evidence: np.ndarray) -> dict:
    """Return what maps are worth, with the interval of pointing, and how many there are."""
    own = measures.located(maps, evidence)
    interval = measures.share_interval(int(own["pointing"].sum()), len(evidence))
    return {**{name: float(values.mean()) for name, values in own.items()}, "interval": interval, "count": len(maps)}
