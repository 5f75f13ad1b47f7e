"""What axial attention saves along lines, as the grid grows: `python -m benchmarks.axial`.

Predictions of a Vision Transformer whose layers look along rows and columns by turns, exported three times: with full
attention in their place, with full attention of which only a line is visible, and along lines. They run in turn on one
thread; ratios are medians of rounds. The last column is the size of the scores of one layer and image.
"""

import argparse
import dataclasses
import statistics
import time
from typing import cast

import numpy as np
import onnxruntime as ort
import torch
from torch import nn

from benchmarks.service import heading
from contract.input_rules import ImageRule
from export.graphs.editing.cleanup import clean
from export.graphs.tracing.torch_export import trace
from export.tasks.image import answer_along_lines, image_model
from export.traced.images import TracedViT
from model.architectures.vit import ViT, ViTConfig, vit
from model.parts.attention_variants import AxialAttention
from model.parts.blocks import PreNormBlock

PATCH, WIDTH, HEADS, LAYERS = 4, 64, 4, 4
SIDES = (4, 7, 10, 14, 28, 56)
"""Places of a grid, a side."""


def graphs(side: int) -> dict[str, tuple[ort.InferenceSession, int]]:
    """Return sessions by name, with the numbers of scores of one layer and image."""
    pixels = side * PATCH
    config = ViTConfig((pixels, pixels), 1, (PATCH, PATCH), WIDTH, LAYERS, HEADS, hidden=4 * WIDTH, classes=10)
    rule = ImageRule(height=pixels, width=pixels, channels=1, locate="middle", mean=(0.5,), std=(0.5,))
    tokens, places = 1 + side * side, side * side

    def session(model: ViT, *, by_lines: bool) -> ort.InferenceSession:
        source = image_model("axial", model, config, family="vit", task="image-classification", rule=rule, made_by={})
        plan = dataclasses.replace(source.base, outputs=source.base.outputs[:1], module=Answer(source.base.module))
        plan = answer_along_lines(plan, cast(TracedViT, source.traced)) if by_lines else plan
        graph = clean(trace(plan, source.traced_at), plan)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        return ort.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])

    attentions = [AxialAttention(WIDTH, HEADS, 1 - layer % 2, config.grid, prefix=1) for layer in range(LAYERS)]
    blocks = [PreNormBlock(attention, config.feed_forward(), config.norm) for attention in attentions]
    model = vit(config, blocks=blocks)
    return {
        "full": (session(vit(config), by_lines=False), HEADS * tokens * tokens),
        "masked": (session(model, by_lines=False), HEADS * tokens * tokens),
        "along lines": (session(model, by_lines=True), HEADS * (places * (side + 1) + tokens)),
    }


class Answer(nn.Module):
    """The answer of a base graph alone."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor]:
        """Take what the base takes; return its first output."""
        return (self.base(*inputs)[0],)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each row")
    parser.add_argument("--sides", type=int, nargs="+", default=SIDES, help="places of a grid, a side")
    given = parser.parse_args()
    print(heading("axial"))
    print("| grid | batch | full attention | masked | along lines | masked, times | along lines, times | scores |")
    print("|---|---|---|---|---|---|---|---|")
    for side in given.sides:
        made = graphs(side)
        for batch in (1, 8):
            row(side, batch, made, given.seconds)


def row(side: int, batch: int, made: dict[str, tuple[ort.InferenceSession, int]], seconds: float) -> None:
    """Print one row: milliseconds of each, ratios to the first, and the scores of one layer and image."""
    sessions = {name: session for name, (session, _) in made.items()}
    given = np.random.default_rng(0).integers(0, 256, (batch, side * PATCH, side * PATCH, 1), dtype=np.uint8)
    times: dict[str, list[float]] = {name: [] for name in sessions}
    end = time.perf_counter() + seconds
    while len(times["full"]) < 5 or time.perf_counter() < end:
        for name, session in sessions.items():
            start = time.perf_counter()
            session.run(None, {"pixels": given})
            times[name].append(time.perf_counter() - start)
    first, *others = (np.array(times[name][2:]) for name in sessions)
    milliseconds = " | ".join(f"{1e3 * statistics.median(times[name]):.2f}" for name in sessions)
    ratios = " | ".join(f"{np.median(one / first):.2f}" for one in others)
    sizes = " / ".join(f"{4e-6 * count:.2f}" for _, count in made.values())
    print(f"| {side} x {side} | {batch} | {milliseconds} | {ratios} | {sizes} MB |", flush=True)


if __name__ == "__main__":
    main()
