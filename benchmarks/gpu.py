"""What predictions, attention and generation cost on a GPU: `make bench-gpu`, which prints sections for RESULTS.md.

ViT-B/16 with random weights. In process, images go from the host's memory to logits in the host's memory; ours and
PyTorch's models of the same precision, eager and compiled, alternate, and all are set against the largest product of
matrices that the device does. Over HTTP, images are JPEGs. Generation is a Marian of 6 + 6 layers beside CTranslate2.
At the end the targets stand beside what was measured. What is missing here is skipped, and said. `--device cpu --quick`
runs it at small sizes, so that it is known to work before there is a GPU. Models are exported beside one another, and
what lies in `--folder` is not made again. `--parts` chooses: where time is short, `profile` says most.
"""

import argparse
import asyncio
import contextlib
import functools
import importlib.util
import io
import json
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import get_args

import httpx
import numpy as np
import onnxruntime as ort
import torch
import transformers
from PIL import Image

from benchmarks.attention import drawn
from benchmarks.gpu_profile import profile_batch, profile_step
from benchmarks.peers import log
from benchmarks.running_service import served
from benchmarks.service import heading
from contract.artifact import read_artifact
from contract.input_rules import ImageRule
from contract.manifest import GradientMethod
from export.bundled import SOURCES
from export.checkpoints.building.family import ExportOptions
from export.checkpoints.families import FAMILIES
from export.checkpoints.reading.checkpoint import open_checkpoint
from export.pipeline import export
from export.tasks.image import image_model
from model.architectures.vit import VIT_SIZES
from service.inputs.image_preprocessing import decode_image
from service.runtime.runtime_errors import ProviderError, SessionError
from service.runtime.session import Session, choose_device, open_sessions
from service.settings import Settings

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
PEAK_SHARE = 0.45
"""The share of the largest product of matrices that predictions in fp16 are to reach."""
NOTHING = 1.02
"""What predictions may take beside a loaded graph of attention, as a multiple of their time without it."""
TINY = replace(VIT_SIZES["digits"], channels=3, image=(32, 32), classes=10)
NAME = "vit"
PARTS = ("profile", "predictions", "attention", "http", "losses", "generation")


class Sizes:
    """How much is measured: all, or what shows that everything runs."""

    def __init__(self, arguments):
        self.quick, self.device = arguments.quick, arguments.device
        small = arguments.quick
        self.kind = "small" if small else "whole"
        self.config = TINY if small else VIT_SIZES["vit_b_16"]
        self.batches = (1, 4) if small else (1, 4, 8, 32, 64, 128, 256)
        self.rounds = 3 if small else 10
        self.matrix = 256 if small else 8192
        self.requests = 10 if small else 300
        self.at_once = (1, 4) if small else (1, 8, 32, 64)
        self.decoded = (1, 2) if small else (1, 8, 32)
        self.new = 8 if small else 64
        self.beams = (1, 4)
        self.generated = "fp16" if self.device == "cuda" else "fp32"
        self.images = 32 if small else 512


def exported(sizes, folder, precision, without, opset=24):
    """Export a ViT without these methods, unless it is there; return its folder."""
    config, root = sizes.config, folder / f"{sizes.kind}-{precision}-{opset}"
    if (made := root / NAME / "1").exists():
        return made
    height, width = config.image
    rule = ImageRule(height=height, width=width, channels=3, locate="middle", mean=(0.5,) * 3, std=(0.5,) * 3)
    source = image_model(
        NAME, drawn(config), config, family="vit", task="image-classification", rule=rule, made_by={},
        labels=tuple(f"class {index}" for index in range(config.classes)),
    )  # fmt: skip
    log(f"exporting {NAME} in {precision}")
    with contextlib.redirect_stdout(sys.stderr):
        return export(replace(source, verified_longest=None), "1", root, precision, opset, without=without)


