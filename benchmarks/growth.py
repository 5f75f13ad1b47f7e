"""How the time of one item grows with the batch and with the length, and what the arithmetic alone would take.

A part of `python -m benchmarks.shapes` (`--part growth`), in one process, without HTTP, on the random weights of
benchmarks.runtimes. DeiT-S by batch and BERT-base by length, for predictions, attention (rollout) and relevance, as
the service runs them: a batch is cut into parts (`ServedModel.run`). Beside them the same batch in one run.

Times are of the processor, of all threads, so that other work on the machine counts for less. The limit is the
arithmetic of a prediction at the rate of one large product of matrices, in the same unit.
"""

import contextlib
import dataclasses
import functools
import resource
import sys

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from benchmarks.peers import ROOT, log
from benchmarks.runtimes import middle
from contract.artifact import read_artifact
from export.checkpoints.building.family import ExportOptions
from export.checkpoints.families import FAMILIES
from export.checkpoints.reading.checkpoint import open_checkpoint
from export.pipeline import export
from service.explanations.query import resolve
from service.explanations.selection import Target
from service.inputs.model_input import ModelInput
from service.options.attention import AttentionOptions
from service.options.base import parse
from service.repository.explaining.gradients import jobs_of
from service.repository.models.gradient_jobs import stacked
from service.repository.models.graph_controls import controls_of
from service.repository.models.predictor import Predictor
from service.runtime.threads import share_of_cores
from service.settings import Settings

BATCHES = (1, 2, 4, 8, 16, 32, 64)
LENGTHS = (64, 128, 256, 512, 1024, 2048)
MOST_EXPLAINED = {"batch": 8, "length": 512}
"""Relevance holds the activations of all layers: beyond this a run takes gigabytes."""
PRODUCT = 2048
"""The side of the matrices whose product is the limit."""


def explained(name, folder):
    """Make our artifact of a checkpoint with relevance, unless it is there."""
    if not (target := folder / name / "explained").exists():
        log(f"{name}: artifact, fp32 with relevance")
        with contextlib.redirect_stdout(sys.stderr):
            opened = open_checkpoint(str(folder / name / "checkpoint"), None)
            source = FAMILIES[opened.config["model_type"]].source(opened, ExportOptions(name, None, None, ()))
            quick = dataclasses.replace(source, verified_longest=None)
            export(quick, "1", target, without=("libra", "integrated"))


def served(folder, name, precision):
    """Return a model as the service loads it."""
    kept = {"fp32": "explained", "int8": "int8"}[precision]
    return Predictor(read_artifact(folder / name / kept / name / "1"), "cpu", Settings())


def items_of(model, batch, length):
    """Draw inputs: pixels, or tokens of that length."""
    random = np.random.default_rng(0)
    if model.manifest.image:
        rule, axis, length = model.manifest.image, "image", model.manifest.attention[0].length
        drawn = [
            {"pixels": random.integers(0, 256, (rule.height, rule.width, rule.channels), np.uint8)}
            for _ in range(batch)
        ]
    else:
        axis, words = "source", random.integers(0, 30522, (batch, length))
        drawn = [
            {"source": row, "source_visible": np.ones(length, bool), "source_types": np.zeros_like(row)}
            for row in words
        ]
    return [ModelInput(arrays, {axis: length}, {axis: np.zeros(length, bool)}) for arrays in drawn]


def asking(model, work, items):
    """Return the role that work runs, and its controls."""
    if work == "predict":
        return "predict", {}
    lengths, special = items[0].lengths, items[0].special
    query = resolve(parse(AttentionOptions, {"method": work}, strings=False), model.manifest)
    if work == "relevance":
        jobs = [job for item in items for job in jobs_of(model.manifest, item, query, Target(-1, (0,)), None)]
        return work, stacked(jobs, model.manifest.graphs[work])
    marks = {axis: np.stack([own] * len(items)) for axis, own in special.items()}
    return "attention", controls_of(query, lengths).feed(lengths, marks)


def run(model, work, items, *, parts):
    """Return what runs items once: in parts as the service does, or all in one run."""
    role, controls = asking(model, work, items)
    if parts:
        return lambda: model.run(role, items, controls)
    graph = model.manifest.graphs[role]
    feed = {
        port.name: controls[port.name] if port.name in controls else np.stack([one.arrays[port.name] for one in items])
        for port in graph.inputs
    }
    return lambda: model.sessions[role].run(feed)


