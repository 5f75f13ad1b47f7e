"""The export of one source to one artifact: trace, derive graphs, verify, pack. Prints every step and its time."""

import contextlib
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeAlias, cast

import onnx
from torch import Tensor

from contract.contrast import Contrast
from contract.manifest import SALIENCY, Omissible, Scales
from export.checks.quantization_loss import draw_samples, read_samples
from export.checks.trials import Extent, rounds_of
from export.cost import announce
from export.errors import CheckpointError, ExportError, MethodError
from export.graphs.editing.cleanup import clean, extract
from export.graphs.gradients.integrated import integrated_graph
from export.graphs.gradients.libra import libra_graph
from export.graphs.gradients.relevance import relevance_graph
from export.graphs.lowering.bfloat16 import with_casts_for_missing_kernels
from export.graphs.lowering.calibration import measure_ranges
from export.graphs.lowering.causal_blocks import split_causal_attention
from export.graphs.lowering.decode_step import fuse_step
from export.graphs.lowering.float16 import in_half_precision
from export.graphs.lowering.fusion import FUSION_OPSET
from export.graphs.lowering.gpu_rewrites import rewrite_for_gpus
from export.graphs.lowering.int4 import BLOCK, quantize_blocks
from export.graphs.lowering.int8 import quantize
from export.graphs.lowering.masks import add_masks
from export.graphs.lowering.norms import fuse_norms
from export.graphs.lowering.top_k import with_top_k, without_top_k
from export.graphs.lowering.turns import fuse_turns
from export.graphs.maps.attention_graph import attention_graph
from export.graphs.maps.inside import inside_graph
from export.graphs.maps.saliency import saliency_graph
from export.graphs.tracing.torch_export import DEFAULT_OPSET, trace
from export.pack import GraphWriter, pair_of, replace_folders, write_manifest
from export.plan import HALF_DTYPES, QUANTIZED, Plan, Precision, Source, leave_out
from export.progress import (
    collecting_only_new_objects,
    peak_bytes,
    return_large_blocks,
    return_memory,
    say,
    timed_step,
    waiting,
)
from export.tasks.generation import TARGET_TOKENIZER
from export.traced.base import Traced
from export.verification import check_losses_of_bits, verify_files

INPUT_SCALE_TOKENS = 128
"""The tokens from which images run alone in 8 bits, with one scale for each. Fewer are quicker in batches, by row."""

EXPLAINING_GRAPHS: Mapping[Omissible, Callable[[onnx.ModelProto, Plan, Traced], onnx.ModelProto]] = {
    "relevance": relevance_graph,
    "libra": libra_graph,
    "integrated": integrated_graph,
    "inside": inside_graph,
}

Inputs: TypeAlias = Sequence[Sequence[Tensor]]
"""Batches of one, each a tensor per input of the base graph."""


def export(
    source: Source,
    version: str,
    root: Path,
    precision: Precision = "fp32",
    opset: int = DEFAULT_OPSET,
    *,
    samples: Path | None = None,
    calibrate: Path | None = None,
    force: bool = False,
    without: Collection[Omissible] = (),
    explain_in_float: bool = False,
    extent: Extent = "usual",
) -> Path:
    """Make the artifact `<root>/<name>/<version>/` and return its path; if it has a partner, that one's too.

    It is written to a temporary folder and moved to its place when every check, of a partner too, has passed. The
    methods in `without` are left out. A method that fails is left out too, if an artifact can be made without it; then
    everything is made again. The manifest's `verified` says why. In 8 bits, the methods that need gradients are left
    out, or with `explain_in_float` their graphs are made of the same weights in single floats. The losses of 8 bits are
    measured on `samples`, by default on random inputs, and must be within their bounds unless `force` is set. With
    `calibrate`, scales are fixed from the inputs of that path, of which every second one is kept as a sample if none
    are given. The graphs are verified on as many inputs as `extent` says.
    Raises ExportError if another check fails, CheckpointError if the disk or the samples will not do.
    """
    calibration, compared = _read_inputs(source, samples, calibrate)
    made: list[_Made] = []
    with collecting_only_new_objects(), contextlib.ExitStack() as folders:
        for own in source.together:
            target = root / own.name / version
            folder = folders.enter_context(_temporary_folder(target)) / version
            own, left_out = _prepared(own, precision, opset, without, calibration, explain_in_float=explain_in_float)
            while True:
                try:
                    begun = time.perf_counter()
                    worst = _fill(own, folder, precision, opset, calibration, compared, extent, force=force)
                    break
                except MethodError as error:
                    if error.method in left_out:
                        raise
                    own, left_out[error.method] = own.without(error.method), str(error)
                    say(f"  LEFT OUT  {error.method}, which fails: {error}; once more, without it")
                return_memory()  # what the attempt that failed has left
            made.append(_Made(own, target, folder, worst, left_out, begun))
        _write_manifests(made, version, precision, extent)
        moved = replace_folders((artifact.target, artifact.folder) for artifact in made)
        for artifact, replaced in zip(made, moved, strict=True):
            say(f"  pack      {artifact.target}")  # the path alone, which the client reads
            if replaced:
                say("  replaced  what was there; a running service keeps the old one")
            say(f"  done      at most {peak_bytes() / 1e6:.0f} MB of memory, libraries included", artifact.begun)
    return made[0].target


