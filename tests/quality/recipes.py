"""Models whose evidence is known exactly, trained in seconds, and how far the maps of them are from it.

`python -m tests.quality.recipes spots --seeds 0 1 2` trains, measures and prints; also `reversal`, and `digits` and
`dates`, which are the bundled models.
"""

import argparse
import contextlib
import datetime
import io
import itertools
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime as ort
import torch
from torch import Tensor
from torch.nn import functional as F

from contract.artifact import read_artifact
from contract.manifest import FUSIONS, GRAPH_METHODS, Generation, ImageRule, TextRule
from export.bundled import SOURCES
from export.checks import reference
from export.pipeline import export
from export.tasks.generation import text_to_text
from export.tasks.image import image_model
from model.transformer import PRE_NORM, StackSizes, TransformerConfig, vaswani
from model.vit import ViTConfig, vit
from model.vocabularies import END, PAD, START, encode
from service.arrays import probabilities
from service.repository.faithfulness import SEED, perturbed
from train.data.handwritten_digits import SIDE, scans
from train.data.written_dates.examples import held_out
from train.data.written_dates.spelling import MONTHS
from train.fit import Run, fit
from train.recipes.dates import tensors

METHODS = ("relevance", "rollout", "raw", "norm")


# Spots: which colours have a texture, among patches of all colours that have none.

COLOURS = torch.tensor([[200, 90, 90], [90, 200, 90], [90, 90, 200], [190, 190, 80]])
SPOTS = ViTConfig((24, 24), 3, patch=(4, 4), width=32, layers=2, heads=4, hidden=64, classes=len(COLOURS))
MOST = 2
"""Textured patches of an image."""
SIGMOID, SOFTMAX = "sigmoid", "softmax"


class Spots(NamedTuple):
    """Images and their evidence."""

    pixels: Tensor  # (batch, height, width, 3), uint8
    present: Tensor  # (batch, colour): 1 where a patch of the colour is textured
    places: Tensor  # (batch, colour): that patch, or -1


def spots(count: int, generator: torch.Generator, textured: int | None = None) -> Spots:
    """Draw images of 6 x 6 patches, of which one or two have a texture, each in another colour."""
    rows, columns = SPOTS.grid
    patches, (high, wide) = rows * columns, SPOTS.patch
    colours = torch.randint(len(COLOURS), (count, patches), generator=generator)
    where = torch.rand(count, patches, generator=generator).argsort(1)[:, :MOST]
    which = torch.rand(count, len(COLOURS), generator=generator).argsort(1)[:, :MOST]
    number = torch.randint(1, MOST + 1, (count,), generator=generator)
    there = torch.arange(MOST) < (number if textured is None else torch.full((count,), textured))[:, None]
    colours.scatter_(1, where, which)
    rough = torch.zeros(count, patches).scatter_(1, where, there.float())[:, :, None, None, None]
    board = (torch.arange(high)[:, None] + torch.arange(wide)) % 2 * 100.0 - 50  # bright and dark, of the same mean
    tone = torch.randn(count, patches, 1, 1, 1, generator=generator) * 12
    grain = torch.randn(count, patches, high, wide, 1, generator=generator) * 4
    image = COLOURS[colours][:, :, None, None] + tone + grain + rough * board[..., None]
    image = image.reshape(count, rows, columns, high, wide, 3).transpose(2, 3).reshape(count, *SPOTS.image, 3)
    return Spots(
        image.round().clamp(0, 255).to(torch.uint8),
        torch.zeros(count, len(COLOURS)).scatter_(1, which, there.float()),
        torch.full((count, len(COLOURS)), -1).scatter_(1, which, torch.where(there, where, -1)),
    )


