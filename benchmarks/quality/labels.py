"""Labels whose truth is known: which method points at the digit that a label names, of two that are in the picture."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.quality import measures, methods
from benchmarks.quality.images import ALL, UNSEEN, Report
from benchmarks.quality.methods import Subject
from export.paired import two_towers
from export.trained import trained
from model.architectures.two_towers import TWO_TOWERS_SIZES, TwoTowers
from model.catalogue import build
from model.vocabularies import PAD
from model.weights import load_weights, save_weights
from train.data.coloured import SIDE, ColouredScene, label_of
from train.data.scenes import on_box
from train.fit import Run
from train.recipes import clip

PATCH = TWO_TOWERS_SIZES["scenes-clip"].image.patch

ALONE, AGAINST = "alone", "against the other"
"""What is explained of a label: its cosine, or how much larger it is than that of the other thing's label."""


def label_tables(folder: Path, count: int, report: Report) -> dict:
    """Measure `scenes-clip`, and the same trained without labels whose colours are swapped.

    The latter is trained where its weights are not in the folder.
    """
    return {
        "with": label_table(trained("scenes-clip", TwoTowers), count, report),
        "without": label_table(without_swaps(folder), count, report),
    }


def without_swaps(folder: Path) -> TwoTowers:
    """Return towers that were trained without labels whose colours are swapped."""
    file, module = folder / "labels.safetensors", build("scenes-clip")
    assert isinstance(module, TwoTowers)  # for the type checker
    if file.exists():
        load_weights(module, file, "scenes-clip")
        return module
    made, _ = clip.train("scenes-clip", Run(clip.STEPS["scenes-clip"]), swaps=False)
    folder.mkdir(parents=True, exist_ok=True)
    save_weights(made, file, "scenes-clip")
    return without_swaps(folder)


def label_table(towers: TwoTowers, count: int, report: Report, wanted: Sequence[str] = ALL) -> dict:
    """Measure how well the digit is pointed at that a label names, in pictures of two whose labels are the likeliest.

    A patch is evidence if it touches the digit's box.
    """
    drawn, source = clip.held_out(count, 2, UNSEEN), two_towers(towers)
    likely = clip.likeliest(towers, drawn, 2)
    right = [one for one, found in zip(drawn, likely, strict=True) if found == set(one.things)]
    subjects, evidence = asked(towers, right)
    above, apart = clip.over_swapped(towers, drawn)
    found: dict = {
        "right": len(right) / len(drawn),
        "over swapped": above / apart,
        "labels": len(evidence),
        "patches": float(evidence.sum(1).mean()),
        "methods": {},
    }
    for method in wanted:
        report(f"labels, {method}")
        maps = {
            name: methods.explain(source, method, subject)[:, source.attention[0].prefix :]
            for name, subject in subjects.items()
        }
        found["methods"][method] = {name: _means(own, evidence) for name, own in maps.items()}
    return found


def asked(towers: TwoTowers, scenes: Sequence[ColouredScene]) -> tuple[dict[str, Subject], np.ndarray]:
    """Ask for both things of each scene: return the subjects by ALONE and AGAINST, and the patches of each thing."""
    things = [thing for one in scenes for thing in one.things]
    others = [thing for one in scenes for thing in reversed(one.things)]
    tokens = clip.tokens_of([label_of([thing]) for thing in (*things, *others)])
    with torch.no_grad():
        own, other = towers.unit(towers.text(tokens, tokens != PAD)[0]).chunk(2)
    inputs = clip.bytes_of(scenes).repeat_interleave(2, 0)
    subjects = {
        name: Subject(
            (inputs,), (torch.zeros_like(inputs),), other=towers.unit(vectors), row=torch.zeros(len(inputs)).long()
        )
        for name, vectors in ((ALONE, own), (AGAINST, own - other))
    }
    (patch, _), places = PATCH, range((SIDE // PATCH[0]) ** 2)
    return subjects, np.array([[on_box(at, box, patch, SIDE) for at in places] for one in scenes for box in one.boxes])


def _means(maps: np.ndarray, evidence: np.ndarray) -> dict:
    own = measures.located(maps, evidence)
    interval = measures.share_interval(int(own["pointing"].sum()), len(evidence))
    return {**{name: float(values.mean()) for name, values in own.items()}, "interval": interval}
