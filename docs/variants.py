"""`python -m docs.variants`: train every variant with three seeds, compare them, and write docs/variants.md.

The weights of the first seed are bundled, each with a card.
"""

import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor, nn

from model.architectures.vit_variants import PLAIN, VARIANTS
from model.catalogue import BUNDLED, build
from model.methods import explanations
from model.weights import load_weights, save_weights
from train.data.handwritten_digits import pixels, scans
from train.recipes.digits import STEPS, read_right

HERE = Path(__file__).parent
FOLDER = HERE.parent / "build" / "variants"
"""What was trained, `<seed>/<name>`: the next run goes on from there."""
SEEDS = (0, 1, 2)
BATCH, PAIRS = 64, 15
"""Images of a forward pass that is timed, and how many pairs with the plain one."""
CELL = 112
"""Pixels of a picture's panel."""


def main() -> int:
    """Train what is missing, measure, write the page and its picture."""
    for seed in SEEDS:
        missing = [name for name in VARIANTS if not _weights(seed, name).exists()]
        if missing:
            command = [sys.executable, "-m", "train", *missing, "--seed", str(seed), "--to", FOLDER / str(seed)]
            subprocess.run(command, check=True, cwd=HERE.parent)  # noqa: S603 # our own command
    _, _, held, labels = scans()
    models = {name: [_trained(seed, name) for seed in SEEDS] for name in VARIANTS}
    rows = {name: [Figures(model, held, labels) for model in found] for name, found in models.items()}
    (HERE / "variants.md").write_text(_page(rows, _times(models, held)), encoding="utf-8")
    for name, found in models.items():
        _bundle(name, found[0], rows[name][0].accuracy, len(held))
    _picture({name: found[0] for name, found in models.items()}, held[:1], HERE / "pictures" / "variants.png")
    return 0


def _weights(seed: int, name: str) -> Path:
    return FOLDER / str(seed) / name / "model.safetensors"


def _trained(seed: int, name: str) -> nn.Module:
    module = build(name)
    load_weights(module, _weights(seed, name), name)
    return module


def _bundle(name: str, model: nn.Module, accuracy: float, count: int) -> None:
    folder = BUNDLED / name
    folder.mkdir(exist_ok=True)
    save_weights(model, folder / "model.safetensors", name)
    size = sum(parameter.numel() for parameter in model.parameters())
    text = CARD.format(
        name=name, words=VARIANTS[name].words.rstrip("."), size=_thousands(size), steps=STEPS[name],
        accuracy=f"{100 * accuracy:.2f}", right=round(accuracy * count), count=count,
    )  # fmt: skip
    (folder / "README.md").write_text(text, encoding="utf-8")


class Figures:
    """What one model is worth, and how its maps are, layer by layer, in the mean over held-out scans."""

    @torch.no_grad()
    def __init__(self, model: nn.Module, held: Tensor, labels: Tensor) -> None:
        self.accuracy = read_right(model, held, labels) / len(held)
        layers = _layers(model, pixels(held))
        places = torch.tensor([[(y + 0.5) * PLAIN.patch[0], (x + 0.5) * PLAIN.patch[1]]
                               for y in range(PLAIN.grid[0]) for x in range(PLAIN.grid[1])])  # fmt: skip
        self.distance = [float(explanations.distance(one, places, 1)[:, :, 1:].mean()) for one in layers]
        self.entropy = [float(explanations.entropy(one).mean()) for one in layers]
        fused = [one.mean(1).flatten(1) for one in layers]
        self.alike = [float(torch.cosine_similarity(*pair, dim=1).mean()) for pair in itertools.pairwise(fused)]


def _layers(model: nn.Module, seen: Tensor) -> list[Tensor]:
    """Return the maps of each block (batch, heads, token, token) as distributions; of several, their heads together."""
    _, maps = model(seen)
    blocks: dict[str, list[Tensor]] = {}
    for name, weights in maps.items():
        blocks.setdefault(".".join(name.split(".")[:3]), []).append(explanations.shares(weights))
    return [torch.cat(found, dim=1) for found in blocks.values()]


