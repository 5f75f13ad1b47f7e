"""TODO: what export/pipeline.py is."""

import contextlib
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import onnx
import onnxruntime as ort
from torch import nn

from contract.manifest import Role
from export.checks.int8_loss import BOUNDS, drawn, hold, losses, sampled
from export.checks.verify import verify
from export.errors import CheckpointError
from export.graphs.attention import attention_graph
from export.graphs.bfloat16 import widened, with_kernels
from export.graphs.cleanup import optimize, part
from export.graphs.float16 import lowered
from export.graphs.fusion import OPSET as FUSED
from export.graphs.fusion import fused
from export.graphs.int8 import quantize
from export.graphs.relevance import relevance_graph
from export.graphs.top_k import stepping, with_likeliest
from export.graphs.torch_export import OPSET, trace
from export.pack import Graphs, write_manifest
from export.plan import HALVES, Plan, Precision, Source
from export.tasks.generation import TARGET_TOKENIZER
from export.tasks.traced import Look

stopped: list[int] = []
"""Signals that have come. A library may swallow the interrupt in its midst; the step then ends with it."""


def export(
    source: Source,
    version: str,
    root: Path,
    precision: Precision = "fp32",
    opset: int = OPSET,
    *,
    samples: Path | None = None,
    force: bool = False,
) -> Path:
    """Make `<root>/<name>/<version>/` and return it; until every check has passed, nothing is there.

    What 8 bits lose is measured on `samples`, or inputs that are drawn, and refused past a bound unless `force` is set.
    """
    target = root / source.name / version
    source = dataclasses.replace(source, made_by={**source.made_by, "opset": opset})
    if precision == "int8":
        source = source.without("relevance")  # 8-bit weights have no gradient
    with _workshop(target) as temporary:
        folder = temporary / version
        folder.mkdir()
        _estimate(source, precision, folder)
        with Graphs(folder) as graphs:
            write_graphs(source, graphs, precision, opset)
            for file, text in (
                ("tokenizer.json", source.tokenizer),
                (TARGET_TOKENIZER, source.target_tokenizer),
            ):
                if text:
                    (folder / file).write_text(text, encoding="utf-8")
            say(f"  weights   {graphs.written / 1e6:.2f} MB, {graphs.shared / 1e6:.2f} MB shared by graphs")
        with step("  verify") as said:
            with _runnable(folder, precision) as runnable:
                worst = verify(source, lambda role: _session(runnable, role), precision)
            said.append(f"{len(source.tried)} shapes against float64, alone and padded")
        if precision == "bf16":
            say(f"            {NOT_VERIFIED}")
        for what, difference in sorted(worst.items()):
            say(f"            {what:<36} differs by at most {difference:.1e}")
        if precision == "int8":
            worst |= _lost(source, folder, samples, force=force)
        write_manifest(source, version, precision, worst, folder)
        if target.exists():
            target.rename(temporary / "old")
        folder.rename(target)
    say(f"  pack      {target}")
    return target


NOT_VERIFIED = (
    "not verified: rounding of what bf16 computes, which no CPU does here; graphs ran in fp32, weights in bf16"
)


@contextlib.contextmanager
def _runnable(folder: Path, precision: Precision) -> Iterator[Path]:
    """Yield a folder of graphs that a CPU can run: the artifact's, or those of bf16 with every number widened."""
    if precision != "bf16":
        yield folder
        return
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        with Graphs(Path(temporary)) as graphs:
            for file in sorted(folder.glob("*.onnx")):
                graphs.write(cast(Role, file.stem), widened(onnx.load(file)))
        yield Path(temporary)


def _lost(source: Source, folder: Path, samples: Path | None, *, force: bool) -> dict[str, float]:
    """Return what an artifact in 8 bits loses, for its manifest. Raises ExportError where that is too much."""
    inputs = sampled(source, samples) if samples else drawn(source)
    with step("  compare") as said:
        found = losses(source, lambda role: _session(folder, role), inputs)
        said.append(f"{len(inputs)} inputs {'given' if samples else 'drawn at random'}, with full precision")
    for what, value in found.items():
        say(f"            {what:<36} {value:.2e}, at most {BOUNDS[what]:g}")
    if not force:
        hold(found, real=samples is not None)
    where = "samples" if samples else "drawn inputs"
    return {f"int8, {len(inputs)} {where}: {what}": value for what, value in found.items()}


def write_graphs(source: Source, graphs: Graphs, precision: Precision = "fp32", opset: int = OPSET) -> None:
    """Trace what a source sees, and write the graph of each of its roles."""
    base = _graph(source.base, source, precision, opset, "base")
    graphs.store(base)
    for plan in source.plans:
        graph = _made(plan, base, source, precision, opset)
        graphs.write(plan.role, with_kernels(graph) if precision == "bf16" else graph)


