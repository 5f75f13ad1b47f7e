"""What an export will take: an estimate of its largest memory and of its time, before they are spent."""

import shutil
import time
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import torch
from torch import nn

from contract.manifest import GRADIENT_METHODS, Kind
from export.checks.reference import MOST_ROWS, with_fixed_axes
from export.checks.trials import Extent, rounds_of
from export.errors import CheckpointError
from export.plan import QUANTIZED, Precision, Sizes, Source
from export.progress import say

FILE_BYTES_PER_PARAMETER: Mapping[Precision, int] = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 4, "int4": 4}
"""In 8 and 4 bits, only the matrices of linear layers are smaller: `QUANTIZED` says how many bytes a number has."""
DISK_MARGIN = 1.1
"""The disk must have room for this multiple of the estimated size."""
LIBRARIES_BYTES = 400 << 20
"""PyTorch, ONNX and the runtime, and what they hold of any model."""
BYTES_PER_PARAMETER = 10
"""While a graph is traced: the definition, the graph's own weights, and what moves from the one to the other."""
VERIFYING_BYTES_PER_PARAMETER = 8
"""While it is compared: the definition, whose large matrices stay single floats, and a session."""
DEFINITION_BYTES_PER_PARAMETER = 4
"""While the definition answers of the longest text, before there is a session. This takes half as much for that."""
BYTES_PER_SCORE = 20
"""Of one layer's attention, in float64: the scores, their softmax, and what was measured beside them."""
BYTES_PER_STATE = 20
"""Of every layer's keys and values, in float64, by token and number of a state, likewise."""
BYTES_PER_WEIGHT = 56
"""Of the maps of all layers of an input of a batch: as a graph returns them, as they are compared, and as they are
differentiated."""
PASSES = 12
"""Passes through a model, as many as take the time of the comparison of predictions and maps, if all were in float64.
In single floats, a pass takes half the time."""
GRADIENT_PASSES = 8
"""The same of the comparison of one graph that explains a score."""
FLOPS_PER_PARAMETER = 2
LONG_SECONDS = 120
"""From here on, a time is told in minutes."""
SPEED_SIDE, SPEED_RUNS = 512, 4
"""What the speed of this machine is measured with: products of matrices of this side."""
MEMORY = Path("/proc/meminfo")
CONTROL_GROUP = Path("/sys/fs/cgroup")


def announce(source: Source, precision: Precision, extent: Extent, folder: Path) -> None:
    """Print what an artifact will be and take. Raises CheckpointError if disk or memory have no room for it."""
    size, memory = file_bytes(source, precision), memory_bytes(source, precision, extent)
    count = sum(_numbers(source).values())
    say(f"{source.name}: {count / 1e6:.2f} million parameters, {len(source.plans)} graphs, about {size / 1e6:.0f} MB")
    check_room(source, precision, extent, folder)
    say(f"  takes     about {memory / 1e9:.1f} GB of memory, and {format_time(seconds(source, extent))} to verify")


def check_room(source: Source, precision: Precision, extent: Extent, folder: Path) -> None:
    """Raise CheckpointError if disk or memory have no room for an export, and say what would help."""
    needed, disk = file_bytes(source, precision) * DISK_MARGIN, shutil.disk_usage(folder).free
    if needed > disk:
        raise CheckpointError(f"--to: needs {needed / 1e6:.0f} MB, the disk has {disk / 1e6:.0f} MB")
    free, memory, held = free_bytes(), memory_bytes(source, precision, extent), held_bytes(source, precision)
    if free is None or memory <= free:
        return
    has = f"this machine has {free / 1e9:.1f} GB free"
    if held > free:
        raise CheckpointError(f"NAME: needs about {held / 1e9:.1f} GB of memory to be verified at all, {has}")
    if source.text and (longest := source.verified_longest):
        raise CheckpointError(
            f"--max-tokens: texts of {longest['source']} tokens need about {memory / 1e9:.1f} GB of memory to be "
            f"verified, {has}; give fewer"
        )
    if source.sound:
        seconds_heard = source.sound.samples / source.sound.rate
        raise CheckpointError(
            f"NAME: the maps of {seconds_heard:.0f} s need about {memory / 1e9:.1f} GB of memory to be verified, {has}"
        )


def format_time(estimate: float) -> str:
    """Return an estimate in seconds as words: 40 s, 3 min."""
    return f"{max(5, 5 * round(estimate / 5))} s" if estimate < LONG_SECONDS else f"{round(estimate / 60)} min"


def file_bytes(source: Source, precision: Precision) -> int:
    """Return the estimated size of an artifact's files, in bytes."""
    matrices, tables = _matrices(source, nn.Linear), _matrices(source, nn.Embedding)
    quantized = sum(matrices.values()) if precision in QUANTIZED else 0
    tied = sum(matrices[one] for one in matrices.keys() & tables.keys())  # which are floats as embeddings
    normed = sum(one.numel() for kind in source.attention for one in source.traced.output_projections(kind))
    kept = quantized if source.explained else min(quantized, tied + normed)  # norms of floats need these, too
    whole = sum(_numbers(source).values()) - quantized + kept
    return FILE_BYTES_PER_PARAMETER[precision] * whole + round(QUANTIZED.get(precision, 0) * quantized)