def processor_seconds(work):
    """Return the time that all threads of the process worked on a call."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@functools.cache
def product():
    """Return what multiplies two large matrices, on as many threads as a model has."""
    sides = [PRODUCT, PRODUCT]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sides) for name in "abc"]
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"])], "product", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads = share_of_cores(Settings())
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    feed = {name: np.random.default_rng(0).normal(size=sides).astype(np.float32) for name in "ab"}
    return lambda: session.run(None, feed)


def operations(manifest, length):
    """Return the additions and multiplications of the layers of a prediction, whose feed-forward is 4 times as wide."""
    width, layers = manifest.width, len(manifest.attention[0].maps)
    return layers * (24 * length * width**2 + 4 * length**2 * width)


def measure(folder, axis, name, rounds):
    """Return processor milliseconds of an item by line and by batch or length, of alternating rounds."""
    sizes = BATCHES if axis == "batch" else LENGTHS
    lines = {
        ("predict fp32", True): ("fp32", "predict"),
        ("predict fp32", False): ("fp32", "predict"),
        ("predict int8", True): ("int8", "predict"),
        ("predict int8", False): ("int8", "predict"),
        ("rollout fp32", True): ("fp32", "rollout"),
        ("relevance fp32", True): ("fp32", "relevance"),
    }
    models = {precision: served(folder, name, precision) for precision in ("fp32", "int8")}
    taken, rates, work_of = {}, [], {}
    for size in (sizes[0], *sizes * rounds):  # the first one does not count
        batch, length = (size, 0) if axis == "batch" else (1, size)
        items = {precision: items_of(model, batch, length) for precision, model in models.items()}
        rates.append(2 * PRODUCT**3 / processor_seconds(product()))
        work_of[size] = operations(models["fp32"].manifest, *items["fp32"][0].lengths.values())
        found = {}
        for (line, parts), (precision, work) in lines.items():
            if (work == "relevance" and size > MOST_EXPLAINED[axis]) or (not parts and axis == "length"):
                continue
            asked = run(models[precision], work, items[precision], parts=parts)
            asked()  # what ran before has taken the caches
            found[line if parts else f"{line}, one run"] = processor_seconds(asked) / batch
        for line, seconds in found.items():
            taken.setdefault((line, size), []).append(1000 * seconds)
    limit = {("arithmetic fp32", size): [1000 * work / max(rates)] for size, work in work_of.items()}
    return limit | {(line, size): own[-rounds:] for (line, size), own in taken.items()}


def tell(title, axis, taken):
    """Print a row a line; return the points: the medians."""
    found = {name: middle(own) for name, own in taken.items()}
    sizes = sorted({size for _, size in found})
    print(f"\n{title}\n\n| {axis} | {' | '.join(map(str, sizes))} |\n" + "|---" * (1 + len(sizes)) + "|")
    lines = list(dict.fromkeys(line for line, _ in found))
    for line in lines:
        cells = [
            "{:.1f} ({:.1f} to {:.1f})".format(*found[line, size]) if (line, size) in found else "" for size in sizes
        ]
        print(f"| {line} | {' | '.join(cells)} |", flush=True)
    return {line: [(size, found[line, size][0]) for size in sizes if (line, size) in found] for line in lines}


def draw(panels):
    """Draw a panel each: the x axis, the y axis, the title, and the lines."""
    import matplotlib.pyplot as plt  # only where it is drawn

    figure, axes = plt.subplots(1, len(panels), figsize=(6.5 * len(panels), 4.8), facecolor="white")
    for axis, (across, up, title, lines) in zip(axes, panels, strict=True):
        colours = {}
        for line, points in lines.items():
            base, _, whole = line.partition(",")
            colours.setdefault(base, f"C{len(colours)}")
            limit = base.startswith("arithmetic")
            style = {"color": "black", "linestyle": ":"} if limit else {"color": colours[base], "marker": "o"}
            axis.plot(
                *zip(*points, strict=True), **style | ({"linestyle": "--", "alpha": 0.6} if whole else {}), label=line
            )
        axis.set(xscale="log", yscale="log", xlabel=across, ylabel=up, title=title)
        sizes = [size for size, _ in max(lines.values(), key=len)]
        axis.set_xticks(sizes, sizes)
        axis.xaxis.minorticks_off()
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}")
        axis.tick_params(axis="y", which="minor", labelsize=7)
        axis.grid(alpha=0.3, which="both")
        axis.legend(fontsize=8)
    figure.tight_layout()
    (target := ROOT / "benchmarks/plots/growth.png").parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=110)
    log(f"drawn: {target.relative_to(ROOT)}")


def growth(folder, rounds):
    """Measure, print and draw both panels."""
    for name in ("deit-s", "bert-base"):
        explained(name, folder)
    batch = tell("DeiT-S, processor ms an image:", "images", measure(folder, "batch", "deit-s", rounds))
    per_token = {
        (line, length): [1000 * one / length for one in own]
        for (line, length), own in measure(folder, "length", "bert-base", rounds).items()
    }
    length = tell("BERT-base, processor ms a thousand tokens of one text:", "tokens", per_token)
    draw(
        [
            ("images at a time", "processor ms an image", "DeiT-S", batch),
            ("tokens of one text", "processor ms a thousand tokens", "BERT-base", length),
        ]
    )