@dataclass(frozen=True)
class _Made:
    """An artifact that is whole but for its manifest, in a temporary folder."""

    source: Source
    target: Path
    folder: Path
    worst: Mapping[str, float]
    left_out: Mapping[Omissible, str]
    begun: float


def _prepared(
    source: Source,
    precision: Precision,
    opset: int,
    without: Collection[Omissible],
    calibration: Inputs,
    *,
    explain_in_float: bool,
) -> tuple[Source, dict[Omissible, str]]:
    """Return a source with what it is made with, without the methods that are left out, and the reason for each."""
    source = dataclasses.replace(source, made_by={**source.made_by, "opset": opset})
    if precision == "int8":
        source = dataclasses.replace(source, scales="fixed" if calibration else scales_at_run_time(source))
    return leave_out(source, precision, without, explain_in_float=explain_in_float)


def _fill(
    source: Source,
    folder: Path,
    precision: Precision,
    opset: int,
    calibration: Inputs,
    samples: Inputs,
    extent: Extent,
    *,
    force: bool,
) -> dict[str, float]:
    """Fill a folder with the files of an artifact but its manifest, and return the worst differences of its graphs.

    What an attempt before has left there is removed. Raises ExportError if a check fails.
    """
    return_large_blocks()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    announce(source, precision, extent, folder)
    with GraphWriter(folder) as graphs:
        write_graphs(source, graphs, precision, opset, calibration)
        write_tokenizers(source, folder)
        write_examples(source, folder)
        say(f"  weights   {graphs.written / 1e6:.2f} MB, {graphs.shared / 1e6:.2f} MB shared by graphs")
    worst = verify_files(source, folder, precision, extent)
    if precision in QUANTIZED:
        worst |= check_losses_of_bits(source, folder, precision, samples, force=force)
    return worst


def _write_manifests(made: Sequence[_Made], version: str, precision: Precision, extent: Extent) -> None:
    """Write the manifest of each artifact; two that are compared say so, and that they belong together."""
    pair = pair_of([one.folder for one in made])
    for one, other in zip(made, reversed(made), strict=True):
        contrast = None
        if comparison := one.source.comparison:
            contrast = Contrast(**comparison.model_dump(), partner=other.source.name, pair=pair)
        shapes = [trial.sizes for trial in chain(*rounds_of(one.source, extent))]
        write_manifest(one.source, version, precision, one.worst, one.left_out, one.folder, shapes, contrast)


def _read_inputs(source: Source, samples: Path | None, calibrate: Path | None) -> tuple[Inputs, Inputs]:
    """Return the inputs that scales are fixed on, and those that 8 bits are compared on; none where none are given."""
    if source.partner and (samples or calibrate):
        raise CheckpointError("--samples, --calibrate: are for one model, given a pair; random inputs are compared")
    compared = read_samples(source, samples, "--samples") if samples else []
    if calibrate is None:
        return [], compared
    if source.generation:
        raise CheckpointError(f"--calibrate: must be of a task that one pass answers, given {source.task}")
    given = read_samples(source, calibrate, "--calibrate")
    calibration, compared = (given, compared) if compared else (given[::2], given[1::2] or given)
    return calibration + draw_samples(source), compared  # noise widens the ranges, so that what is unusual is not cut


def scales_at_run_time(source: Source) -> Scales:
    """Return what a scale is of where it is computed at run time: whichever is quicker in batches."""
    alone = source.image and not source.generation and source.attention[0].length >= INPUT_SCALE_TOKENS
    return "input" if alone else "row"


def write_graphs(
    source: Source,
    graphs: GraphWriter,
    precision: Precision = "fp32",
    opset: int = DEFAULT_OPSET,
    calibration: Inputs = (),
) -> None:
    """Trace the base graph of a source, in each of its precisions, and write the graph of each of its roles."""
    bases: dict[Precision, onnx.ModelProto] = {}
    for plan in source.plans:
        own = source.precision_of(plan.role, precision)
        if plan.role == SALIENCY:  # which is of no model
            graphs.write(plan.role, saliency_graph(plan, opset))
            continue
        if own not in bases:
            name = f"base in {own}" if bases else "base"
            base = _trace_graph(source.base, source, own, opset, name, source.scales or "row", calibration)
            with waiting(f"  write     {name}"):
                graphs.store(base)
                # a message of protobuf frees nothing of what it held before it ends itself
                bases[own] = onnx.ModelProto.FromString(base.SerializeToString())
                del base
                return_memory()
        graph = _make_graph(plan, bases[own], source, own, opset, calibration, graphs.folder)
        if own not in HALF_DTYPES and plan.role in ("predict", "encode"):
            graph = split_causal_attention(graph, max((source.verified_longest or {}).values(), default=0))
        if own not in HALF_DTYPES:
            graph = add_masks(graph)
        with waiting(f"  write     {plan.role}"):
            graphs.write(plan.role, graph, with_casts_for_missing_kernels if precision == "bf16" else None)
            del graph  # a message frees its weights where it ends, and the next graph is traced beside none
            return_memory()