def spotter(seed: int, scores: str = SIGMOID, steps: int = 300):
    """Train a ViT to say which colours have a texture, each for itself, or by `softmax` the only one that has."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    module = vit(SPOTS)

    def loss() -> Tensor:
        drawn = spots(64, generator, None if scores == SIGMOID else 1)
        logits, _ = module(normalized(drawn.pixels))
        if scores == SIGMOID:
            return F.binary_cross_entropy_with_logits(logits, drawn.present)
        return F.cross_entropy(logits, drawn.present)

    fit(module, loss, Run(steps), rate=3e-3, label="spots")
    return spotting(module, scores)


def spotting(module, scores: str = SIGMOID):
    """Plan what is exported of a model of spots."""
    return image_model(
        "spots",
        module,
        SPOTS,
        family="vit",
        task="image-classification",
        rule=ImageRule(height=24, width=24, channels=3, locate="middle", resize=24, mean=(0.5,) * 3, std=(0.25,) * 3),
        made_by={},
        labels=("red", "green", "blue", "yellow"),
        scores=scores,
    )


def normalized(pixels: Tensor) -> Tensor:
    """Bytes to what the model takes, as its graphs do."""
    return ((pixels / 255 - 0.5) / 0.25).permute(0, 3, 1, 2)


# Reversal: token i of the target is token n - 1 - i of the source.

LENGTHS = (4, 10)
TOKENS = 10
STACK = StackSizes(layers=2, heads=4, hidden=128)
REVERSAL = TransformerConfig(END + 1 + TOKENS, length=16, width=64, encoder=STACK, decoder=STACK)


def reversals(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw sources (batch, 11), targets (batch, 12), and for each target token behind the start its source or -1."""
    length = torch.randint(LENGTHS[0], LENGTHS[1] + 1, (count, 1), generator=generator)
    tokens = torch.randint(END + 1, REVERSAL.vocabulary, (count, LENGTHS[1] + 1), generator=generator)
    place = torch.arange(LENGTHS[1] + 1)

    def ended(tokens: Tensor) -> Tensor:
        return torch.where(place < length, tokens, torch.where(place == length, END, PAD))

    gold = torch.where(place < length, length - 1 - place, -1)
    target = ended(tokens.gather(1, gold.clamp(min=0)))
    return ended(tokens), torch.cat((torch.full((count, 1), START), target), dim=1), gold


def reverser(seed: int, steps: int = 400):
    """Train an encoder-decoder to reverse."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    module = vaswani(REVERSAL, PRE_NORM)

    def loss() -> Tensor:
        source, target, _ = reversals(96, generator)
        logits, _ = module(source, source != PAD, target[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)

    fit(module, loss, Run(steps), rate=3e-3, label="reversal")
    return text_to_text(
        "reversal",
        module,
        REVERSAL,
        family="transformer",
        text=TextRule(tokenizer="tokenizer.json", max_tokens=16),
        tokenizer="",
        rules=Generation(start=START, end=END, max_new_tokens=12, caches=(), memory=()),
        made_by={},
    )


# Dates whose year and day stand in the source as they do in the answer, each digit once.


def plain_dates(count: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Draw held-out dates as `reversals` does; month and dashes of the answer are in no place of the source."""
    rng = random.Random(seed)
    first, last = datetime.date(1930, 1, 1).toordinal(), datetime.date(2060, 1, 1).toordinal()
    every = (datetime.date.fromordinal(day) for day in range(first, last))
    known = [date for date in every if held_out(date) and date.day > 9 and len(set(f"{date.year}{date.day}")) == 6]
    forms = ("{0.day} {1} {0.year}", "{1} {0.day}, {0.year}", "the {0.day}th of {1} {0.year}", "{0.year}, {1} {0.day}")
    drawn = rng.sample(known, count)
    texts = [rng.choice(forms).format(date, MONTHS[date.month]) for date in drawn]
    source, target = tensors([(encode(text), date.isoformat()) for text, date in zip(texts, drawn, strict=True)])
    gold = torch.full((count, target.shape[1] - 1), -1)
    for row, (text, date) in enumerate(zip(texts, drawn, strict=True)):
        for index in (0, 1, 2, 3, 8, 9):
            gold[row, index] = text.index(date.isoformat()[index])
    return source, target, gold


# Maps, as the service asks the graphs for them.


class Graphs:
    """The graphs of an artifact."""

    def __init__(self, folder: Path) -> None:
        self.manifest = read_artifact(folder).manifest
        self.kinds = self.manifest.attention
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self.sessions = {
            role: ort.InferenceSession(folder / graph.file, options, providers=["CPUExecutionProvider"])
            for role, graph in self.manifest.graphs.items()
        }

    def run(self, role, feed):
        """Return the answer, and the maps by kind."""
        names = ["logits", *([] if role == "predict" else [kind.kind for kind in self.explained(role)])]
        return dict(zip(names, self.sessions[role].run(names, feed), strict=True))

    def explained(self, role):
        """Return the kinds that a graph returns."""
        return [kind for kind in self.kinds if role != "relevance" or "relevance" in kind.methods]


class Definition(Graphs):
    """What the graphs of a source would return: the definition that each is verified against when it is exported."""

    def __init__(self, source) -> None:
        self.source, self.traced, self.kinds = source, source.traced, source.attention

    def run(self, role, feed):
        """As above."""
        feed = {name: torch.as_tensor(value) for name, value in feed.items()}
        inputs = [feed.pop(port.name) for port in self.source.base.inputs]
        with torch.no_grad():
            observed = self.traced.observe(*inputs)
            found = reference.attention_outputs(self.traced, observed, feed, None)[::2] if role == "attention" else []
        if role == "relevance":
            found = reference.relevance(self.traced, inputs, feed)
        names = [kind.kind for kind in self.explained(role)]
        maps = {name: one.numpy() for name, one in zip(names, found, strict=role != "predict")}
        return {"logits": observed.answer.numpy(), **maps}


