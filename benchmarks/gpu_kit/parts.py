"""What is measured, a function for each part. Each figure is printed as a line of JSON as soon as it is known."""

import functools
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import numpy as np

BATCHES = (1, 8, 32, 128, 256)
COMPILED = (1, 32)
"""The batches at which PyTorch's model is compiled too, which takes half a minute each."""
ROWS = ((1, 1), (1, 8), (1, 32), (4, 1), (4, 8))
"""Beams and rows."""
NEW = 64
ROUNDS = 10
TYPES = {
    "float32": np.float32, "float16": np.float16, "int64": np.int64, "int32": np.int32, "uint8": np.uint8,
    "bool": np.bool_,
}  # fmt: skip


def say(what, reached, against=None, aim=None):
    """Print a figure."""
    print(json.dumps({"what": what, "against": against, "aim": aim, "reached": reached}), flush=True)


def median(run, rounds=ROUNDS, warm=3):
    """Return the median milliseconds of a run that is warm."""
    taken = []
    for number in range(rounds + warm):
        start = time.perf_counter()
        run()
        if number >= warm:
            taken.append(1000 * (time.perf_counter() - start))
    return statistics.median(taken)


def pictures(artifact, count):
    """Return random pictures of a model's size."""
    rule = artifact.manifest.image
    shape = (count, rule.height, rule.width, rule.channels)
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def timed(folder, *names):
    """Return the model of the first of these names whose weights were drawn."""
    from contract.artifact import read_artifact

    return read_artifact(next(found for name in names if (found := folder / "filled" / name / "1").exists()))


