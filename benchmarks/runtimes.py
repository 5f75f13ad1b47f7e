"""What a prediction costs beside other runtimes, at the shapes of known models: `python -m benchmarks.runtimes`.

ViT-B/16, DeiT-S, BERT-base and MiniLM's shape (128 tokens) with random weights whose attention is not flat. Runtimes
alternate, a block of three runs each a round, the first of which warms up; the others wait meanwhile. PyTorch runs what
transformers makes of the same checkpoint, with its fused attention; OpenVINO and onnxruntime's own dynamic quantization
read our graph of predictions. Our artifacts in 8 bits have scales at run time (`int8`), or fixed on other inputs of the
same sort (`calibrated int8`), which OpenVINO's provider of onnxruntime runs too. They are not verified.

What is made (checkpoints, artifacts) goes to `--folder`, and what lies there is not made again.
"""

import argparse
import contextlib
import dataclasses
import json
import statistics
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch
import transformers
from onnxruntime.quantization import quantize_dynamic
from tokenizers import Tokenizer, models, processors

from benchmarks.attention import seconds
from benchmarks.peers import ROOT, Peer, log, python
from benchmarks.service import heading
from contract.artifact import read_artifact
from contract.manifest import GRADIENT_METHODS
from export.checkpoints.building.family import ExportOptions
from export.checkpoints.families import FAMILIES
from export.checkpoints.reading.checkpoint import open_checkpoint
from export.pack import GraphWriter, write_manifest
from export.pipeline import scales_at_run_time, write_graphs, write_tokenizers
from service.inputs.model_input import ModelInput
from service.repository.models.predictor import Predictor
from service.settings import Settings

BATCHES = (1, 8, 32)
INPUTS, CALIBRATION = 32, 32
TOKENS = 128
PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "hubble_deep_field", "retina")
BLOCK = 3


def image(width, heads):
    """Return a ViT's class and configuration: Dosovitskiy et al. 2021, table 1; Touvron et al. 2021, table 1."""
    config = transformers.ViTConfig(
        hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width, num_labels=1000
    )
    return transformers.ViTForImageClassification, config


MODELS = {
    "vit-b-16": lambda: image(768, 12),
    "deit-s": lambda: image(384, 6),
    "bert-base": lambda: (
        transformers.BertForSequenceClassification,
        transformers.BertConfig(num_labels=1000, max_position_embeddings=2048),
    ),
    "minilm-l6": lambda: (
        transformers.BertForSequenceClassification,
        transformers.BertConfig(
            num_labels=1000, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
        ),
    ),
}
TEXTS = ("bert-base", "minilm-l6")
"""BERT has as many classes as the others, so that to agree means as much, and positions for long texts."""
PRECISIONS = ("fp32", "int8", "calibrated int8")