def _make_graph(
    plan: Plan,
    base: onnx.ModelProto,
    source: Source,
    precision: Precision,
    opset: int,
    calibration: Inputs,
    folder: Path,
) -> onnx.ModelProto:
    """Make the graph of a plan by tracing, or without a module of its own from the base graph (weights in `folder`)."""
    if plan.role == "predict" and plan.module is not source.base.module:
        graph = _trace_graph(plan, source, precision, opset, plan.role, source.scales or "row", calibration)
        return _fuse_if_half_precision(graph, plan, precision, opset, folder)
    if plan.role in ("hear", "encode", "align"):
        graph = _trace_graph(plan, source, precision, opset, plan.role)
        return _fuse_if_half_precision(graph, plan, precision, opset, folder)
    if plan.role == "decode":
        bare = without_top_k(plan)
        graph = _trace_graph(bare, source, precision, opset, plan.role)
        graph = _fuse_if_half_precision(graph, bare, precision, opset, folder)
        return with_top_k(graph, plan, source.generation.suppressed if source.generation else ())
    with timed_step(f"  make      {plan.role}") as step:
        if plan.role == "predict":
            graph = extract(base, plan)
        elif plan.role == "attention":
            graph = attention_graph(base, plan, source.traced, source.image)
        else:
            graph = _explaining_graph(base, plan, source)
        step.details.append(f"{len(graph.graph.node):>5} nodes")
    return _fuse_if_half_precision(graph, plan, precision, opset, folder) if plan.role == "predict" else graph


def _explaining_graph(base: onnx.ModelProto, plan: Plan, source: Source) -> onnx.ModelProto:
    """Make a graph that can be left out. Raises MethodError where an operator has no gradient, or is not expected."""
    method = cast(Omissible, plan.role)
    try:
        return EXPLAINING_GRAPHS[method](base, plan, source.traced)
    except ExportError as error:
        raise MethodError(method, str(error)) from error


def _trace_graph(
    plan: Plan,
    source: Source,
    precision: Precision,
    opset: int,
    name: str,
    scales: Scales = "row",
    calibration: Inputs = (),
) -> onnx.ModelProto:
    """Trace the definition of a plan in its precision. Of 8 bits, with these scales, fixed on inputs of the plan."""
    lowered = in_half_precision(plan, precision)
    with timed_step(f"  trace     {name}") as step:
        graph = clean(trace(lowered, source.traced_at, opset), lowered)
        step.details.append(f"{len(graph.graph.node):>5} nodes, {plan.attentions} attentions")
    if precision in QUANTIZED:
        with timed_step(f"  quantize  {name}") as step:
            graph = fuse_step(graph, lowered) if plan.role == "decode" else graph
            graph = fuse_turns(graph, lowered) if plan.role == "encode" else graph
            graph = fuse_norms(graph, lowered) if plan.role in ("decode", "encode") else graph
            if precision == "int4":
                step.details.append(f"by blocks of {BLOCK}")
                return quantize_blocks(graph)
            names = [port.name for port in plan.inputs]
            given = [{name: one.numpy() for name, one in zip(names, tensors, strict=True)} for tensors in calibration]
            graph = quantize(graph, scales, measure_ranges(graph, given) if scales == "fixed" else None)
            step.details.append(f"scales: {scales}" + (f", of {len(given)} inputs" if given else ""))
    return graph


def _fuse_if_half_precision(
    graph: onnx.ModelProto, plan: Plan, precision: Precision, opset: int, folder: Path
) -> onnx.ModelProto:
    """Fuse a graph of half floats that returns no maps for a GPU; there are no flash kernels for fp32."""
    if precision not in HALF_DTYPES or opset < FUSION_OPSET:
        return graph
    with timed_step(f"  fuse      {plan.role}") as step:
        graph = rewrite_for_gpus(graph, plan, folder)
        count = sum(node.op_type in ("Attention", "GroupQueryAttention") for node in graph.graph.node)
        step.details.append(f"{len(graph.graph.node):>5} nodes, {count} of {plan.attentions} attentions")
    return graph


def write_tokenizers(source: Source, folder: Path) -> None:
    """Write the tokenizers of a source, as far as it has them."""
    for file, content in (("tokenizer.json", source.tokenizer), (TARGET_TOKENIZER, source.target_tokenizer)):
        if content:
            (folder / file).write_text(content, encoding="utf-8")


def write_examples(source: Source, folder: Path) -> None:
    """Write the examples of a source that are files."""
    for file, content in source.example_files.items():
        (folder / file).write_bytes(content)


@contextlib.contextmanager
def _temporary_folder(target: Path) -> Iterator[Path]:
    """Yield a hidden folder beside the target; remove it afterwards, and empty folders that were made above it."""
    created = [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".", suffix=".partial") as temporary:
            yield Path(temporary)
    finally:
        for folder in created:
            with contextlib.suppress(OSError):  # it holds the artifact
                folder.rmdir()