def read(graphs, inputs, method, kind="encoder", rows=(0,)):
    """Return (batch, layer, row, key), heads fused by their mean; of rollout there is one layer."""
    feed = {"method": GRAPH_METHODS.index(method), "fusion": FUSIONS.index("mean"), "diagnose": False}
    feed = {name: np.array(value) for name, value in feed.items()}
    for one in graphs.kinds:
        wanted = one.kind == kind
        special = inputs["source"] if one.key == "source" else inputs.get("target", inputs.get("pixels"))
        length = one.prefix + one.grid[0] * one.grid[1] if one.grid else special.shape[1]
        feed[f"{one.kind}.layers"] = np.arange(len(one.maps) if wanted else 1)
        feed[f"{one.kind}.rows"] = np.array(rows if wanted else (), np.int64)
        feed[f"{one.kind}.heads"] = np.arange(0)
        if "rollout" in one.methods:
            feed[f"{one.kind}.discard"] = np.array(0)
        feed[f"{one.kind}.special"] = np.zeros((len(special), length), np.bool_)
    return graphs.run("attention", {**inputs, **feed})[kind][:, 0]


def patch_maps(graphs, pixels, method, target):
    """Return the class token's row (batch, patch), its prefix left out; of raw and norm, that of the last layer."""
    (kind,) = graphs.kinds
    if method != "relevance":
        return read(graphs, {"pixels": pixels}, method)[:, -1, 0, kind.prefix :]
    asked = {"explained": target, "rows": np.zeros((len(pixels), 1), np.int64)}
    asked["encoder.layers"] = np.arange(len(kind.maps))
    return graphs.run("relevance", {"pixels": pixels, **asked})["encoder"][:, 0, kind.prefix :]


# Measures.


def pointing(graphs, textured: int, count: int = 300):
    """Return the share of images answered rightly and, a method, the share of their spots that the hottest patch is.

    An image with two is asked for each of its colours.
    """
    pixels, present, places = (one.numpy() for one in spots(count, torch.Generator().manual_seed(10**6), textured))
    logits = graphs.run("predict", {"pixels": pixels})["logits"]
    likely = np.sort(logits)[:, -textured, None]
    right = ((logits >= likely) == present).all(1)
    if graphs.manifest.scores == SIGMOID:
        right = ((logits > 0) == present).all(1)
    image, colour = np.nonzero((places >= 0) & right[:, None])
    shares = {
        method: (patch_maps(graphs, pixels[image], method, colour).argmax(1) == places[image, colour]).mean()
        for method in METHODS
    }
    return right.mean(), shares


def likeness_to_random(graphs, seeds: Sequence[int], count: int = 200):
    """Return, a re-initialisation, the rank correlation of its relevance with the trained one, mean over images."""
    pixels, _, places = (one.numpy() for one in spots(count, torch.Generator().manual_seed(10**6), 1))
    colour = places.argmax(1)
    trained = ranks(patch_maps(graphs, pixels, "relevance", colour))
    found = []
    for seed in seeds:
        torch.manual_seed(seed)
        fresh = Definition(spotting(vit(SPOTS).eval()))
        found.append((trained * ranks(patch_maps(fresh, pixels, "relevance", colour))).sum(1).mean())
    return np.array(found)


def ranks(maps):
    """Return ranks (batch, patch) of mean 0 and length 1."""
    order = maps.argsort(1).argsort(1) - (maps.shape[1] - 1) / 2
    return order / np.linalg.norm(order, axis=1, keepdims=True)


def alignment(graphs, source, target, gold):
    """Return the share of answers that are exact, and of them the share of tokens whose hottest source is wrong.

    A method and which row is read, that which emits a token or that to which it is the input: each layer, and the mean
    of layers last.
    """
    inputs = {"source": source.numpy(), "source_visible": (source != PAD).numpy(), "target": target[:, :-1].numpy()}
    wanted = target[:, 1:].numpy()
    logits = graphs.run("predict", inputs)["logits"]
    exact = ((logits.argmax(-1) == wanted) | (wanted == PAD)).all(1)
    inputs = {name: values[exact] for name, values in inputs.items()}
    wanted, gold = wanted[exact], gold.numpy()[exact, :-1]  # no token behind the last is fed
    asked = gold >= 0
    length = gold.shape[1]

    def wrong(maps):
        return float((maps.argmax(-1) != gold)[asked].mean())

    found = {}
    for method in ("raw", "norm"):
        maps = read(graphs, inputs, method, "cross", range(length + 1))
        for row, shift in (("emit", 0), ("input", 1)):
            layers = maps[:, :, shift : shift + length]
            found[method, row] = [*(wrong(layers[:, one]) for one in range(maps.shape[1])), wrong(layers.mean(1))]
    maps = np.zeros((*gold.shape, source.shape[1]))
    for place in np.nonzero(asked.any(0))[0]:
        explained = {"explained": wanted[:, place], "position": np.full(len(wanted), place)}
        maps[:, place] = graphs.run("relevance", {**inputs, **explained})["cross"][:, 0]
    found["relevance", "emit"] = [wrong(maps)]
    return exact.mean(), found


