"""What a prediction takes by batch and by length, and attention by how many layers are asked for: `make bench-shapes`.

In one process, without HTTP, on the random weights of benchmarks.runtimes: DeiT-S by batch, BERT-base by tokens, and at
the shape of ViT-B/16 attention of the last layers beside a prediction. Everything of a panel is timed in turns. How the
time of one item grows, with the limit of the arithmetic, is measured by benchmarks.growth.

What is made (checkpoints, artifacts) goes to `--folder`, and what lies there is not made again.
"""

import argparse
import contextlib
import itertools
import tempfile
from pathlib import Path

import numpy as np
import transformers

from benchmarks.attention import seconds
from benchmarks.growth import growth
from benchmarks.peers import ROOT, log
from benchmarks.runtimes import command, middle, prepare
from benchmarks.service import heading
from contract.artifact import read_artifact
from service.explanations.query import resolve
from service.options.attention import AttentionOptions
from service.options.base import parse
from service.repository.models.graph_controls import controls_of
from service.runtime.session import Session, choose_device, open_sessions
from service.settings import Settings

BATCHES = (1, 2, 4, 8, 16, 32)
LENGTHS = (8, 16, 32, 64, 128, 256, 512)
LAYERS = (1, 3, 6, 9, 12)
METHODS = {
    "raw, every weight": {"heads": "all", "queries": "all"},
    "raw, class token": {},
    "norm, every row": {"method": "norm", "queries": "all"},
    "rollout": {"method": "rollout"},
}


def artifact_of(folder, name, precision="fp32"):
    return read_artifact(folder / name / precision / name / "1")


def predictions(folder, name):
    """Return sessions of predictions by precision."""
    device, settings = choose_device("cpu"), Settings()
    return {
        precision: Session(artifact_of(folder, name, precision), "predict", device, settings)
        for precision in ("fp32", "int8")
    }


def by_batch(folder):
    """Return what runs a batch of images, by precision and batch."""
    pixels = np.tile(np.load(folder / "deit-s/inputs.npz")["pixels"], (2, 1, 1, 1))
    return {
        (precision, batch): lambda session=session, batch=batch: session.run({"pixels": pixels[:batch]})
        for precision, session in predictions(folder, "deit-s").items()
        for batch in BATCHES
    }


def by_length(folder):
    """Return what runs one text, by precision and tokens."""
    source = np.random.default_rng(0).integers(0, 30522, (1, LENGTHS[-1]))

    def run(session, length):
        part = source[:, :length]
        session.run({"source": part, "source_visible": np.ones_like(part, bool), "source_types": np.zeros_like(part)})

    return {
        (precision, length): lambda session=session, length=length: run(session, length)
        for precision, session in predictions(folder, "bert-base").items()
        for length in LENGTHS
    }


def by_layers(folder):
    """Return what looks at one image, by method and how many of the last layers; and a prediction."""
    artifact = artifact_of(folder, "vit-b-16")
    kind, pixels = artifact.manifest.attention[0], np.load(folder / "vit-b-16/inputs.npz")["pixels"][:1]
    tokens = {"image": kind.length}
    special = {"image": np.zeros((1, tokens["image"]), bool)}
    device, settings = choose_device("cpu"), Settings()
    looking = open_sessions(artifact, ("attention",), device, settings)["attention"]
    predicting = Session(artifact, "predict", device, settings)  # on a graph that knows of nothing else
    runs = {("prediction", 0): lambda: predicting.run({"pixels": pixels})}
    for (method, options), layers in itertools.product(METHODS.items(), LAYERS):
        query = resolve(parse(AttentionOptions, {**options, "layers": f"{-layers}:"}, strings=False), artifact.manifest)
        feed = {"pixels": pixels, **controls_of(query, tokens).feed(tokens, special)}
        runs[method, layers] = lambda feed=feed: looking.run(feed)
    return runs


def alternate(runs, rounds):
    """Return the milliseconds of each run, from alternating rounds behind one that does not count."""
    taken = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            found = 1000 * seconds(run)
            if number:
                taken[name].append(found)
    return taken


def grouped(medians):
    """Return the points of each line."""
    lines = {}
    for (line, at), value in medians.items():
        lines.setdefault(line, []).append((at, value))
    return lines


def tell(title, axis, taken, against=None):
    """Print a row a line; return its points: medians in ms, or ratios of a round to another line's."""
    base = taken.pop(against) if against else None
    found = {
        name: middle([one / other for one, other in zip(own, base, strict=True)] if base else own)
        for name, own in taken.items()
    }
    lines = grouped(found)
    print(f"\n{title}\n\n| {axis} | {' | '.join(str(at) for at, _ in next(iter(lines.values())))} |")
    print("|---" * (1 + len(next(iter(lines.values())))) + "|")
    form = "{:.2f}x ({:.2f} to {:.2f})" if base else "{:.1f} ({:.1f} to {:.1f})"
    for name, points in lines.items():
        print(f"| {name} | {' | '.join(form.format(*value) for _, value in points)} |", flush=True)
    return {name: [(at, value[0]) for at, value in points] for name, points in lines.items()}


def draw(panels):
    """Draw a panel each: the x axis, the y axis, the title and the lines."""
    import matplotlib.pyplot as plt  # only where it is drawn

    figure, axes = plt.subplots(1, len(panels), figsize=(5 * len(panels), 4), squeeze=False)
    for axis, (across, up, title, lines) in zip(axes[0], panels, strict=True):
        for name, points in lines.items():
            axis.plot(*zip(*points, strict=True), "-o", label=name)
        places = [at for at, _ in next(iter(lines.values()))]
        if "ms" in up:
            axis.set(xscale="log", yscale="log")
            axis.minorticks_off()
        else:
            axis.axhline(1, color="gray", linestyle="--", linewidth=1)
        axis.set_xticks(places, places)
        axis.set(xlabel=across, ylabel=up, title=title)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.tight_layout()
    (target := ROOT / "benchmarks/plots/shapes.png").parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=100)
    log(f"drawn: {target.relative_to(ROOT)}")


def main():
    """Make, measure and print a section for benchmarks/RESULTS.md, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--part", choices=("shapes", "growth"), help="of the two plots, one (default: both)")
    parser.add_argument("--folder", type=Path, help="where what is made stays (default: a temporary folder)")
    arguments = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with contextlib.ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("deit-s", "bert-base", "vit-b-16")[: 2 if arguments.part == "growth" else 3]:
            prepare(name, folder)
        print(heading(command("shapes")))
        print(f"Medians of {arguments.rounds} alternating rounds, the middle half behind them.")
        if arguments.part != "shapes":
            growth(folder, arguments.rounds)
        if arguments.part == "growth":
            return
        batches = tell("DeiT-S, ms a batch:", "images", alternate(by_batch(folder), arguments.rounds))
        lengths = tell("BERT-base, ms a text:", "tokens", alternate(by_length(folder), arguments.rounds))
        looked = alternate(by_layers(folder), arguments.rounds)
        layers = tell("ViT-B/16, attention of the last layers, of a prediction:", "layers", looked, ("prediction", 0))
        draw(
            [
                ("images at a time", "ms a batch", "DeiT-S", batches),
                ("tokens", "ms a text", "BERT-base", lengths),
                ("layers asked for", "times a prediction", "ViT-B/16, one image", layers),
            ]
        )


if __name__ == "__main__":
    main()