def memory_bytes(source: Source, precision: Precision, extent: Extent) -> int:
    """Return the estimated peak of an export's memory, in bytes."""
    padded = rounds_of(source, extent)[-1][-1].sizes
    maps, numbers = BYTES_PER_WEIGHT * padded["batch"] * _weights(source, padded), sum(_numbers(source).values())
    sizes = source.verified_longest or padded
    longest = BYTES_PER_SCORE * _scores(source, sizes) + BYTES_PER_STATE * _states(source, sizes)
    defined = DEFINITION_BYTES_PER_PARAMETER * numbers + longest
    compared = VERIFYING_BYTES_PER_PARAMETER * numbers + max(maps, longest // 2)
    return max(held_bytes(source, precision), LIBRARIES_BYTES + max(defined, compared))


def held_bytes(source: Source, precision: Precision) -> int:
    """Return the memory that an export takes whatever is compared: the libraries, and the weights as they are traced.

    Of few bits, also those of each matrix as they are made, and all that a graph keeps, beside the floats.
    """
    traced = LIBRARIES_BYTES + BYTES_PER_PARAMETER * sum(_numbers(source).values())
    if precision not in QUANTIZED:
        return traced
    made = round(QUANTIZED[precision] * sum(_matrices(source, nn.Linear).values()))
    return traced + made + file_bytes(source, precision)


def seconds(source: Source, extent: Extent) -> float:
    """Return the estimated time of an export's verification on this machine, in seconds."""
    trials = list(chain(*rounds_of(source, extent)))
    explaining = sum(plan.role in GRADIENT_METHODS for plan in source.plans)
    passes = PASSES + GRADIENT_PASSES * explaining
    operations = passes * sum(_operations(source, trial.sizes) for trial in trials)
    if source.verified_longest:
        operations += 2 * _operations(source, source.verified_longest)
    return operations / _speed()


def free_bytes() -> int | None:
    """Return the memory that is free, in bytes, as Linux and the control group say; None where nobody says."""
    try:
        lines = dict(line.split(":") for line in MEMORY.read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, ValueError, KeyError):
        return None
    try:
        limit, used = (int((CONTROL_GROUP / f"memory.{what}").read_text()) for what in ("max", "current"))
        held = dict(line.split() for line in (CONTROL_GROUP / "memory.stat").read_text().splitlines())
        used -= int(held["file"])  # of files, which the system drops where memory is needed
    except (OSError, ValueError, KeyError):  # there is no group, or no limit
        return free
    return min(free, limit - used)


def _numbers(source: Source) -> dict[int, int]:
    """Return how many numbers each parameter holds, by its identity: graphs share them."""
    return {id(one): one.numel() for plan in source.plans for one in plan.module.parameters()}


def _matrices(source: Source, sort: type[nn.Linear] | type[nn.Embedding]) -> dict[int, int]:
    """Return how many numbers each matrix of layers of a sort holds, by its identity."""
    layers = (layer for plan in source.plans for layer in plan.module.modules())
    return {id(one.weight): one.weight.numel() for one in layers if isinstance(one, sort)}


def _states(source: Source, sizes: Sizes) -> int:
    """Return how many numbers the states of the tokens have that each layer's keys are made of, in all layers."""
    known = with_fixed_axes(source, sizes)
    return sum(len(kind.maps) * known[kind.fed] * (source.width or 0) for kind in source.attention)


def _pairs(source: Source, sizes: Sizes) -> dict[Kind, int]:
    """Return the pairs of a query and a key that one head of one layer of each kind weighs, or that are compared."""
    known = with_fixed_axes(source, sizes)
    return {
        kind: known[kind.query] * min(known[kind.fed], MOST_ROWS if kind.windows else known[kind.fed])
        for kind in source.attention
    }


def _scores(source: Source, sizes: Sizes) -> int:
    """Return the scores of the largest layer of one input."""
    return max(kind.heads * pairs for kind, pairs in _pairs(source, sizes).items())


def _weights(source: Source, sizes: Sizes) -> int:
    """Return the weights of all layers of one input."""
    return sum(len(kind.maps) * kind.heads * pairs for kind, pairs in _pairs(source, sizes).items())


def _operations(source: Source, sizes: Sizes) -> float:
    """Return the operations of one pass, in multiplications and additions: those of matrices, and of attention."""
    known = with_fixed_axes(source, sizes)
    tokens = max(known[kind.query] for kind in source.attention)
    embedded = {id(one.weight) for one in source.traced.modules() if isinstance(one, nn.Embedding)}
    matrices = sum(one.numel() for one in source.traced.parameters() if one.dim() > 1 and id(one) not in embedded)
    width = (source.width or 0) // max(kind.heads for kind in source.attention)
    attention = 2 * width * _weights(source, sizes)
    return FLOPS_PER_PARAMETER * known["batch"] * (matrices * tokens + attention)


def _speed() -> float:
    """Return how many such operations of float64 this machine does in a second."""
    one = torch.rand(SPEED_SIDE, SPEED_SIDE, dtype=torch.float64)
    torch.mm(one, one)
    start = time.perf_counter()
    for _ in range(SPEED_RUNS):
        torch.mm(one, one)
    return SPEED_RUNS * 2 * SPEED_SIDE**3 / (time.perf_counter() - start)
