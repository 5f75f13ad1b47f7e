"""What is measured on models of images: known truth, digits, and captions."""

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.quality import glyphs, judge, measures, methods, spots
from benchmarks.quality.methods import METHODS, REFERENCES, Subject
from export.plan import Source
from model.architectures.vit import vit
from model.catalogue import build, bundled
from model.weights import load_weights, save_weights
from train.data.handwritten_digits import SIDE, scans
from train.recipes import captions

Report = Callable[[str], None]
"""What takes a line of progress."""

ALL = (*METHODS, *REFERENCES)
UNSEEN = 10**6
"""The seed of held-out pictures, which no training draws from."""
SETTINGS = {
    "sigmoid, one": (glyphs.SIGMOID, 1),
    "sigmoid, two": (glyphs.SIGMOID, 2),
    "softmax, one": (glyphs.SOFTMAX, 1),
}
REINITIALISED = 3
"""Models of random weights that each map is compared with."""
COMPARED = 100
"""Pictures on which they are."""


def of_images(pixels: torch.Tensor, target: torch.Tensor) -> Subject:
    """Explain a class of each image; the baseline is black."""
    rows = torch.zeros(len(pixels), dtype=torch.int64)
    return Subject(inputs=(pixels,), baseline=(torch.zeros_like(pixels),), target=target, row=rows)


def patch_maps(source: Source, method: str, subject: Subject) -> np.ndarray:
    """Return the maps of patches, without the tokens before them."""
    return methods.explain(source, method, subject)[:, source.attention[0].prefix :]


# Known truth.


def known_truth(source: Source, drawn: glyphs.Pictures | spots.Spots, number: int) -> tuple[float, Subject, np.ndarray]:
    """Return the share of pictures answered rightly, and of these each figure that is there with its evidence.

    A picture with two figures is asked for each. For one of two by `softmax` there is no right answer.
    """
    with torch.no_grad():
        logits = torch.cat([source.traced.observe(part).answer for part in drawn.pixels.split(100)])
    there = drawn.present.bool()
    likely = logits > 0 if source.scores == glyphs.SIGMOID else logits >= logits.topk(number).values[:, -1:]
    right = (likely == there).all(1)
    picture, figure = (there & right[:, None]).nonzero().unbind(1)
    return (
        right.double().mean().item(),
        of_images(drawn.pixels[picture], figure),
        drawn.evidence[picture, figure].numpy(),
    )


def located(source: Source, subject: Subject, evidence: np.ndarray, wanted=ALL) -> dict[str, dict[str, float]]:
    """Return what the maps of each method are worth: pointing, mass and precision."""
    found = {}
    for method in wanted:
        own = measures.located(patch_maps(source, method, subject), evidence)
        found[method] = {name: float(values.mean()) for name, values in own.items()}
    return found


def likeness_to_random(
    source: Source, subject: Subject, fresh: Callable[[], Source], wanted=ALL, count: int = REINITIALISED
) -> dict[str, list[float]]:
    """Return the rank correlation of each method's maps with those of random weights (Adebayo et al. 2018, section 3).

    A number for each re-initialisation of the whole model, the mean over images. The deepest of the paper's cascade
    alone: there everything that was learned is gone.
    """
    trained = {method: patch_maps(source, method, subject) for method in wanted}
    found: dict[str, list[float]] = {method: [] for method in wanted}
    for seed in range(100, 100 + count):
        torch.manual_seed(seed)
        untrained = fresh()
        for method in wanted:
            own = patch_maps(untrained, method, subject)
            found[method].append(float(measures.rank_correlation(trained[method], own).mean()))
    return found


def glyph_reader(seed: int, scores: str, folder: Path) -> Source:
    """Return a trained reader of glyphs, from a file where it has been trained before."""
    file = folder / f"glyphs-{scores}-{seed}.safetensors"
    if file.exists():
        module = vit(glyphs.GLYPHS).eval()
        load_weights(module, file, "glyphs")
        return glyphs.reading(module, scores)
    source = glyphs.reader(seed, scores, label=f"glyphs, {scores}, seed {seed}")
    folder.mkdir(parents=True, exist_ok=True)
    save_weights(source.traced.model, file, "glyphs")
    return source


def glyph_tables(seeds: tuple[int, ...], folder: Path, count: int, report: Report) -> dict:
    """Measure all methods in each setting, a seed each; a model is trained where its weights are not in the folder."""
    found: dict = {name: {} for name in SETTINGS}
    for name, (scores, number) in SETTINGS.items():
        for seed in seeds:
            source = glyph_reader(seed, scores, folder)
            report(f"glyphs, {name}, seed {seed}")
            drawn = glyphs.pictures(count, torch.Generator().manual_seed(UNSEEN), number)
            right, subject, evidence = known_truth(source, drawn, number)
            found[name][str(seed)] = {
                "right": right,
                "asked": len(subject),
                "touched": float(evidence.sum(1).mean()),
                "methods": located(source, subject, evidence),
            }
            if number == 1:
                few = subject.at(slice(0, COMPARED))
                found[name][str(seed)]["random weights"] = likeness_to_random(
                    source, few, lambda scores=scores: glyphs.reading(vit(glyphs.GLYPHS).eval(), scores)
                )
    return found


