"""Verify the files of an artifact: open their graphs as the service does, compare them, and print what differs."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias, cast

import onnx
import onnxruntime as ort
import torch
from torch import Tensor

from contract.manifest import LIGHT_BYTES, WEIGHTS, Role
from export import progress
from export.checks.quantization_loss import MAX_LOSSES, check_losses, draw_samples, measure_losses, own_samples
from export.checks.trials import Extent, rounds_of
from export.checks.verify import FACTOR, verify
from export.graphs.lowering.bfloat16 import to_float32
from export.pack import GraphWriter
from export.plan import OMISSIBLE, Precision, Source
from export.progress import say, timed_step, trim_heap

BF16_NOT_VERIFIED = (
    "not verified: rounding of what bf16 computes, which no CPU does here; graphs ran in fp32, weights in bf16"
)


Inputs: TypeAlias = Sequence[Sequence[Tensor]]
"""Batches of one, each a tensor per input of the base graph."""


def verify_files(source: Source, folder: Path, precision: Precision, extent: Extent) -> dict[str, float]:
    """Verify the graphs of a folder on as many inputs as `extent` says; print and return the worst differences."""
    count = len(rounds_of(source, extent))
    say(f"  verify    {count} shape{'s' if count > 1 else ''} against float64, alone and padded")
    with _runnable_on_cpu(folder, precision) as runnable:
        worst = verify(
            source,
            lambda role: open_session(runnable, role),
            precision,
            _verify_step,
            extent,
        )
    if precision == "bf16":
        say(f"            {BF16_NOT_VERIFIED}")
    differences = {what: difference for what, difference in sorted(worst.items()) if not what.endswith(FACTOR)}
    for what in sorted(worst.keys() - differences.keys()):
        of = what.removesuffix(FACTOR) or "single floats: "
        say(f"  NOT EXACT  {of}{FACTOR} {worst[what]:.1f}, since the definition itself differs from float64")
    for what, difference in differences.items() if progress.verbose else ():
        say(f"            {what:<36} differs by at most {difference:.1e}")
    if differences:
        largest = max(differences, key=lambda what: differences[what])
        say(f"  verified  {len(differences)} comparisons, at most {differences[largest]:.1e} apart ({largest})")
    return worst


@contextlib.contextmanager
def _verify_step(name: str) -> Iterator[Callable[[str], object]]:
    """Time what is verified of a role; yield what shows each of its shapes, and frees what the one before held."""
    with timed_step(f"  verify    {name}") as step:

        def begin(shape: str) -> None:
            trim_heap()
            step.doing(shape)

        yield begin


@contextlib.contextmanager
def _runnable_on_cpu(folder: Path, precision: Precision) -> Iterator[Path]:
    """Yield a folder of graphs that a CPU can run: the given one or, for bf16, copies in float32."""
    if precision != "bf16":
        yield folder
        return
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        with GraphWriter(Path(temporary)) as graphs:
            for file in sorted(folder.glob("*.onnx")):
                graphs.write(cast(Role, file.stem), to_float32(onnx.load(file)))
        yield Path(temporary)


def check_losses_of_bits(
    source: Source, folder: Path, precision: Precision, samples: Inputs, *, force: bool
) -> dict[str, float]:
    """Return the losses of an artifact in few bits, for its manifest. Raises ExportError if one is over its bound."""
    ways = {"samples": samples, "texts of the export": own_samples(source), "drawn inputs": draw_samples(source)}
    where, inputs = next((where, inputs) for where, inputs in ways.items() if inputs)
    with timed_step("  compare") as step:
        losses = measure_losses(source, lambda role: open_session(folder, role), inputs)
        step.details.append(f"{len(inputs)} {where}, with full precision")
    for what, value in losses.items():
        most = MAX_LOSSES[precision].get(what)
        say(f"            {what:<36} {value:.2e}" + ("" if most is None else f", at most {most:g}"))
    if not force:
        check_losses(losses, precision, real=bool(samples))
    return {f"{precision}, {len(inputs)} {where}: {what}": value for what, value in losses.items()}


def open_session(folder: Path, role: Role) -> ort.InferenceSession:
    """Open a graph as the service does: what explains a score reads the weights of a larger model from their file."""
    trim_heap()  # what was freed is not in use, and a session holds the weights once more
    options = ort.SessionOptions()
    options.log_severity_level = 3  # what it warns of while it optimises a graph, nobody who exports can change
    options.intra_op_num_threads = torch.get_num_threads()  # as OMP_NUM_THREADS says
    options.enable_cpu_mem_arena = False  # it would hold as much as the largest run took, and round it up
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    options.add_session_config_entry("session.x64quantprecision", "1")  # exact on every processor, though slower
    if role in OMISSIBLE and (folder / WEIGHTS).stat().st_size >= LIGHT_BYTES:
        options.add_session_config_entry("session.disable_prepacking", "1")
        options.add_session_config_entry("optimization.disable_specified_optimizers", "ConstantFolding")
    return ort.InferenceSession(folder / f"{role}.onnx", options, providers=["CPUExecutionProvider"])