def _graph(plan: Plan, source: Source, precision: Precision, opset: int, what: str) -> onnx.ModelProto:
    """Trace a plan's definition."""
    made = lowered(plan, precision)
    with step(f"  trace     {what}") as said:
        graph = optimize(trace(made, source.traced, opset), made)
        said.append(f"{len(graph.graph.node):>5} nodes, {plan.attentions} attentions")
    if precision == "int8":
        with step(f"  quantize  {what}"):
            graph = quantize(graph)
    return graph


def _made(plan: Plan, base: onnx.ModelProto, source: Source, precision: Precision, opset: int) -> onnx.ModelProto:
    """Make a plan's graph: of the base, by what is read off it, or by tracing."""
    if plan.role == "encode":
        return _fused(_graph(plan, source, precision, opset, plan.role), plan, precision, opset)
    if plan.role == "decode":
        graph = _fused(_graph(stepping(plan), source, precision, opset, plan.role), stepping(plan), precision, opset)
        return with_likeliest(graph, plan, source.generation.suppressed if source.generation else ())
    look = source.base.module
    assert isinstance(look, Look)  # noqa: S101 # for the type checker
    with step(f"  make      {plan.role}") as said:
        if plan.role == "predict":
            graph = part(base, plan)
        elif plan.role == "attention":
            graph = attention_graph(base, plan, look, source.image)
        else:
            graph = relevance_graph(base, plan, look)
        said.append(f"{len(graph.graph.node):>5} nodes")
    return _fused(graph, plan, precision, opset) if plan.role == "predict" else graph


def _fused(graph: onnx.ModelProto, plan: Plan, precision: Precision, opset: int) -> onnx.ModelProto:
    """Fuse what attends in a graph of half floats that returns no maps; in fp32 there are no flash kernels."""
    if precision not in HALVES or opset < FUSED:
        return graph
    with step(f"  fuse      {plan.role}") as said:
        graph = fused(graph, plan)
        count = sum(node.op_type == "Attention" for node in graph.graph.node)
        said.append(f"{len(graph.graph.node):>5} nodes, {count} of {plan.attentions} attentions")
    return graph


@contextlib.contextmanager
def _workshop(target: Path) -> Iterator[Path]:
    """Yield a hidden folder beside the target, and leave nothing of it, nor an empty folder above it."""
    made = [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".", suffix=".partial") as temporary:
            yield Path(temporary)
    finally:
        for folder in made:
            with contextlib.suppress(OSError):  # it holds what was made
                folder.rmdir()


def _estimate(source: Source, precision: Precision, folder: Path) -> None:
    """Say how large the artifact will be. Raises CheckpointError where the disk has not so much room."""
    counts: dict[int, int] = {}
    matrices: dict[int, int] = {}  # what 8 bits are enough for; embeddings stay as they are
    for plan in source.plans:
        counts |= {id(parameter): parameter.numel() for parameter in plan.module.parameters()}
        linear = [layer.weight for layer in plan.module.modules() if isinstance(layer, nn.Linear)]
        matrices |= {id(weight): weight.numel() for weight in linear}
    count, quantized = sum(counts.values()), sum(matrices.values())
    size = {"fp32": 4 * count, "fp16": 2 * count, "bf16": 2 * count, "int8": 4 * (count - quantized) + quantized}[
        precision
    ]
    say(f"{source.name}: {count / 1e6:.2f} million parameters, {len(source.plans)} graphs, about {size / 1e6:.0f} MB")
    free = shutil.disk_usage(folder).free
    if size * 1.1 > free:
        raise CheckpointError(f"--to: needs {size * 1.1 / 1e6:.0f} MB, the disk has {free / 1e6:.0f} MB")


@contextlib.contextmanager
def step(line: str) -> Iterator[list[str]]:
    """Print a step as it begins, and how long it took as it ends; what is appended to the list is said too."""
    start = time.perf_counter()
    print(f"{line:<20}", end=" ", flush=True)
    said: list[str] = []
    try:
        yield said
        if stopped:
            raise KeyboardInterrupt
    except BaseException:
        print(flush=True)
        raise
    print(f"{' '.join(said):<46}{time.perf_counter() - start:>6.1f} s", flush=True)


def say(line: str, since: float | None = None) -> None:
    """Print a line, with the seconds it took."""
    print(line if since is None else f"{line:<67}{time.perf_counter() - since:>6.1f} s", flush=True)


def _session(folder: Path, role: Role) -> ort.InferenceSession:
    return ort.InferenceSession(folder / f"{role}.onnx", providers=["CPUExecutionProvider"])
