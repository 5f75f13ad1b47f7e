"""Where a batch of predictions and a step of decoding spend their time on a GPU: a part of `make bench-gpu`.

CUDA's own profiler is asked by PyTorch's, which sees the kernels of the whole process, so also onnxruntime's.
"""

import collections
import re
import statistics
import time

import numpy as np
import onnxruntime as ort
import torch

from service.runtime.session import Session
from service.settings import Settings

SHOWN = 12
"""Kernels that are listed."""
RUNS = 3
SOURCE, NEW, ROWS, BEAMS = 32, 16, 8, 4


def kernels(run):
    """Return the milliseconds and launches of each kernel in a run, by name, the longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(RUNS):
            run()
        torch.cuda.synchronize()
    taken, launches = collections.Counter(), collections.Counter()
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            taken[event.name] += event.time_range.elapsed_us() / 1000 / RUNS
            launches[event.name] += 1 / RUNS
    return [(name, milliseconds, launches[name]) for name, milliseconds in taken.most_common()]


def show(found, whole):
    """Print the longest kernels, and how much of a run they are."""
    total, count = (sum(column) for column in list(zip(*found, strict=True))[1:]) if found else (0, 0)
    print(f"{count:.0f} launches take {total:.2f} ms of {whole:.2f}.\n\n| kernel | launches | ms |\n|---|---|---|")
    for name, milliseconds, launches in found[:SHOWN]:
        print(f"| {plain(name)} | {launches:.0f} | {milliseconds:.3f} |")
    print(flush=True)


def plain(name):
    """Return the name of a kernel, and what operation it is for, without namespaces, types and arguments."""
    name = re.sub(r"\(anonymous namespace\)::", "", name).removeprefix("void ")
    operation = re.search(r"OP_\w+", name)
    plainly = re.split(r"[<(]", name)[0].split("::")[-1] or name[:60]
    return f"{plainly} {operation[0]}" if operation else plainly


def median(run, rounds=15):
    """Return the median milliseconds of a run that is warm."""
    taken = []
    for number in range(rounds + 3):
        start = time.perf_counter()
        run()
        if number >= 3:
            taken.append(1000 * (time.perf_counter() - start))
    return statistics.median(taken)


def profile_batch(found, precision, sizes):
    """Print the kernels of a batch, and what a recorded batch takes besides: copies to and from the device."""
    batch = sizes.batches[-2]
    pixels = np.random.default_rng(0).integers(0, 256, (batch, *sizes.config.image, 3), np.uint8)
    settings = Settings(batch_tokens=batch * 10_000, cuda_graphs=False)
    plainly = Session(found, "predict", sizes.device, settings)
    whole = median(lambda: plainly.run({"pixels": pixels}))
    print(f"\n{precision}, a batch of {batch} without CUDA graphs: ", end="")
    if sizes.device == "cpu":
        print(f"{whole:.2f} ms, of which kernels are not known on a CPU.")
        return
    show(kernels(lambda: plainly.run({"pixels": pixels})), whole)
    recorded = Session(found, "predict", sizes.device, Settings(batch_tokens=batch * 10_000))
    recorded._captured.sizes = (batch,)
    whole = median(lambda: recorded.run({"pixels": pixels}))
    inner = recorded._captured._batches[batch]

    def replay():
        options = ort.RunOptions()
        options.add_run_config_entry("gpu_graph_id", inner._number)
        inner._session.run_with_iobinding(inner._binding, options)

    parts = {
        "locked memory filled": lambda: inner.fill({"pixels": pixels}),
        "sent": lambda: inner._given["pixels"].update_inplace(inner._host["pixels"]),
        "replayed": replay,
        "fetched": lambda: [value.numpy() for value in inner._found.values()],
    }
    said = ", ".join(f"{name} {median(part):.2f}" for name, part in parts.items())
    print(f"With CUDA graphs {whole:.2f} ms: {said}.", flush=True)


def profile_step(found, sizes):
    """Print the kernels of a few texts, by step, greedy and with beams."""
    from benchmarks.generation import Ours  # needs sentencepiece

    mine = Ours(found, sizes.device)
    for rows, beams in ((1, 1), (ROWS, 1), (ROWS, BEAMS)):
        sources = np.random.default_rng(0).integers(4, 60, (rows, SOURCE)).tolist()

        def texts(sources=sources, beams=beams):
            mine(sources, beams, NEW)

        whole = median(texts, 5) / NEW
        print(
            f"\n{found.manifest.name}, {rows} rows, {beams} beams, a step of {NEW}, its source's share included: ",
            end="",
        )
        if sizes.device == "cpu":
            print(f"{whole:.2f} ms.")
        else:
            show([(name, taken / NEW, count / NEW) for name, taken, count in kernels(texts)], whole)
    mine.close()
