"""What predictions, attention and generation cost on a GPU: `make bench-gpu`, which prints a section for RESULTS.md.

ViT-B/16 with random weights. In process, images go from the host's memory to logits in the host's memory; ours and
PyTorch's compiled model of the same precision alternate, and both are set against the largest product of matrices that
the device does. Over HTTP, images are JPEGs. What is missing here is skipped, and said. `--device cpu --quick` runs it
at small sizes, so that it is known to work before there is a GPU.
"""

import argparse
import asyncio
import contextlib
import importlib.util
import io
import statistics
import sys
import tempfile
import time
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
from benchmarks.peers import log
from benchmarks.running_service import served
from benchmarks.service import heading
from contract.artifact import read_artifact
from contract.manifest import GradientMethod, ImageRule
from export.checkpoints.checkpoint import open_checkpoint
from export.checkpoints.families import FAMILIES
from export.checkpoints.family import ExportOptions
from export.errors import ExportError
from export.pipeline import export
from export.tasks.image import image_model
from model.vit import VIT_SIZES
from service.inputs.image_preprocessing import decode_image
from service.runtime.runtime_errors import ProviderError, SessionError
from service.runtime.session import Session, choose_device
from service.settings import Settings

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
TINY = replace(VIT_SIZES["digits"], channels=3, image=(32, 32), classes=10)
NAME = "vit"


class Sizes:
    """How much is measured: all, or what shows that everything runs."""

    def __init__(self, arguments):
        self.quick, self.device = arguments.quick, arguments.device
        small = arguments.quick
        self.config = TINY if small else VIT_SIZES["vit_b_16"]
        self.batches = (1, 4) if small else (1, 2, 4, 8, 16, 32, 64, 128, 256)
        self.rounds = 3 if small else 20
        self.matrix = 256 if small else 8192
        self.requests = 10 if small else 300
        self.at_once = (1, 4) if small else (1, 8, 32, 64)
        self.decoded = (1, 2) if small else (1, 8, 32)
        self.new = 8 if small else 64


def artifact(folder, config, precision):
    """Export a ViT of that size, without what takes long to verify."""
    height, width = config.image
    rule = ImageRule(height=height, width=width, channels=3, locate="middle", mean=(0.5,) * 3, std=(0.5,) * 3)
    source = image_model(
        NAME, drawn(config), config, family="vit", task="image-classification", rule=rule, made_by={},
        labels=tuple(f"class {index}" for index in range(config.classes)),
    )  # fmt: skip
    log(f"exporting {NAME} in {precision}")
    with contextlib.redirect_stdout(sys.stderr):
        export(replace(source, longest=None), "1", folder / precision, precision, 24)
    return read_artifact(folder / precision / NAME / "1")


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


class Torch:
    """The transformers library's ViT with its fused attention, compiled."""

    def __init__(self, sizes, precision):
        config = sizes.config
        (height, _), (patch, _) = config.image, config.patch
        shape = transformers.ViTConfig(
            hidden_size=config.width, num_hidden_layers=config.layers, num_attention_heads=config.heads,
            intermediate_size=config.hidden, image_size=height, patch_size=patch, num_labels=config.classes,
            attn_implementation="sdpa",
        )  # fmt: skip
        model = transformers.ViTForImageClassification(shape).eval().to(sizes.device, DTYPES[precision])
        self._device, self._dtype = sizes.device, DTYPES[precision]
        # (compiling needs a compiler for the processor, and says nothing of a GPU there)
        self._run = torch.compile(model, mode="reduce-overhead") if sizes.device == "cuda" else model

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


def predictions(sizes, found, precision):
    """Print a row a batch: ours, ours without CUDA graphs, and PyTorch's."""
    best = peak(sizes, precision)
    print(f"\n{precision}: products of matrices reach {best / 1e12:.2f} TFLOP/s here.\n")
    print("| batch | runtime | ms | images/s | of the peak | of PyTorch's time |\n|---|---|---|---|---|---|")
    reference = Torch(sizes, precision)
    rows, rates = sizes.config.image, []
    for batch in sizes.batches:
        log(f"{precision}: batch {batch}")
        pixels = np.random.default_rng(0).integers(0, 256, (batch, *rows, 3), np.uint8)
        runs = {"PyTorch, compiled" if sizes.device == "cuda" else "PyTorch": reference}
        try:
            runs["ours"] = ours(found, sizes.device, batch)
            if sizes.device == "cuda":
                runs["ours, without CUDA graphs"] = ours(found, sizes.device, batch, cuda_graphs=False)
            medians = alternate(runs, pixels, sizes.rounds)
        except (SessionError, RuntimeError) as error:
            print(f"\nBatch {batch} was not measured: {str(error).splitlines()[0][:200]}\n")
            break
        theirs = next(iter(medians.values()))
        for name, seconds in medians.items():
            share = batch * work(sizes.config) / seconds / best
            print(
                f"| {batch} | {name} | {1000 * seconds:.2f} | {batch / seconds:.0f} | {share:.0%} "
                f"| {seconds / theirs:.2f}x |",
                flush=True,
            )
        rates.append((batch / medians["ours"], batch))
    if rates:
        print("\nMost images a second: {:.0f}, in batches of {}.".format(*max(rates)))


