"""`python -m export NAME ...`: make artifacts, say what was done and how far it was off.

A name is that of a bundled model, a folder with a checkpoint in the Hugging Face layout, or its name on the hub. Exit
status: 0, 1 where a check failed, 2 where the request or the checkpoint is wrong (nothing of it was written then), 130
or 143 after a signal.
"""

import argparse
import contextlib
import dataclasses
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast, get_args

import onnx
import onnxruntime as ort
from torch import nn

from contract.manifest import NAME, Role
from export.graphs.bfloat16 import widened, with_kernels
from export.bundled import SOURCES
from export.checkpoints.checkpoint import CheckpointError, open_checkpoint
from export.checkpoints.families import FAMILIES
from export.checkpoints.family import Wish
from export.graphs.fusion import OPSET as FUSED
from export.graphs.fusion import fused
from export.tasks.traced import Look
from export.graphs.top_k import stepping, with_likeliest
from export.checks.int8_loss import BOUNDS, drawn, hold, losses, sampled
from export.graphs.cleanup import ExportError, optimize, part
from export.pack import Graphs, write_manifest
from export.plan import Plan, Source
from export.graphs.float16 import HALVES, Precision, lowered, quantize
from export.graphs.attention import attention_graph, relevance_graph
from export.tasks.ports import TARGET_TOKENIZER
from export.graphs.torch_export import OPSET, OPSETS, trace
from export.checks.verify import verify
from model.weights import WeightsError


def main() -> int:
    """Export what the command line names. Returns the exit status."""
    arguments = _arguments()
    stopped.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)  # so that what is half made is removed
    if arguments.list:
        print(_listed())
        return 0
    try:
        for name in arguments.names:
            source = _source(name, arguments)
            export(
                source, arguments.version, arguments.to, arguments.precision, arguments.opset,
                samples=arguments.samples, force=arguments.force,
            )  # fmt: skip
    except KeyboardInterrupt:
        print(f"{name}: not exported: interrupted", file=sys.stderr)
        return 128 + (stopped[0] if stopped else signal.SIGINT)
    except CheckpointError as error:
        print(f"{name}: not exported: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{name}: not exported: {arguments.to}: cannot be written: {error.strerror}", file=sys.stderr)
        return 2
    except (ExportError, WeightsError) as error:
        print(f"{name}: not exported: {error}", file=sys.stderr)
        return 1
    return 0


stopped: list[int] = []
"""Signals that have come. A library may swallow the interrupt in its midst; the step then ends with it."""


def _stop(number: int, _: object) -> None:
    stopped.append(number)
    raise KeyboardInterrupt


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m export", description="Turn PyTorch definitions and their weights into artifacts."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"a bundled model ({', '.join(SOURCES)}), a checkpoint's folder, or its name on the hub",
    )
    parser.add_argument("--to", type=Path, default=Path("artifacts"), help="folder of artifacts (default: artifacts)")
    parser.add_argument("--version", default="1", help="the artifact's version (default: 1)")
    parser.add_argument("--name", help="the artifact's name (default: the last part of NAME)")
    parser.add_argument(
        "--task",
        choices=sorted({task for one in FAMILIES.values() for task in one.tasks}),
        help="what to export a checkpoint for (default: it says so)",
    )
    parser.add_argument("--image-size", type=_size, metavar="HEIGHTxWIDTH", help="where not the checkpoint's own")
    parser.add_argument("--precision", choices=get_args(Precision), default="fp32", help="(default: fp32)")
    parser.add_argument(
        "--opset",
        type=int,
        choices=OPSETS,
        default=OPSET,
        help=f"of ONNX, {OPSETS[0]} to {OPSETS[-1]} (default: {OPSET})",
    )
    parser.add_argument(
        "--samples",
        type=Path,
        help="a folder of images, or a file with a text a line, on which what int8 loses is measured (default: random)",
    )
    parser.add_argument("--force", action="store_true", help="export int8 though it loses more than is allowed")
    parser.add_argument("--revision", help="branch, tag or commit on the hub")
    parser.add_argument("--ignore", action="append", default=[], metavar="KEY", help="of a configuration; repeatable")
    parser.add_argument("--list", action="store_true", help="list what can be exported")
    arguments = parser.parse_args()
    if not arguments.names and not arguments.list:
        parser.error(f"NAME: one or more, such as {', '.join(SOURCES)} or a checkpoint's folder")
    if (arguments.samples or arguments.force) and arguments.precision != "int8":
        parser.error("--samples and --force: are for --precision int8")
    if arguments.name and len(arguments.names) > 1:
        parser.error("--name: is for one NAME at a time")
    for what in ("version", "name"):
        if (given := getattr(arguments, what)) is not None and not re.fullmatch(NAME, given):
            parser.error(f"--{what}: must be letters, digits, '.', '_' and '-', beginning with a letter or digit")
    return arguments


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d{0,4})(?:x([1-9]\d{0,4}))?", text)
    if not found:
        raise argparse.ArgumentTypeError("must be such as 224 or 224x160, height first")
    height, width = found.groups()
    return int(height), int(width or height)


def _listed() -> str:
    lines = ["bundled:"] + [f"  {name}" for name in SOURCES] + ["checkpoints, by model_type:"]
    for name, family in FAMILIES.items():
        options = f"  ({family.options})" if family.options else ""
        lines.append(f"  {name:<22}{', '.join(family.tasks)}{options}")
    lines.append("of every checkpoint: --name --task --precision --opset --revision --ignore")
    return "\n".join(lines)


def _source(name: str, arguments: argparse.Namespace) -> Source:
    """Read what is to be exported. Raises CheckpointError."""
    if name in SOURCES:
        if arguments.task or arguments.image_size or arguments.revision or arguments.ignore:
            raise CheckpointError("--task, --image-size, --revision and --ignore are for checkpoints")
        source = SOURCES[name]()
        return dataclasses.replace(source, name=arguments.name or source.name)
    start = time.perf_counter()
    checkpoint = open_checkpoint(name, arguments.revision)
    wanted = arguments.name or re.sub(r"[^A-Za-z0-9._-]", "-", Path(name).resolve().name).lstrip(".-_")[:128]
    if not re.fullmatch(NAME, wanted):
        raise CheckpointError("--name: is needed, since NAME has no letter or digit to make one of")
    kind = checkpoint.config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise CheckpointError(f"config.json: model_type must be one of {', '.join(FAMILIES)}, given {str(kind)[:64]!r}")
    wish = Wish(wanted, arguments.task, arguments.image_size, tuple(arguments.ignore))
    try:
        source = FAMILIES[kind].source(checkpoint, wish)
    except (MemoryError, RuntimeError, OverflowError) as error:  # of sizes that no machine has
        raise CheckpointError(f"config.json: the model cannot be built: {str(error).splitlines()[0][:200]}") from error
    say(f"{wanted}: {kind} for {source.task}, {len(checkpoint.tensors)} tensors read", start)
    if aside := source.made_by["set_aside"]:
        say(f"  not used by {source.task}: {aside}")
    return source


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


if __name__ == "__main__":
    sys.exit(main())