def special_tokens_only():
    """Return a tokenizer as BERT's, without words: what is predicted of are random tokens, and no text is read."""
    vocabulary = {token: index for index, token in enumerate(["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(vocabulary))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def checkpoint(name, folder):
    """Write a checkpoint with random weights, sharp enough that attention is not uniform."""
    kind, config = MODELS[name]()
    torch.manual_seed(0)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        model = kind(config)
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=1.5 / parameter.shape[1] ** 0.5)
        model.save_pretrained(folder)
    if name in TEXTS:
        special_tokens_only().save(str(folder / "tokenizer.json"))
        return
    preprocessor = {
        "image_processor_type": "ViTImageProcessor",
        "size": {"height": 224, "width": 224},
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor))


def inputs(name):
    """Draw what is predicted, and other inputs to calibrate with: parts of photographs, or random tokens."""
    random, count = np.random.default_rng(0), INPUTS + CALIBRATION
    if name in TEXTS:
        source = random.integers(0, 30522, (count, TOKENS))
        drawn = {"source": source, "source_visible": np.ones_like(source, bool), "source_types": np.zeros_like(source)}
    else:
        import skimage  # not where a GPU is measured

        parts = []
        for index in range(count):
            photograph = getattr(skimage.data, PHOTOGRAPHS[index % len(PHOTOGRAPHS)])()
            top, left = (random.integers(0, side - 224) for side in photograph.shape[:2])
            parts.append(photograph[top : top + 224, left : left + 224, :3])
        drawn = {"pixels": np.stack(parts)}
    first = {key: array[:INPUTS] for key, array in drawn.items()}
    return first | {f"calibration.{key}": array[INPUTS:] for key, array in drawn.items()}


def prepare(name, folder):
    """Make the checkpoint, the inputs and our artifacts, unless they are there."""
    if not (made := folder / name / "checkpoint").exists():
        log(f"{name}: checkpoint")
        made.mkdir(parents=True)
        checkpoint(name, made)
        np.savez(folder / name / "inputs.npz", **inputs(name))
    artifacts(name, folder / name)


def artifacts(name, folder, precisions=PRECISIONS):
    """Make our artifacts of a folder's checkpoint, unless they are there, unverified."""
    for precision in precisions:
        if (target := folder / precision / name / "1").exists():
            continue
        log(f"{name}: artifact, {precision}")
        with contextlib.redirect_stdout(sys.stderr):
            opened = open_checkpoint(str(folder / "checkpoint"), None)
            source = FAMILIES[opened.config["model_type"]].source(opened, ExportOptions(name, None, None, ()))
            samples = calibration(source, folder) if precision == "calibrated int8" else []
            scales = None if precision == "fp32" else "fixed" if samples else scales_at_run_time(source)
            for method in GRADIENT_METHODS if scales else ():  # the service refuses a method without its graph
                source = source.without(method)
            source = dataclasses.replace(source, scales=scales)
            target.mkdir(parents=True)
            own = precision.removeprefix("calibrated ")
            with GraphWriter(target) as graphs:
                write_graphs(source, graphs, own, calibration=samples)
            write_tokenizers(source, target)
            write_manifest(source, "1", own, {}, {}, target)


def calibration(source, folder):
    """Return the inputs to calibrate with, each a batch of one."""
    found = {key.removeprefix("calibration."): torch.from_numpy(array)
             for key, array in np.load(folder / "inputs.npz").items() if key.startswith("calib")}  # fmt: skip
    return [[found[port.name][at : at + 1] for port in source.base.inputs] for at in range(CALIBRATION)]


def dynamic(folder, name):
    """Return the path of what onnxruntime's own quantization makes of our graph of predictions."""
    path = folder / "onnxruntime.int8.onnx"
    if not path.exists():
        log(f"{name}: onnxruntime, int8")
        with contextlib.redirect_stdout(sys.stderr):
            quantize_dynamic(folder / "fp32" / name / "1/predict.onnx", path, per_channel=True)
    return path


class Ours:
    """Our artifact, loaded and run as the service does it: batches in the parts into which it cuts them."""

    def __init__(self, folder, name, precision):
        self._model = Predictor(read_artifact(folder / precision / name / "1"), "cpu", Settings())
        given = np.load(folder / "inputs.npz")
        ports = [port.name for port in self._model.manifest.graphs["predict"].inputs]
        lengths = {"source": TOKENS} if name in TEXTS else {"image": self._model.manifest.attention[0].length}
        rows = zip(*(given[port] for port in ports), strict=True)
        self._items = [ModelInput(dict(zip(ports, row, strict=True)), lengths, {}) for row in rows]
        self.about = {}

    def ask(self, batch=None, runs=0):
        """Answer as the others do."""
        if batch:
            return {"seconds": [seconds(lambda: self._run(0, batch)) for _ in range(runs)]}
        return {"logits": np.concatenate([self._run(at, at + 8) for at in range(0, INPUTS, 8)])}

    def _run(self, start, end):
        return np.stack(self._model.batches.run("predict", self._items[start:end])["logits"])

    def close(self):
        """Nothing is to be ended."""


class Dynamic(Ours):
    """What onnxruntime's own quantization makes of our graph of predictions, in one run a batch."""

    def __init__(self, folder, name):
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self._own = onnxruntime.InferenceSession(dynamic(folder, name), options)
        given = np.load(folder / "inputs.npz")
        self._feed = {port.name: given[port.name] for port in self._own.get_inputs()}
        self.about = {}

    def _run(self, start, end):
        return self._own.run(None, {key: array[start:end] for key, array in self._feed.items()})[0]


def runtimes(name, folder, openvino, provider, compiled):
    """Start every runtime; return them by label."""
    own, kind = folder / name, MODELS[name]()[0].__name__
    found = {f"ours {precision}": Ours(own, name, precision) for precision in PRECISIONS}
    found["onnxruntime dynamic int8"] = Dynamic(own, name)
    ways = [("eager", "fp32"), ("eager", "bf16")] + [("compiled", "fp32"), ("compiled", "bf16")] * compiled
    for way, precision in ways:
        log(f"{name}: torch, {way}, {precision}")
        found[f"torch {way} {precision}"] = Peer(
            sys.executable, "torch_run.py", own / "checkpoint", kind, precision, way, own / "inputs.npz"
        )
    log(f"{name}: ours, calibrated int8, OpenVINO's provider")
    graph = own / "calibrated int8" / name / "1/predict.onnx"
    script = "openvino_provider_run.py"
    found["ours calibrated int8, OpenVINO"] = Peer(provider, script, graph, own / "inputs.npz")
    graph = own / "fp32" / name / "1/predict.onnx"
    for precision in ("fp32", "bf16", "int8"):
        log(f"{name}: OpenVINO, {precision}")
        found[f"OpenVINO {precision}"] = Peer(openvino, "openvino_run.py", graph, precision, own / "inputs.npz", own)
    return found


def middle(values):
    """Return the median and the middle half of values."""
    ordered = sorted(values)
    return statistics.median(ordered), ordered[len(ordered) // 4], ordered[-1 - len(ordered) // 4]


def likeness(logits, wanted):
    """Return the mean cosine with the wanted logits, and how many inputs have the same class."""
    norms = np.linalg.norm(logits, axis=1) * np.linalg.norm(wanted, axis=1)
    cosine = float(((logits * wanted).sum(1) / norms).mean())
    return cosine, int((logits.argmax(1) == wanted.argmax(1)).sum())


def compare(name, found, batches, rounds):
    """Print a row a batch and runtime; return the milliseconds."""
    logits = {label: np.array(one.ask()["logits"]) for label, one in found.items()}
    alike = {label: likeness(one, logits["torch eager fp32"]) for label, one in logits.items()}
    distinct = len(set(logits["torch eager fp32"].argmax(1)))
    log(f"{name}: {distinct} classes among {INPUTS} inputs")
    medians = {}
    for batch in batches:
        log(f"{name}: batch {batch}")
        taken = {label: [] for label in found}
        for number in range(rounds + 1):
            for label, one in found.items():
                block = one.ask(batch=batch, runs=BLOCK)["seconds"]
                if number:
                    taken[label].append(1000 * statistics.median(block[1:]))
        for label, own in taken.items():
            median, low, high = middle(own)
            of_floats, of_openvino = (
                f"{middle([one / other for one, other in zip(own, taken[base], strict=True)])[0]:.2f}x"
                for base in ("ours fp32", "OpenVINO int8")
            )
            cosine, same = alike[label]
            print(
                f"| {name} | {batch} | {label} | {median:.1f} | {low:.1f} to {high:.1f} "
                f"| {of_floats} | {of_openvino} | {cosine:.4f} | {same} of {INPUTS} ({distinct} distinct) |",
                flush=True,
            )
            medians[f"{batch} {label}"] = median
    return medians


def plot(folder):
    """Draw inputs a second of each runtime, of whatever was measured."""
    import matplotlib.pyplot as plt  # only where it is drawn

    kept = {file.parent.name: json.loads(file.read_text()) for file in sorted(folder.glob("*/milliseconds.json"))}
    figure, axes = plt.subplots(1, len(kept), figsize=(5 * len(kept), 4), squeeze=False)
    for axis, (name, found) in zip(axes[0], kept.items(), strict=True):
        labels = list(dict.fromkeys(key.split(" ", 1)[1] for key in found))
        measured = [batch for batch in BATCHES if any(key.startswith(f"{batch} ") for key in found)]
        for offset, batch in enumerate(measured):
            rates = [1000 * batch / found.get(f"{batch} {label}", np.inf) for label in labels]
            axis.barh(np.arange(len(labels)) + 0.27 * offset, rates, 0.27, label=f"batch {batch}")
        axis.set_yticks(np.arange(len(labels)) + 0.27, labels)
        axis.invert_yaxis()
        axis.set(xlabel="inputs a second", title=name)
        axis.grid(alpha=0.3, axis="x")
        axis.legend(fontsize=8, loc="upper right")  # single floats come first, whose bars are short
    figure.tight_layout()
    (target := ROOT / "benchmarks/plots/runtimes.png").parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=120)
    log(f"drawn: {target.relative_to(ROOT)}")


def command(script):
    """Return what this was started by, without where it keeps things."""
    words = sys.argv[1:]
    if "--folder" in words:
        place = words.index("--folder")
        del words[place : place + 2]
    return " ".join(["python -m", f"benchmarks.{script}", *words])


def main():
    """Make, measure and print a section for benchmarks/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", choices=MODELS, nargs="+", default=list(MODELS))
    parser.add_argument("--batches", type=int, choices=BATCHES, nargs="+", default=BATCHES)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--compile", action="store_true", help="torch.compile too, which takes minutes to begin")
    parser.add_argument("--quick", action="store_true", help="three rounds")
    parser.add_argument("--prepare", action="store_true", help="make what is measured, and no more")
    parser.add_argument("--folder", type=Path, help="where what is made stays (default: a temporary folder)")
    arguments = parser.parse_args()
    rounds = 3 if arguments.quick else arguments.rounds
    openvino = python("openvino", "openvino", "nncf")
    provider = python("openvino-provider", "onnxruntime-openvino", "numpy")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with contextlib.ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in arguments.models:
            prepare(name, folder)
        if arguments.prepare:
            return
        print(heading(command("runtimes")))
        first = True
        for name in arguments.models:
            found = runtimes(name, folder, openvino, provider, arguments.compile)
            if first:
                versions = dict.fromkeys(one.about["version"] for one in found.values() if "version" in one.about)
                print("; ".join(versions), end=f"; {rounds} alternating rounds of {BLOCK} runs, the first warms up. ")
                print("The rest of OpenVINO's int8 computes in", found["OpenVINO int8"].about["rest"], end=".\n\n")
                print(
                    "| model | batch | runtime | median ms | middle half | of ours fp32 | of OpenVINO int8 | cosine "
                    "| same class |"
                )
                print("|---|---|---|---|---|---|---|---|---|")
                first = False
            keep = folder / name / "milliseconds.json"
            known = json.loads(keep.read_text()) if keep.exists() else {}
            keep.write_text(json.dumps(known | compare(name, found, arguments.batches, rounds)))
            for measured in found.values():
                measured.close()
        plot(folder)


if __name__ == "__main__":
    main()
