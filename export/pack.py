"""Write an artifact: one file per graph, one file of weights that the graphs share, and the manifest last."""

import contextlib
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from io import BufferedWriter
from pathlib import Path
from types import TracebackType
from typing import TypeAlias, get_args

import onnx

from contract.artifact import MANIFEST, describe
from contract.contrast import Contrast
from contract.manifest import LEFT_OUT, WEIGHTS, GradientMethod, Graph, Manifest, Omissible, Role
from export.plan import Precision, Sizes, Source, format_sizes, ports_in_precision

ALIGNMENT_BYTES = 4096  # a page, so that the runtime can map each tensor into memory
INLINE_BYTES = 1024  # bytes; smaller tensors stay in the graph, where shape inference can see them


Change: TypeAlias = Callable[[onnx.ModelProto], onnx.ModelProto]
"""Changes the nodes of a graph, whose weights lie in a file."""


class GraphWriter:
    """Writes `<role>.onnx` one after the other, and `weights.bin` beside them, which holds equal tensors once.

    The weights of a graph that is part of an earlier one are in that file already.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._weights: BufferedWriter = (folder / WEIGHTS).open("wb")
        self._offsets: dict[bytes, int] = {}
        self.shared = 0
        """Bytes of weights that a graph uses and that were already written for another."""

    def __enter__(self) -> "GraphWriter":
        """Return the writer; the file of weights is closed when the block ends."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file of weights."""
        self._weights.close()

    @property
    def written(self) -> int:
        """Bytes of weights written so far."""
        return self._weights.tell()

    def write(self, role: Role, graph: onnx.ModelProto, change: Change | None = None) -> None:
        """Write a graph to its file, as `change` returns it, and before that its weights to the shared file."""
        self.store(graph)
        graph = change(graph) if change else graph
        (self.folder / f"{role}.onnx").write_bytes(graph.SerializeToString(deterministic=True))

    def store(self, graph: onnx.ModelProto) -> None:
        """Move a graph's weights from memory to the shared file. Tensors below INLINE_BYTES stay in the graph."""
        for tensor in graph.graph.initializer:
            data = tensor.raw_data
            self.shared += sum(int(entry.value) for entry in tensor.external_data if entry.key == "length")
            if len(data) < INLINE_BYTES:
                continue
            key = hashlib.sha256(data).digest()
            if key in self._offsets:
                self.shared += len(data)
            else:
                self._weights.write(b"\0" * (-self._weights.tell() % ALIGNMENT_BYTES))
                self._offsets[key] = self._weights.tell()
                self._weights.write(data)
            onnx.external_data_helper.set_external_data(
                tensor, location=WEIGHTS, offset=self._offsets[key], length=len(data)
            )
            tensor.ClearField("raw_data")
        self._weights.flush()


def write_manifest(
    source: Source,
    version: str,
    precision: Precision,
    verified: Mapping[str, float],
    left_out: Mapping[Omissible, str],
    folder: Path,
    shapes: Collection[Sizes] = (),
    contrast: Contrast | None = None,
) -> Manifest:
    """Describe every file of the folder and write the manifest beside them.

    `verified` are the worst differences, found at these `shapes`, `left_out` the reason for each method, or `inside`,
    that was left out.
    """
    graphs = {
        plan.role: Graph(
            **describe(folder / f"{plan.role}.onnx").model_dump(),
            inputs=ports_in_precision(plan.inputs, precision),
            outputs=ports_in_precision(plan.outputs, precision),
        )
        for plan in source.plans
    }
    listed = {graph.file for graph in graphs.values()}
    manifest = Manifest(
        name=source.name,
        version=version,
        family=source.family,
        task=source.task,
        about=source.about,
        order=source.order,
        examples=source.examples,
        precision=precision,
        scales=(source.scales or "row") if precision == "int8" else None,
        graphs=graphs,
        files=tuple(describe(path) for path in sorted(folder.iterdir()) if path.name not in listed),
        inputs=source.inputs,
        labels=source.labels,
        scores=source.scores,
        attention=source.attention,
        width=source.width,
        generation=source.generation,
        detection=source.detection,
        contrast=contrast,
        explained=source.explained if graphs.keys() & get_args(GradientMethod) else None,
        best=source.best if source.best and source.has(source.best.method) else None,
        made_by=source.made_by,
        verified={
            **{what: float(f"{worst:.3g}") for what, worst in sorted(verified.items())},
            **{method: f"{LEFT_OUT}: {reason}" for method, reason in left_out.items()},
            "shapes": "; ".join(dict.fromkeys(map(format_sizes, shapes))),
            "traced": format_sizes(source.traced_at),
            **({"run in": "fp32, weights as rounded to bf16"} if precision == "bf16" else {}),
        },
    )
    (folder / MANIFEST).write_text(json.dumps(manifest.model_dump(mode="json"), indent=1) + "\n")
    return manifest


def pair_of(folders: Sequence[Path]) -> str:
    """Return what two artifacts that belong together have in common, and share with no other: a hash of all files."""
    listed = [f"{file.sha256} {file.file}" for folder in folders for file in map(describe, sorted(folder.iterdir()))]
    return hashlib.sha256("\n".join(listed).encode()).hexdigest()


def replace_folders(moves: Iterable[tuple[Path, Path]]) -> list[bool]:
    """Move each folder to its target, and what is there beside it; return whether something was there.

    If that is interrupted, what was at all targets stays there.
    """
    with contextlib.ExitStack() as undo:
        replaced = [_replace(target, folder, folder.parent / "old", undo) for target, folder in moves]
        undo.pop_all()
    return replaced


def _replace(target: Path, folder: Path, old: Path, undo: contextlib.ExitStack) -> bool:
    replaced = target.exists()
    undo.callback(_move_back, old, target)  # before anything moves, since a signal may interrupt in between
    undo.callback(_move_back, target, folder)
    if replaced:
        target.rename(old)
    folder.rename(target)
    return replaced


def _move_back(moved: Path, before: Path) -> None:
    if moved.exists() and not before.exists():
        moved.rename(before)