@torch.no_grad()
def _times(models: dict[str, list[nn.Module]], held: Tensor) -> dict[str, float]:
    """Return how long a forward pass takes, as a multiple of the plain one's: the median over pairs in turn."""
    seen, plain = pixels(held[:BATCH]), models["digits-plain"][0]
    times = {}
    for name, (model, *_) in models.items():
        pairs = []
        for _ in range(PAIRS):
            first, second = (_seconds(lambda one=one: one(seen)) for one in (plain, model))  # type: ignore[misc] # mypy cannot infer a lambda's default
            pairs.append(second / first)
        times[name] = statistics.median(pairs)
    return times


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _page(rows: dict[str, list[Figures]], times: dict[str, float]) -> str:
    counts = {name: sum(one.numel() for one in build(name).parameters()) for name in rows}
    plain = [one.accuracy for one in rows["digits-plain"]]
    better = [name for name, found in rows.items() if min(one.accuracy for one in found) > max(plain)]
    worse = [name for name, found in rows.items() if max(one.accuracy for one in found) < min(plain)]
    accuracies = "\n".join(
        f"| `{name}` | {VARIANTS[name].words} | {_thousands(counts[name])} |"
        f" {_mean([one.accuracy * 100 for one in found], 1)} | {times[name]:.2f} |"
        for name, found in rows.items()
    )
    by_layer = "\n".join(
        f"| `{name}` | {_by_layer([one.distance for one in found])} | {_by_layer([one.entropy for one in found])} |"
        f" {_by_layer([one.alike for one in found])} |"
        for name, found in rows.items()
    )
    return TEMPLATE.format(
        seeds=len(SEEDS), steps=STEPS["digits-plain"], layers=PLAIN.layers, width=PLAIN.width, heads=PLAIN.heads,
        grid=f"{PLAIN.grid[0]} x {PLAIN.grid[1]}", batch=BATCH, pairs=PAIRS, accuracies=accuracies, by_layer=by_layer,
        torch=torch.__version__.split("+")[0], better=_names(better), worse=_names(worse),
    )  # fmt: skip