def curves(graphs, pixels, target):
    """Return the areas of deletion and insertion, an image, as the service evaluates them: a method, and its random
    order; and by the brightness of patches, which knows nothing of the model.
    """
    grid = rows, columns = graphs.kinds[0].grid
    light = pixels.reshape(len(pixels), rows, pixels.shape[1] // rows, columns, -1).mean((2, 4))
    scores = {method: patch_maps(graphs, pixels, method, target) for method in METHODS}
    scores["brightness"] = light.reshape(len(pixels), -1)
    orders = {name: np.argsort(-score, axis=1, kind="stable") for name, score in scores.items()}
    orders["random"] = [np.random.default_rng(SEED).permutation(rows * columns)] * len(pixels)
    areas = {}
    for (method, order), name in itertools.product(orders.items(), ("deletion", "insertion")):
        images = [perturbed(image, grid, one, name) for image, one in zip(pixels, order, strict=True)]
        logits = graphs.run("predict", {"pixels": np.concatenate(images)})["logits"]
        chances = np.array([probabilities(one, graphs.manifest.scores) for one in logits])
        chances = chances.reshape(len(pixels), -1, logits.shape[1])[np.arange(len(pixels)), :, target]
        areas[method, name] = ((chances[:, 1:] + chances[:, :-1]) / 2).mean(1)
    return areas


def held_digits(count: int):
    """Return held-out scans as pixels (batch, 28, 28, 1), and what they are."""
    _, _, held, labels = scans()
    pixels = F.interpolate(held[:count], (SIDE, SIDE), mode="area") * 255
    return pixels.round().to(torch.uint8).permute(0, 2, 3, 1).numpy(), labels[:count].numpy()


def digit_curves(graphs, count: int = 150):
    """Return the curves of held-out digits, each for the class that it is taken for."""
    pixels, _ = held_digits(count)
    return curves(graphs, pixels, graphs.run("predict", {"pixels": pixels})["logits"].argmax(1))


# What is printed.


def exported(source, folder: Path) -> Graphs:
    """Export quietly."""
    with contextlib.redirect_stdout(io.StringIO()):
        return Graphs(export(source, "1", folder))


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.quality.recipes")
    parser.add_argument("what", choices=("spots", "softmax", "reversal", "dates", "digits"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            for line in LINES[arguments.what](seed, Path(folder)):
                print(f"| {arguments.what}, seed {seed} | {' | '.join(line)} |", flush=True)  # a command's answer


def _spots(seed, folder, scores=SIGMOID):
    graphs = exported(spotter(seed, scores), folder)
    for textured in (1, 2) if scores == SIGMOID else (1,):
        right, shares = pointing(graphs, textured)
        yield [f"{textured} textured: right {right:.3f}", *(f"{name} {share:.3f}" for name, share in shares.items())]
    if scores == SIGMOID:
        found = likeness_to_random(graphs, range(100, 110))
        yield [
            "rank correlation with 10 re-initialised",
            f"mean {found.mean():+.3f}",
            f"most {np.abs(found).max():.3f}",
        ]


def _curves(areas):
    for method in dict.fromkeys(method for method, _ in areas):
        found = [areas[method, name] for name in ("deletion", "insertion")]
        yield [method, *(f"{one.mean():.3f} ± {one.std() / len(one) ** 0.5:.3f}" for one in found)]


def _aligned(graphs, drawn):
    exact, found = alignment(graphs, *drawn)
    yield [f"exact {exact:.3f}"]
    for (method, row), errors in found.items():
        yield [method, row, *(f"{error:.3f}" for error in errors)]


LINES = {
    "spots": _spots,
    "softmax": lambda seed, folder: _spots(seed, folder, SOFTMAX),
    "reversal": lambda seed, folder: _aligned(
        Definition(reverser(seed)), reversals(300, torch.Generator().manual_seed(10**6))
    ),
    "dates": lambda seed, folder: _aligned(exported(SOURCES["dates"](), folder), plain_dates(200, seed)),
    "digits": lambda seed, folder: _curves(digit_curves(exported(SOURCES["digits"](), folder), 360)),
}

if __name__ == "__main__":
    main()