def translator(sizes, folder, precision):
    """Export the model that generates, unless it is there; return its folder."""
    name, root = "dates" if sizes.quick else "marian", folder / "generation"
    if (made := root / name / "1").exists():
        return made
    log(f"exporting {name} in {precision}")
    if sizes.quick:
        source = SOURCES[name]()
    else:
        from benchmarks.generation import marian  # needs sentencepiece

        checkpoint = folder / name
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            names = marian(Path(temporary, name))
            Path(temporary, name, "names.json").write_text(json.dumps(names))
            shutil.rmtree(checkpoint, ignore_errors=True)
            Path(temporary, name).rename(checkpoint)
        options = ExportOptions(name, None, None, ())
        source = replace(FAMILIES[name].source(open_checkpoint(str(checkpoint), None), options), verified_longest=None)
    with contextlib.redirect_stdout(sys.stderr):
        return export(source, "1", root, precision, 24, without=get_args(GradientMethod))


def compile_peer(sizes, folder, precision):
    """Compile PyTorch's model at every size, once. Its kernels are kept on the disk, and are quick the next time."""
    if (done := folder / f"{precision}.compiled").exists():
        return
    log(f"compiling PyTorch's model in {precision}")
    peer = Torch(sizes, precision, compiled=True)
    for batch in sizes.batches:
        peer(np.zeros((batch, *sizes.config.image, 3), np.uint8))
    done.touch()


def use_threads(count):
    """Have a process that exports use this number of threads."""
    torch.set_num_threads(count)