def versions(folder, device):
    """Say what runs: the card, the driver, the packages."""
    for name in ("torch", "onnxruntime", "onnxruntime-gpu", "transformers", "numpy"):
        try:
            say(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            continue
    from service.runtime.session import choose_device

    say("provider", choose_device(device))
    if device == "cuda":
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        say("card, driver, memory", subprocess.run(query, capture_output=True, text=True).stdout.strip())


def right(folder, device):
    """Hold answers and maps of each role and precision against the CPU in full precision."""
    from contract.artifact import read_artifact
    from service.runtime.session import Session, choose_device
    from service.settings import Settings

    for root in sorted((folder / "models/bundled").iterdir()):
        for name in ("digits", "dates"):
            exact = read_artifact(folder / "models/bundled/fp32" / name / "1")
            artifact = read_artifact(root / name / "1")
            for role, graph in artifact.manifest.graphs.items():
                feed = every_map(graph, 2)
                try:
                    given, wanted = (
                        Session(one, role, where, Settings()).run(fed(one.manifest.graphs[role], feed))
                        for one, where in ((artifact, choose_device(device)), (exact, "cpu"))
                    )
                except Exception as error:
                    say(f"{name}, {root.name}, {role}", f"not run: {str(error).splitlines()[0][:200]}")
                    continue
                apart = [
                    f"{output} {differs(given[output], wanted[output]):.1e}"
                    for output in wanted
                    if wanted[output].size and given[output].shape == wanted[output].shape
                ]
                say(
                    f"{name}, {root.name}, {role}: difference, of the largest number", ", ".join(apart), "fp32 on a CPU"
                )


def differs(given, wanted):
    """Return the largest difference of numbers, divided by the largest of them."""
    return np.abs(given.astype(np.float64) - wanted).max() / max(np.abs(wanted).max(), 1e-9)


def fed(graph, feed):
    """Return the inputs of a graph in its own types: those of half floats differ."""
    return {port.name: feed[port.name].astype(TYPES.get(port.dtype, np.float32)) for port in graph.inputs}


def every_map(graph, count):
    """Return inputs of a graph that ask for rows of each map: pixels at random, the same token at each place."""
    random = np.random.default_rng(0)
    values = {"source": 2, "source_visible": 1, "target": 3, "against": -1, "point": 1, "blank": 1}
    found = {}
    for port in graph.inputs:
        varying = {"batch": count, "source": 4, "target": 3, "target_input": 3}
        shape = [axis if isinstance(axis, int) else varying.get(axis, 1) for axis in port.axes]
        dtype = TYPES.get(port.dtype, np.float32)
        found[port.name] = np.full(shape, values.get(port.name, 0), dtype)
        if port.name == "pixels":
            found[port.name] = random.integers(0, 256, shape).astype(dtype)
    return found


def vit(folder, device):
    """Time ViT-B/16 in fp16 beside PyTorch's, and as a share of the largest product of matrices."""
    import torch

    from benchmarks import gpu

    found = timed(folder, "vit")
    small = found.manifest.image.height < 224
    sizes = gpu.Sizes(Namespace(quick=small, device=device))
    precision = "fp16" if device == "cuda" else "fp32"
    best = gpu.peak(sizes, precision)
    say("largest product of matrices, TFLOP/s", round(best / 1e12, 2))
    eager = gpu.Torch(sizes, precision, compiled=False)
    for batch in BATCHES[:2] if small else BATCHES:
        pixels = pictures(found, batch)
        runs = {
            "CUDA graphs": gpu.ours(found, device, batch),
            "no CUDA graphs": gpu.ours(found, device, batch, cuda_graphs=False),
        }
        runs["PyTorch"] = eager
        if batch in COMPILED and device == "cuda":
            torch._dynamo.reset()
            runs["PyTorch, compiled"] = gpu.Torch(sizes, precision, compiled=True)
        taken = gpu.alternate(runs, pixels, 2 if small else ROUNDS)
        for name in list(runs)[:2]:
            share = batch * gpu.work(sizes.config) / taken[name] / best
            say(
                f"ViT-B/16, batch {batch}, {name}: images a second",
                round(batch / taken[name]),
                "the largest product",
                f"{gpu.PEAK_SHARE:.2f} of it",
            )
            say(f"ViT-B/16, batch {batch}, {name}: share of the largest product", round(share, 3))
        for name in list(runs)[2:]:
            say(f"ViT-B/16, batch {batch}, rate", f"{taken[name] / taken['CUDA graphs']:.2f}x", name, "1x")


def deit(folder, device):
    """Time DeiT-S with rollout and libra beside its predictions."""
    from service.runtime.session import open_sessions
    from service.settings import Settings

    found = timed(folder, "deit-s", "digits")
    for batch in (1, 8) if found.manifest.image.height < 224 else (1, 8, 32):
        pixels = pictures(found, batch)
        roles = [role for role in ("predict", "attention", "libra") if role in found.manifest.graphs]
        sessions = open_sessions(found, tuple(roles), device, Settings(batch_tokens=batch * 10_000))
        taken = {}
        for role in roles:
            graph = found.manifest.graphs[role]
            feed = every_map(graph, batch) | {"pixels": pixels}
            if role == "attention":
                feed |= {"method": np.array(1), "encoder.rows": np.zeros(1, np.int64)}
                feed["encoder.layers"] = np.arange(len(found.manifest.attention[0].maps))
            given = {port.name: feed[port.name] for port in graph.inputs}
            taken[role] = median(functools.partial(sessions[role].run, given))
            against = None if role == "predict" else "a prediction"
            ratio = f" ({taken[role] / taken['predict']:.2f}x)" if against else ""
            say(
                f"DeiT-S, batch {batch}, {'rollout' if role == 'attention' else role}: ms",
                f"{taken[role]:.2f}{ratio}",
                against,
            )
        for session in sessions.values():
            session.close()


def marian(folder, device):
    """Time generation, greedy and by beams, beside transformers on PyTorch."""
    import torch
    import transformers

    from benchmarks.generation import Ours

    found = timed(folder, "marian", "dates")
    mine = Ours(found, device)
    small = found.manifest.name != "marian"
    new = 8 if small else NEW
    config = transformers.MarianConfig(
        vocab_size=32000, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, activation_function="swish",
        scale_embedding=True, max_position_embeddings=512, pad_token_id=31999, eos_token_id=0,
        decoder_start_token_id=31999, forced_eos_token_id=None,
    )  # fmt: skip
    peer = None
    if not small:
        peer = transformers.MarianMTModel(config).eval().to(device, torch.float16)
    for beams, rows in ROWS[:2] if small else ROWS:
        sources = np.random.default_rng(0).integers(4, 40, (rows, 32)).tolist()
        mine(sources, beams, new)
        seconds = statistics.median(mine(sources, beams, new)[0] for _ in range(3))
        against = aim = None
        ratio = ""
        if peer is not None:
            given = torch.tensor(sources, device=device)

            def theirs(given=given, beams=beams):
                with torch.inference_mode():
                    peer.generate(given, num_beams=beams, min_new_tokens=new, max_new_tokens=new, do_sample=False)

            against, aim = "transformers on PyTorch", "1x"
            ratio = f" ({median(theirs, rounds=2, warm=1) / 1000 / seconds:.2f}x)"
        what = f"Marian, {rows} rows, {'greedy' if beams == 1 else f'{beams} beams'}: tokens a second"
        say(what, f"{rows * new / seconds:.0f}{ratio}", against, aim)
    mine.close()


def service(folder, device):
    """Time the start, and say the memory, of the service with two models, with and without CUDA graphs."""
    import httpx

    port = 18765
    root = folder / "models/bundled" / ("fp16" if device == "cuda" else "fp32")
    for graphs in ("true", "false") if device == "cuda" else ("false",):
        environment = os.environ | {
            "REGARD_DEVICE": device, "REGARD_ARTIFACTS": str(root), "REGARD_PORT": str(port),
            "REGARD_CUDA_GRAPHS": graphs,
        }  # fmt: skip
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "service"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            while time.perf_counter() - began < 25 and process.poll() is None:
                try:
                    if httpx.get(f"http://127.0.0.1:{port}/health/ready").status_code == 200:
                        say(f"start to ready, CUDA graphs {graphs}: s", round(time.perf_counter() - began, 2))
                        break
                except httpx.TransportError:
                    time.sleep(0.05)
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            say(f"memory of the host, CUDA graphs {graphs}: MB", round(pages * 4096 / 1e6))
            if device == "cuda":
                query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader"]
                say(
                    f"memory of the GPU, CUDA graphs {graphs}",
                    subprocess.run(query, capture_output=True, text=True).stdout.strip(),
                )
        finally:
            process.terminate()
            process.wait(20)


def tests(folder, device):
    """Run the tests that need a GPU."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "gpu",
        "-p",
        "no:cacheprovider",
        "tests/end_to_end/test_gpu_against_cpu.py",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout[-20_000:], file=sys.stderr)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    say("tests marked gpu", next(iter(reversed(done.stdout.strip().splitlines())), "nothing was printed"))
    for line in lines[:20]:
        say("failed", line[:200])


def profile(folder, device):
    """Say which kernels take most of a batch of predictions, and of a few steps of decoding."""
    from benchmarks import gpu_profile
    from benchmarks.generation import Ours
    from service.runtime.session import Session
    from service.settings import Settings

    found, translator = timed(folder, "vit"), timed(folder, "marian", "dates")
    batch = 4 if found.manifest.image.height < 224 else 32
    pixels = pictures(found, batch)
    session = Session(found, "predict", device, Settings(batch_tokens=batch * 10_000, cuda_graphs=False))
    mine = Ours(translator, device)
    sources = np.random.default_rng(0).integers(4, 40, (8, 32)).tolist()
    runs = {
        f"ViT-B/16, batch {batch}": functools.partial(session.run, {"pixels": pixels}),
        "Marian, 8 rows, 8 tokens": functools.partial(mine, sources, 1, 8),
    }
    for name, run in runs.items():
        say(f"{name}: ms", round(median(run, rounds=3), 2))
        if device == "cuda":  # CUDA's profiler sees kernels alone
            for kernel, milliseconds, launches in gpu_profile.kernels(run)[: gpu_profile.SHOWN]:
                say(f"{name}, {gpu_profile.plain(kernel)}: ms, launches", f"{milliseconds:.3f}, {launches:.0f}")
    mine.close()


PARTS = {one.__name__: one for one in (versions, right, vit, deit, marian, service, tests, profile)}

if __name__ == "__main__":
    PARTS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