def photograph(side):
    """Return a JPEG of a size that is resized."""
    pixels = np.random.default_rng(0).integers(0, 256, (side // 8, side // 8, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    return file.getvalue()


def over_http(sizes, folder, found, precision):
    """Print what a request costs, and how many a second there are."""
    jpeg, path = photograph(2 * sizes.config.image[0]), f"/v1/models/{NAME}/classify"
    headers, rule = {"Content-Type": "image/jpeg"}, found.manifest.image
    asked = {"prediction": {}, "rollout": {"attention": "rollout"}, "relevance": {"attention": "relevance"}}
    run = ours(found, sizes.device, 1)

    def inside(_):
        run(decode_image(jpeg, rule, 1 << 30).pixels[None])

    with served(folder / precision, device=sizes.device) as client:
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
    """Send so many requests at a time; return answers a second, and the seconds of each."""
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


def generation(sizes, folder):
    """Print tokens a second of a Marian, greedy, beside CTranslate2's."""
    if sizes.quick:
        print("\nGeneration was not measured: it takes minutes to export, and `--quick` was given.")
        return
    if importlib.util.find_spec("ctranslate2") is None:
        print("\nGeneration was not measured: ctranslate2 is not installed here.")
        return
    import ctranslate2  # a peer, which is no dependency

    from benchmarks.generation import Ours, marian  # needs sentencepiece

    checkpoint = folder / "marian"
    checkpoint.mkdir()
    names = marian(checkpoint)
    with contextlib.redirect_stdout(sys.stderr):
        source = FAMILIES["marian"].source(
            open_checkpoint(str(checkpoint), None), ExportOptions("marian", None, None, ())
        )
        source = replace(source, verified_longest=None)
        made = export(source, "1", folder / "fp16", "fp16", 24, without=get_args(GradientMethod))
        ctranslate2.converters.TransformersConverter(str(checkpoint)).convert(folder / "ct2", quantization="float16")
    mine = Ours(read_artifact(made), sizes.device)
    theirs = ctranslate2.Translator(str(folder / "ct2"), device=sizes.device, compute_type="float16")
    print("\nMarian, 6 + 6 layers, greedy, fp16, tokens a second:\n")
    print("| batch | ours | CTranslate2 | ratio |\n|---|---|---|---|")
    for batch in sizes.decoded:
        sources = np.random.default_rng(0).integers(2, 60, (batch, 32)).tolist()
        named = [[names[index] for index in one] for one in sources]

        def their_run(_, named=named):
            theirs.translate_batch(named, beam_size=1, min_decoding_length=sizes.new, max_decoding_length=sizes.new)

        def my_run(_, sources=sources):
            mine(sources, 1, sizes.new)

        medians = alternate({"ours": my_run, "theirs": their_run}, None, sizes.rounds)
        rates = [batch * sizes.new / medians[name] for name in ("ours", "theirs")]
        print(f"| {batch} | {rates[0]:.0f} | {rates[1]:.0f} | {rates[0] / rates[1]:.2f}x |", flush=True)
    mine.close()


def main():
    """Print a section for benchmarks/RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--precisions", choices=DTYPES, nargs="+", help="(default: fp16 bf16, on a CPU fp32)")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: does it run?")
    parser.add_argument("--no-http", action="store_true", help="in process only")
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
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for precision in arguments.precisions or (["fp16", "bf16"] if arguments.device == "cuda" else ["fp32"]):
            try:
                found = artifact(folder, sizes.config, precision)
                predictions(sizes, found, precision)
                if not arguments.no_http:
                    over_http(sizes, folder, found, precision)
            except (ProviderError, SessionError, ExportError) as error:
                print(f"\n{precision} was not measured: {str(error).splitlines()[0][:200]}")
        generation(sizes, folder)


if __name__ == "__main__":
    main()