def resting(source: Source, count: int, wanted=ALL) -> dict:
    """Measure the right answers to pictures of one glyph that are others without the glyph: the rest do not rest on it.

    A model that takes one class for granted unless it sees another need not look for its glyph.
    """
    drawn, without = (glyphs.pictures(count, torch.Generator().manual_seed(UNSEEN), number) for number in (1, 0))

    def answers(pixels: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            logits = torch.cat([source.traced.observe(part).answer for part in pixels.split(100)])
        return logits > 0 if source.scores == glyphs.SIGMOID else F.one_hot(logits.argmax(1), logits.shape[1]) > 0

    there = drawn.present.bool()
    right, still = (answers(drawn.pixels) == there).all(1), (answers(without.pixels) & there).any(1)
    counted = right & ~still
    none = answers(glyphs.pictures(count, torch.Generator().manual_seed(UNSEEN + 1), 0).pixels).double().mean(0)
    subject = of_images(drawn.pixels[counted], drawn.present.argmax(1)[counted])
    return {
        "resting": float(counted.sum() / right.sum()),
        "granted": max(zip(none.tolist(), glyphs.NAMES, strict=True)),
        "methods": located(source, subject, drawn.evidence[there][counted].numpy(), wanted),
    }


def resting_tables(seeds: tuple[int, ...], folder: Path, count: int, report: Report) -> dict:
    """Measure them in both settings with one glyph."""
    found: dict = {"sigmoid, one": {}, "softmax, one": {}}
    for name, own in found.items():
        for seed in seeds:
            report(f"answers that rest on the glyph, {name}, seed {seed}")
            own[str(seed)] = resting(glyph_reader(seed, SETTINGS[name][0], folder), count)
    return found


def spot_tables(seeds: tuple[int, ...], count: int, report: Report) -> dict:
    """Measure all methods on spots."""
    found: dict = {name: {} for name in SETTINGS}
    for seed in seeds:
        trained = {scores: spots.spotter(seed, scores) for scores in (glyphs.SIGMOID, glyphs.SOFTMAX)}
        for name, (scores, number) in SETTINGS.items():
            report(f"spots, {name}, seed {seed}")
            drawn = spots.spots(count, torch.Generator().manual_seed(UNSEEN), number)
            right, subject, evidence = known_truth(trained[scores], drawn, number)
            found[name][str(seed)] = {"right": right, "methods": located(trained[scores], subject, evidence)}
    return found


# Digits.


def held_digits(count: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return held-out scans as pixels (batch, 28, 28, 1), and what they are."""
    _, _, held, labels = scans()
    pixels = F.interpolate(held[:count], (SIDE, SIDE), mode="area") * 255
    return pixels.round().to(torch.uint8).permute(0, 2, 3, 1), labels[:count]


def brightness(pixels: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Return the mean brightness of each patch (image, patch), which knows nothing of a model."""
    rows, columns = grid
    light = pixels.reshape(len(pixels), rows, pixels.shape[1] // rows, columns, -1).mean((2, 4))
    return light.reshape(len(pixels), -1)


def digit_curves(source: Source, count: int | None = None, wanted=ALL) -> dict[str, dict[str, np.ndarray]]:
    """Return the areas of deletion and insertion of held-out digits, each for the class that it is taken for."""
    pixels, _ = held_digits(count)

    @torch.no_grad()
    def logits(given: torch.Tensor) -> torch.Tensor:
        return torch.cat([source.traced.observe(part).answer for part in given.split(120)])

    target = logits(pixels).argmax(1)

    def predict(given: np.ndarray) -> np.ndarray:
        chances = logits(torch.from_numpy(given)).softmax(1)
        return chances.gather(1, target[:, None])[:, 0].numpy()

    subject, grid = of_images(pixels, target), source.attention[0].grid
    assert grid
    scores = {method: patch_maps(source, method, subject) for method in wanted}
    scores["brightness"] = brightness(pixels.numpy(), grid)
    return measures.curve_areas(predict, pixels.numpy(), grid, scores)


def digit_table(source: Source, report: Report) -> dict:
    """Measure all methods on all held-out scans: areas with intervals, and those of the difference from rollout."""
    report("digits, deletion and insertion")
    areas = digit_curves(source)
    found: dict = {"scans": len(areas["raw"]["deletion"]), "methods": {}}
    for method, own in areas.items():
        found["methods"][method] = {
            name: {
                "area": measures.interval(values),
                "less rollout": measures.interval(values - areas["rollout"][name]),
            }
            for name, values in own.items()
        }
    report("digits, random weights")
    pixels, labels = held_digits(COMPARED)

    def fresh() -> Source:
        traced = copy.deepcopy(source.traced)
        traced.model = build("digits")
        return dataclasses.replace(source, traced=traced)

    found["random weights"] = likeness_to_random(source, of_images(pixels, labels), fresh)
    return found


# Captions.


def caption_table(report: Report) -> dict:
    """Measure the words of captions whose hottest cell touches their digit, by `raw`, the only method there."""
    *_, held, labels = scans()
    found = {}
    for name in ("captions-soft", "captions-hard"):
        report(name)
        generator = torch.Generator().manual_seed(1_000_003)
        drawn = captions.scenes(held, labels, generator, captions.HELD_SCENES)
        right, on, words = captions.measure(bundled(name), drawn)
        found[name] = {"scenes": len(drawn), "right": right, "words": words, "on": on}
    return found


# The judge from outside.


def judged(folder: Path, count: int, report: Report) -> dict:
    """Let Quantus measure the maps of the first seed, sigmoid, one glyph."""
    report("Quantus")
    source = glyph_reader(0, glyphs.SIGMOID, folder)
    drawn = glyphs.pictures(count, torch.Generator().manual_seed(UNSEEN), 1)
    _, subject, evidence = known_truth(source, drawn, 1)
    maps = {method: patch_maps(source, method, subject) for method in ALL}
    return judge.judged(subject.inputs[0].numpy(), glyphs.GLYPHS.patch, evidence, maps)