def _thousands(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _mean(values: Sequence[float], digits: int) -> str:
    return f"{statistics.mean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def _by_layer(seeds: Sequence[Sequence[float]]) -> str:
    """Return the mean over seeds of each layer, and the largest difference between two seeds."""
    layers = list(zip(*seeds, strict=True))
    spread = max(max(one) - min(one) for one in layers)
    return " ".join(f"{statistics.mean(one):.2f}" for one in layers) + f" (± {spread / 2:.2f})"


@torch.no_grad()
def _picture(models: dict[str, nn.Module], field: Tensor, path: Path) -> None:
    """Draw the class token's map of the last block, all heads' mean, over the same digit."""
    columns = 7
    rows = -(-len(models) // columns)
    font = ImageFont.load_default(size=13)
    sheet = Image.new("RGB", (columns * (CELL + 12), rows * (CELL + 30)), "white")
    draw = ImageDraw.Draw(sheet)
    digit = Image.fromarray((nn.functional.interpolate(field, (CELL, CELL), mode="area")[0, 0] * 255).byte().numpy())
    for index, (name, model) in enumerate(models.items()):
        weights = _layers(model, pixels(field))[-1].mean(1)[0, 0, 1:].reshape(PLAIN.grid)
        scaled = (weights / weights.max() * 255).byte().numpy()
        heat = Image.fromarray(scaled).resize((CELL, CELL), Image.Resampling.BICUBIC)
        left, top = index % columns * (CELL + 12) + 6, index // columns * (CELL + 30) + 4
        panel = Image.merge("RGB", (heat, digit, digit.point(lambda value: value // 2)))
        sheet.paste(panel, (left, top))
        draw.text((left, top + CELL + 3), name.removeprefix("digits-"), "black", font)
    sheet.save(path)


CARD = """# {name}

{words}.

A small Vision Transformer that reads one handwritten digit, made to be compared with its like
([docs/variants.md](../../../docs/variants.md)). It takes the same pictures as [digits](../digits/README.md), whose
card says what they are trained on. {size} parameters.

**Trained** for {steps} steps of 60 images, seed 0: `python -m train {name}`.

**Measured** by the recipe: accuracy {accuracy} % ({right} of {count} held-out scans).
"""

TEMPLATE = """# Variants on the same digits

Written by `python -m docs.variants`, which trains what it does not find; nothing here is written by hand.

Every variant has the sizes of the plain one, {layers} layers of width {width} with {heads} heads over {grid}
patches and a class token, but for a hidden width chosen so that all have as many parameters, within one per cent.
Each is trained {seeds} times, with seeds of its own, by the recipe of `digits` cut to {steps} steps of 60 images:
a comparison of what learns at this size in this time, not of what the designs are worth at theirs. Accuracy is on
the 360 held-out scans, in per cent: the mean over seeds, and the least and the most.

| Name | What is different | Parameters | Accuracy | Time |
|---|---|---|---|---|
{accuracies}

*Time*: of a forward pass of {batch} images as a multiple of the plain one's, the median of {pairs} pairs taken in turn,
PyTorch {torch} on a CPU.

Every run above every run of the plain one: {better}. Every run below: {worse}. These are {seeds} runs each, and
one scan is 0.28 per cent; the runs of the other variants overlap with those of the plain one.

## How they look, layer by layer

In the mean over held-out scans, heads and tokens, then over seeds; after ± half the largest difference between two
seeds. *Distance*: how far from itself a patch looks, in pixels of 28. *Entropy*: of a row, in nats; that of a uniform
row of 17 is 2.83. *Alike*: the cosine between maps of one layer and the next, heads' mean, which rises as attention
collapses (Zhou et al. 2021). Rows that are no distributions (`digits-re-attention`) are taken as |a| over their sum; of
two attentions side by side (`digits-parallel`, which has half as many layers, and `digits-axial`) the heads are taken
together.

| Name | Distance | Entropy | Alike |
|---|---|---|---|
{by_layer}

## The same digit

Red is where the class token looks in the last layer, in the mean over heads.

![The class token's map of every variant on one digit](pictures/variants.png)

## On scenes

Three more designs have tasks of their own, on pictures with several digits or a ground; their cards have the figures.

![What a detector, a Swin and a DINO looked at](pictures/scenes.png)

| Name | What is different | Measured |
|---|---|---|
| `scenes-detr` | Objects are decoded all at once from learned queries (Carion et al. 2020, DETR). | AP 0.817, AP50 0.994 on 2000 held-out scenes; an object's cross-attention points at its box in 96 % (second of three layers), a random cell in 12 %; `libra` of its class in 99 % ([card](../model/bundled/scenes-detr/README.md)) |
| `scenes-swin` | Tokens look around in shifted windows, stage by stage (Liu et al. 2021, Swin). | 96.75 % of marked digits (a plain ViT after the same steps: 33.40 %); rollout through both stages points at the digit asked for in 98 %, a random cell in 9 % ([card](../model/bundled/scenes-swin/README.md)) |
| `scenes-dino` | Self-distillation of a digit on grounds that only the student sees (Caron et al. 2021, DINO; Ryali et al. 2021). | Rollout finds ink with AUROC 0.928 and points at it in 98 %, but the contrast within a patch, which nobody trained, is at 0.946 and 99 %: it is no segmentation ([card](../model/bundled/scenes-dino/README.md)) |

## Designs that others stand for

| Design | What stands in its place |
|---|---|
| RNN encoder-decoder (Cho et al. 2014), sequence to sequence (Sutskever et al. 2014) | `dates-plain`, which is trained and measured but not served: it attends to nothing. [bottleneck.md](bottleneck.md) shows what that costs. |
| ByteNet (Kalchbrenner et al. 2016) | Its decoder attends to nothing: it reads the state of the source at its own position. Its dilated convolutions are a size of the convolutional decoder, which attends (`dilations` in `model/architectures/convolutional.py`); `dates-convolutional` is trained without them. |
| Mixture of experts (Shazeer et al. 2017) | A gate chooses a feed-forward for each token, so there is no map of tokens onto tokens. A choice of that kind among tokens is `digits-hard`. |
| GNMT (Wu et al. 2016) | `dates-recurrent`: both are recurrent and look at the source by the attention of Bahdanau et al. (2015). GNMT has eight layers of LSTMs on each side where this has one of GRUs. |
| ELMo (Peters et al. 2018) | Its vectors of words are states of a recurrent language model, without attention. Vectors that depend on the text come from `embed` of every encoder of texts; `dates-recurrent` reads its source in both directions as ELMo does. |
| Spatial transformer (Jaderberg et al. 2015) | It looks at one part of a picture, which it cuts out by an affine map of its choice. `captions-soft` and `captions-hard` look at parts by weights, and `scenes-detr` says where each thing is by a box. |
| DRAW (Gregor et al. 2015) | It reads a picture glimpse by glimpse through a grid of Gaussian filters, to paint it anew. `captions-soft` reads one word by word through weights of its places. |
"""  # noqa: E501 # rows of a table


if __name__ == "__main__":
    sys.exit(main())
