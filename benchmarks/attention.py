"""What attention costs beside predictions, at the shape of ViT-B/16 with random weights: `make bench-attention`.

In one process, pairs alternate: a prediction, then the same input with attention; the median of their ratios counts.
Predictions are timed on the graph of predictions, and on the graph of attention when it is asked for nothing.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.service import heading
from contract.artifact import read_artifact
from contract.input_rules import ImageRule
from contract.manifest import BASELINE
from export.pipeline import export
from export.tasks.image import image_model
from model.architectures.vit import VIT_SIZES, vit
from service.explanations.query import resolve
from service.options.attention import AttentionOptions
from service.options.base import parse
from service.repository.models.graph_controls import controls_of
from service.repository.models.served_model import GRADIENT_DIVISOR
from service.runtime.session import Session, choose_device, open_sessions
from service.settings import Settings

TARGETS = {
    "rollout": ({"method": "rollout"}, 1.15),
    "raw, class token, last layer": ({}, 1.15),
    "raw, class token, all layers and heads": ({"layers": "all", "heads": "all"}, 1.15),
    "raw, every weight": ({"layers": "all", "heads": "all", "queries": "all"}, 1.25),
    "norm, last layer": ({"method": "norm"}, 1.35),
    "norm, all layers": ({"method": "norm", "layers": "all", "queries": "all"}, 1.35),
    "raw and diagnostics": ({"diagnostics": True}, None),
    "relevance": ({"method": "relevance"}, 2.5),
    "libra": ({"method": "libra"}, 2.2),
    "integrated, 16 steps": ({"method": "integrated"}, 40),
}
STEPS = 16
"""The points of integrated gradients between the baseline and the input; both ends are computed too."""


def drawn(config):
    """Return a ViT with random weights, sharp enough that attention is not uniform and pictures differ."""
    torch.manual_seed(0)
    model = vit(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=1.5 / parameter.shape[1] ** 0.5)
    return model


def make(folder, name):
    """Export a ViT of that size."""
    config = VIT_SIZES[name]
    model = drawn(config)
    height, width = config.image
    rule = ImageRule(height=height, width=width, channels=3, locate="middle", mean=(0.5,) * 3, std=(0.5,) * 3)
    source = image_model(
        name.replace("_", "-"), model, config, family="vit", task="image-classification", rule=rule, made_by={}
    )
    return read_artifact(export(source, "1", Path(folder)))


def seconds(run):
    """Return how long a call took."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def explaining(manifest, pixels, settings):
    """Return the inputs of each graph that explains a score, one after the other as the service runs them."""
    kind, batch = manifest.attention[0], len(pixels)
    given = {"pixels": pixels, "explained": np.zeros(batch, np.int64), "against": np.full(batch, -1)}
    rows = {"rows": np.zeros((batch, 1), np.int64), f"{kind.name}.layers": np.arange(len(kind.maps))}
    points = np.array([*((np.arange(STEPS) + 0.5) / STEPS), 1, 0], np.float32)
    path = {name: np.repeat(array, len(points), axis=0) for name, array in given.items()} | {
        "point": np.tile(points, batch),
        "blank": np.ones(batch * len(points), np.float32),
        f"{BASELINE}pixels": np.zeros((batch * len(points), *pixels.shape[1:]), np.uint8),
    }
    map_bytes = 4 * len(kind.maps) * kind.heads * kind.length**2
    at_once = max(settings.batch_map_bytes // GRADIENT_DIVISOR // map_bytes, 1)
    starts = range(0, batch * len(points), at_once)
    return {
        "relevance": [given | rows],
        "libra": [given],
        "integrated": [{name: array[start : start + at_once] for name, array in path.items()} for start in starts],
    }


def measure(artifact, batch, rounds, device, settings):
    """Print a row a method."""
    manifest = artifact.manifest
    kind, rule = manifest.attention[0], manifest.image
    tokens = kind.length
    pixels = np.random.default_rng(0).integers(0, 256, (batch, rule.height, rule.width, rule.channels), np.uint8)
    special = {"image": np.zeros((batch, tokens), bool)}
    explained = explaining(manifest, pixels, settings)
    sessions = open_sessions(artifact, ("predict", "attention", *explained), device, settings)
    sessions["predict"] = Session(artifact, "predict", device, settings)  # on a graph that knows of nothing else

    def controls(options):
        query, lengths = resolve(parse(AttentionOptions, options, strings=False), manifest), {"image": tokens}
        return {"pixels": pixels, **controls_of(query, lengths).feed(lengths, special)}

    nothing = controls({}) | {f"{kind.name}.rows": np.zeros(0, np.int64)}
    for name, (options, target) in TARGETS.items():
        role = options["method"] if options.get("method") in explained else "attention"
        feeds = explained.get(role) or [controls(options)]
        plain, same = [], []
        for _ in range(rounds + 1):
            alone = seconds(lambda: sessions["predict"].run({"pixels": pixels}))
            idle = seconds(lambda: sessions["attention"].run(nothing))
            asked = seconds(lambda: [sessions[role].run(feed) for feed in feeds])  # noqa: B023 # called at once
            plain.append((alone, asked / alone))
            same.append(asked / idle)
        base = statistics.median(time for time, _ in plain[1:])
        ratios = sorted(ratio for _, ratio in plain[1:])
        spread = f"{ratios[len(ratios) // 4]:.2f} to {ratios[-1 - len(ratios) // 4]:.2f}"
        limit = f"{target:.2f}x" if target else ""
        print(
            f"| {name} | {batch} | {base * 1000:.0f} | {statistics.median(ratios):.2f}x | {spread} "
            f"| {statistics.median(same[1:]):.2f}x | {limit} |",
            flush=True,
        )


def main():
    """Export, measure and print a section for benchmarks/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="vit_b_16", choices=VIT_SIZES)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    arguments = parser.parse_args()
    device, settings = choose_device("auto"), Settings()
    with tempfile.TemporaryDirectory() as folder:
        artifact = make(folder, arguments.size)
        print(heading("make bench-attention"))
        print(f"{arguments.size}, {device}, {arguments.rounds} rounds a row\n")
        print(
            "| attention | batch | prediction, ms | of a prediction | middle half "
            "| of the same session, asked nothing | target |"
        )
        print("|---|---|---|---|---|---|---|")
        for batch in arguments.batches:
            measure(artifact, batch, arguments.rounds, device, settings)


if __name__ == "__main__":
    main()