def prepare(sizes, folder, precisions, parts, targets):
    """Make what is measured, in processes beside one another; return the artifacts that could be made, by name."""
    work = {}
    # relevance is measured over HTTP alone, and takes long to verify
    without = ("libra", "integrated") if "http" in parts else get_args(GradientMethod)
    if parts != ["generation"]:
        wanted = dict.fromkeys((*precisions, *(["fp32"] if "losses" in parts else [])))
        work = {one: functools.partial(exported, sizes, folder, one, without) for one in wanted}
    if sizes.device == "cuda" and "predictions" in parts:  # (on a processor, compiling says nothing of a GPU)
        work |= {f"{one}, compiled": functools.partial(compile_peer, sizes, folder, one) for one in precisions}
        if not lacking("tensorrt"):  # which does not know all operators of graphs for GPUs
            every = get_args(GradientMethod)
            work |= {f"{one}, plain": functools.partial(exported, sizes, folder, one, every, 20) for one in precisions}
    if {"generation", "profile"}.intersection(parts):
        if package := lacking("sentencepiece"):
            targets.missing("generation", f"the package {package} is not installed")
        else:
            work["generation"] = functools.partial(translator, sizes, folder, sizes.generated)
    cores = os.cpu_count() or 1
    side_by_side = max(1, min(cores, len(work)))
    context = multiprocessing.get_context("spawn")
    found = {}
    # with all cores for each process, they would wait for one another
    with ProcessPoolExecutor(side_by_side, context, use_threads, (max(1, cores // side_by_side),)) as processes:
        made = {name: processes.submit(guarded, one) for name, one in work.items()}
        for name, one in made.items():
            folder_or_none, reason = one.result()
            if reason:
                targets.missing(name, reason)
            elif folder_or_none:
                found[name] = read_artifact(folder_or_none)
    return found


def guarded(work):
    """Return what work returns and no reason, or nothing and why it failed."""
    try:
        return work(), None
    except Exception as error:  # of another process: not every exception can be sent
        return None, first_line(error)


def first_line(error):
    """Return the kind of an error and the beginning of what it says."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


def work(config):
    """Return the floating point operations of one image: products of matrices alone."""
    (height, width), (rows, columns) = config.image, config.patch
    patches = height // rows * (width // columns)
    tokens, w = patches + 1, config.width
    layer = tokens * (8 * w * w + 4 * w * config.hidden) + 4 * tokens * tokens * w
    return config.layers * layer + 2 * patches * rows * columns * config.channels * w + 2 * w * config.classes


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def peak(sizes, precision):
    """Return the operations a second of the best of several products of large matrices."""
    side = sizes.matrix
    one, other = (torch.randn(side, side, dtype=DTYPES[precision], device=sizes.device) for _ in range(2))
    times = []
    for _ in range(10):
        synchronize(sizes.device)
        start = time.perf_counter()
        one @ other
        synchronize(sizes.device)
        times.append(time.perf_counter() - start)
    return 2 * side**3 / min(times)


class Targets:
    """What is wanted, and what was measured."""

    def __init__(self):
        self._rows = []

    def add(self, name, measured, wanted, *, least=True):
        """Note a figure that is to be at least as large as `wanted`, or at most."""
        met = measured >= wanted if least else measured <= wanted
        sign = "at least" if least else "at most"
        self._rows.append(f"| {name} | {sign} {wanted:.2f} | {measured:.2f} | {'yes' if met else 'no'} |")

    def missing(self, name, reason):
        """Say what was not measured, and why."""
        print(f"\n{name}: not measured, {reason}.", flush=True)
        self._rows.append(f"| {name} | | not measured: {reason} | |")

    def show(self):
        print("\n| target | wanted | measured | met |\n|---|---|---|---|")
        print("\n".join(self._rows))


def lacking(*packages):
    """Return the first of these packages that is not installed."""
    return next((name for name in packages if importlib.util.find_spec(name) is None), None)


class Torch:
    """The transformers library's ViT with its fused attention."""

    def __init__(self, sizes, precision, *, compiled):
        config = sizes.config
        (height, _), (patch, _) = config.image, config.patch
        shape = transformers.ViTConfig(
            hidden_size=config.width, num_hidden_layers=config.layers, num_attention_heads=config.heads,
            intermediate_size=config.hidden, image_size=height, patch_size=patch, num_labels=config.classes,
            attn_implementation="sdpa",
        )  # fmt: skip
        model = transformers.ViTForImageClassification(shape).eval().to(sizes.device, DTYPES[precision])
        self._device, self._dtype = sizes.device, DTYPES[precision]
        # compiled for each size, with CUDA graphs
        self._run = torch.compile(model, mode="reduce-overhead", dynamic=False) if compiled else model

    def __call__(self, pixels):
        with torch.inference_mode():
            given = torch.from_numpy(pixels).to(self._device).permute(0, 3, 1, 2).to(self._dtype)
            return self._run(pixel_values=(given / 255 - 0.5) / 0.5).logits.float().cpu().numpy()


def ours(found, device, batch, **settings):
    """Return our session of predictions, as the service has it for batches up to that."""
    session = Session(found, "predict", device, Settings(batch_tokens=batch * 10_000, **settings))
    if session._captured:
        session._captured.sizes = (batch,)
    return lambda pixels: session.run({"pixels": pixels})


def alternate(runs, given, rounds):
    """Return each run's median seconds, from alternating rounds after one that warms up."""
    taken = {name: [] for name in runs}
    for number in range(rounds + 3):
        for name, run in runs.items():
            start = time.perf_counter()
            run(given)
            if number >= 3:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def predictions(sizes, found, plain, precision, targets):
    """Print a row a batch: PyTorch's, ours, ours without CUDA graphs, and ours by TensorRT."""
    torch._dynamo.reset()  # it compiles a module for eight sizes at most
    best = peak(sizes, precision)
    print(f"\n{precision}: products of matrices reach {best / 1e12:.2f} TFLOP/s here.\n")
    peers = {"PyTorch": Torch(sizes, precision, compiled=False)}
    ways = {"ours": (found, sizes.device, {})}
    if sizes.device == "cuda":
        peers["PyTorch, compiled"] = Torch(sizes, precision, compiled=True)
        ways["ours, without CUDA graphs"] = (found, "cuda", {"cuda_graphs": False})
        if plain is None:
            targets.missing(f"{precision}, TensorRT", "there is no package tensorrt, or no artifact for it")
        else:
            ways["ours, TensorRT"] = (plain, choose_device("tensorrt"), {})
    print("| batch | runtime | ms | images/s | of the peak | of PyTorch's time |\n|---|---|---|---|---|---|")
    rates = {}
    for batch in sizes.batches:
        log(f"{precision}: batch {batch}")
        pixels = np.random.default_rng(0).integers(0, 256, (batch, *sizes.config.image, 3), np.uint8)
        try:
            runs = peers | {name: ours(one, device, batch, **more) for name, (one, device, more) in ways.items()}
            medians = alternate(runs, pixels, sizes.rounds)
        except (SessionError, RuntimeError) as error:
            print(f"\nBatch {batch} was not measured: {str(error).splitlines()[0][:200]}\n")
            break
        for name, seconds in medians.items():
            rates.setdefault(name, []).append(batch / seconds)
            share = batch * work(sizes.config) / seconds / best
            print(
                f"| {batch} | {name} | {1000 * seconds:.2f} | {batch / seconds:.0f} | {share:.0%} "
                f"| {seconds / medians['PyTorch']:.2f}x |",
                flush=True,
            )
    if rates:
        most = {name: max(found) for name, found in rates.items()}
        print("\nMost images a second: " + ", ".join(f"{name} {rate:.0f}" for name, rate in most.items()) + ".")
        fastest = max(rate for name, rate in most.items() if name.startswith("ours"))
        targets.add(f"{precision}, share of the peak", fastest * work(sizes.config) / best, PEAK_SHARE)
        for name in peers:
            targets.add(f"{precision}, images/s of {name}'s", fastest / most[name], 1)


def unused_attention(sizes, found, precision, targets):
    """Print what a prediction takes before, while and after a graph of attention is loaded that nobody asks."""
    batch = sizes.batches[-1] if sizes.quick else 32
    pixels = np.random.default_rng(0).integers(0, 256, (batch, *sizes.config.image, 3), np.uint8)
    settings = Settings(batch_tokens=batch * 10_000)

    def measured(*roles):
        sessions = open_sessions(found, roles, sizes.device, settings)
        for session in sessions.values():
            session.warm_up({"patches": 1})
        medians = alternate({"run": lambda given: sessions["predict"].run({"pixels": given})}, pixels, sizes.rounds)
        for session in sessions.values():
            session.close()
        return medians["run"]

    before, loaded, after = measured("predict"), measured("predict", "attention"), measured("predict")
    print(
        f"\n{precision}, batches of {batch}, ms: {1000 * before:.2f} alone, {1000 * loaded:.2f} with attention's graph "
        f"loaded and unused, {1000 * after:.2f} alone once more."
    )
    ratio = loaded / statistics.mean((before, after))
    targets.add(f"{precision}, time with attention's graph unused", ratio, NOTHING, least=False)


def losses(sizes, found):
    """Print how far predictions in each precision are from those in fp32 on the same device."""
    pixels = np.random.default_rng(1).integers(0, 256, (sizes.images, *sizes.config.image, 3), np.uint8)
    logits = {}
    for precision, one in found.items():
        run = ours(one, sizes.device, 32)
        logits[precision] = np.concatenate([run(pixels[at : at + 32])["logits"] for at in range(0, len(pixels), 32)])
    wanted = logits.pop("fp32").astype(np.float64)
    print(f"\n{len(pixels)} images of noise, against fp32:\n")
    print("| | cosine, least | largest difference, of the largest logit | same class |\n|---|---|---|---|")
    for precision, given in logits.items():
        lengths = np.linalg.norm(given, axis=1) * np.linalg.norm(wanted, axis=1)
        cosine = ((given * wanted).sum(1) / lengths).min()
        apart, same = np.abs(given - wanted).max() / np.abs(wanted).max(), given.argmax(1) == wanted.argmax(1)
        print(f"| {precision} | {cosine:.6f} | {apart:.1e} | {same.mean():.1%} |")


def photograph(side):
    """Return a JPEG of a size that is resized."""
    pixels = np.random.default_rng(0).integers(0, 256, (side // 8, side // 8, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    return file.getvalue()


def over_http(sizes, found, precision):
    """Print what a request costs, and how many a second there are."""
    jpeg, path = photograph(2 * sizes.config.image[0]), f"/v1/models/{NAME}/classify"
    headers, rule = {"Content-Type": "image/jpeg"}, found.manifest.image
    asked = {"prediction": {}, "rollout": {"attention": "rollout"}, "relevance": {"attention": "relevance"}}
    run = ours(found, sizes.device, 1)

    def inside(_):
        run(decode_image(jpeg, rule, 1 << 30).pixels[None])

    with served(found.folder.parents[1], device=sizes.device) as client:
        address = str(client.base_url)
        runs = {
            name: lambda _, options=options: client.post(path, content=jpeg, headers=headers, params=options)
            for name, options in asked.items()
        }
        for name, one in runs.items():
            if (response := one(None)).status_code != 200:
                raise RuntimeError(f"{name}: {response.status_code} {response.text}")
        medians = alternate({"decoding and inference, in process": inside, **runs}, None, max(sizes.requests // 10, 5))
        print(f"\n{precision}, JPEGs over HTTP, one at a time:\n\n| | median ms | of a prediction |\n|---|---|---|")
        for name, seconds in medians.items():
            print(f"| {name} | {1000 * seconds:.2f} | {seconds / medians['prediction']:.2f}x |")
        spent = medians["prediction"] - medians["decoding and inference, in process"]
        print(
            f"\nThe service adds {1000 * spent:.2f} ms.\n\n| at once | images/s | p50 ms | p99 ms |\n|---|---|---|---|"
        )
        for count in sizes.at_once:
            rate, times = asyncio.run(load(address, path, jpeg, headers, count, sizes.requests))
            p99 = statistics.quantiles(times, n=100)[-1]
            print(f"| {count} | {rate:.0f} | {1000 * statistics.median(times):.1f} | {1000 * p99:.1f} |", flush=True)


async def load(address, path, jpeg, headers, at_once, requests):
    """Send requests, a number of them at a time; return answers a second, and the seconds of each."""
    times = []
    limits = httpx.Limits(max_connections=at_once)
    async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:

        async def worker(count):
            for _ in range(count):
                start = time.perf_counter()
                response = await client.post(path, content=jpeg, headers=headers)
                response.raise_for_status()
                times.append(time.perf_counter() - start)

        start = time.perf_counter()
        await asyncio.gather(*(worker(-(-requests // at_once)) for _ in range(at_once)))
        return len(times) / (time.perf_counter() - start), times


def generation(sizes, folder, made, targets):
    """Print tokens a second of a Marian in fp16, greedy and with beams, beside CTranslate2's."""
    from benchmarks.generation import Ours  # needs sentencepiece

    theirs = None
    if sizes.quick or (package := lacking("ctranslate2")):
        reason = "only a small model was exported" if sizes.quick else f"the package {package} is not installed"
        targets.missing("generation beside CTranslate2", reason)
    else:
        import ctranslate2  # a peer, which is no dependency

        checkpoint = folder / made.manifest.name
        names = json.loads((checkpoint / "names.json").read_text())
        with contextlib.redirect_stdout(sys.stderr):
            converter = ctranslate2.converters.TransformersConverter(str(checkpoint))
            converter.convert(folder / "ct2", quantization="float16", force=True)
        theirs = ctranslate2.Translator(str(folder / "ct2"), device=sizes.device, compute_type="float16")
    mine = Ours(made, sizes.device)
    print(f"\n{made.manifest.name}, {sizes.generated}, {sizes.new} tokens, tokens a second:\n")
    print("| rows | beams | ours | ms a step | CTranslate2 | ratio |\n|---|---|---|---|---|---|")
    for beams in sizes.beams:
        for batch in sizes.decoded:
            sources = np.random.default_rng(0).integers(4, 60, (batch, 32)).tolist()
            runs = {"ours": lambda _, sources=sources, beams=beams: mine(sources, beams, sizes.new)}
            if theirs:
                named = [[names[index] for index in one] for one in sources]
                runs["theirs"] = lambda _, named=named, beams=beams: theirs.translate_batch(
                    named, beam_size=beams, min_decoding_length=sizes.new, max_decoding_length=sizes.new
                )
            medians = alternate(runs, None, sizes.rounds)
            rates = [batch * sizes.new / seconds for seconds in medians.values()]
            beside = f"{rates[1]:.0f} | {rates[0] / rates[1]:.2f}x" if theirs else "|"
            step = 1000 * medians["ours"] / sizes.new
            print(f"| {batch} | {beams} | {rates[0]:.0f} | {step:.2f} | {beside} |", flush=True)
            if theirs and beams == 1:
                targets.add(f"{sizes.generated}, greedy, {batch} rows, of CTranslate2's rate", rates[0] / rates[1], 1)
    mine.close()


def main():
    """Print a section for benchmarks/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--precisions", choices=DTYPES, nargs="+", help="(default: fp16 bf16, on a CPU fp32 fp16)")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: does it run?")
    parser.add_argument("--folder", type=Path, help="where models are kept (default: they are not)")
    parser.add_argument("--parts", choices=PARTS, nargs="+", default=list(PARTS), help="(default: all)")
    arguments = parser.parse_args()
    sizes = Sizes(arguments)
    try:
        choose_device(arguments.device)
        if arguments.device == "cuda" and not torch.cuda.is_available():
            raise ProviderError("device: this PyTorch has no CUDA")
    except ProviderError as error:
        raise SystemExit(f"not measured: {error}") from error
    print(heading(" ".join(["python -m benchmarks.gpu", *sys.argv[1:]])))
    device = (
        torch.cuda.get_device_name() if arguments.device == "cuda" else "no GPU: these numbers say only that it runs"
    )
    print(
        f"{device}; torch {torch.__version__}, onnxruntime {ort.__version__}, transformers {transformers.__version__}."
    )
    transformers.utils.logging.set_verbosity_error()
    targets = Targets()
    precisions = arguments.precisions or (["fp16", "bf16"] if arguments.device == "cuda" else ["fp32", "fp16"])
    with contextlib.nullcontext(arguments.folder) if arguments.folder else tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        found = prepare(sizes, folder, precisions, arguments.parts, targets)
        start = time.perf_counter()

        def measure(part, name, run):
            if part in arguments.parts:
                log(f"{name}, after {time.perf_counter() - start:.0f} s")
                try:
                    run()
                except Exception as error:  # whatever it is, the rest is measured
                    targets.missing(name, first_line(error))

        for precision in (one for one in precisions if one in found):
            measure(
                "profile", f"{precision}, profile", functools.partial(profile_batch, found[precision], precision, sizes)
            )
            plain = found.get(f"{precision}, plain")
            measure(
                "predictions",
                f"{precision}, predictions",
                functools.partial(predictions, sizes, found[precision], plain, precision, targets),
            )
            measure(
                "attention",
                f"{precision}, unused attention",
                functools.partial(unused_attention, sizes, found[precision], precision, targets),
            )
        if "generation" in found:
            measure("profile", "profile of a step", lambda: profile_step(found["generation"], sizes))
            measure("generation", "generation", lambda: generation(sizes, folder, found["generation"], targets))
        if "fp32" in found:
            made = {one: found[one] for one in ("fp32", *precisions) if one in found}
            measure("losses", "losses", lambda: losses(sizes, made))
        for precision in (one for one in precisions if one in found):
            measure("http", f"{precision}, over HTTP", functools.partial(over_http, sizes, found[precision], precision))
    targets.show()


if __name__ == "__main__":
    main()
