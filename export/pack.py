"""Write an artifact: one file a graph, their weights in one file that they share, and the manifest last."""

import hashlib
import json
from io import BufferedWriter
from pathlib import Path
from types import TracebackType

import onnx

from contract.artifact import MANIFEST, describe
from contract.manifest import Graph, Manifest, Role
from export.plan import Precision, Source, ports, words

WEIGHTS = "weights.bin"
ALIGNMENT = 4096  # a page, so that the runtime can map each tensor into memory
INLINE = 1024  # bytes; smaller tensors stay in the graph, where shape inference can see them


class Graphs:
    """Writes `<role>.onnx` one after the other and `weights.bin` beside them, in which equal tensors lie once.

    A graph that is a part of one written before has its weights there already.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._weights: BufferedWriter = (folder / WEIGHTS).open("wb")
        self._offsets: dict[bytes, int] = {}
        self.shared = 0
        """Bytes that need not be written again."""

    def __enter__(self) -> "Graphs":
        """Write within a block, which closes the weights."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the weights."""
        self._weights.close()

    @property
    def written(self) -> int:
        """Bytes of the weights so far."""
        return self._weights.tell()

    def write(self, role: Role, graph: onnx.ModelProto) -> None:
        """Write a graph, and its weights as `store` does."""
        self.store(graph)
        (self._folder / f"{role}.onnx").write_bytes(graph.SerializeToString(deterministic=True))

    def store(self, graph: onnx.ModelProto) -> None:
        """Write a graph's weights to the shared file; they leave its memory."""
        for tensor in graph.graph.initializer:
            data = tensor.raw_data
            self.shared += sum(int(entry.value) for entry in tensor.external_data if entry.key == "length")
            if len(data) < INLINE:
                continue
            key = hashlib.sha256(data).digest()
            if key in self._offsets:
                self.shared += len(data)
            else:
                self._weights.write(b"\0" * (-self._weights.tell() % ALIGNMENT))
                self._offsets[key] = self._weights.tell()
                self._weights.write(data)
            onnx.external_data_helper.set_external_data(
                tensor, location=WEIGHTS, offset=self._offsets[key], length=len(data)
            )
            tensor.ClearField("raw_data")
        self._weights.flush()


def write_manifest(
    source: Source, version: str, precision: Precision, verified: dict[str, float], folder: Path
) -> Manifest:
    """Describe every file of the folder and write the manifest beside them."""
    graphs = {
        plan.role: Graph(
            **describe(folder / f"{plan.role}.onnx").model_dump(),
            inputs=ports(plan.inputs, precision),
            outputs=ports(plan.outputs, precision),
        )
        for plan in source.plans
    }
    listed = {graph.file for graph in graphs.values()}
    manifest = Manifest(
        name=source.name,
        version=version,
        family=source.family,
        task=source.task,
        precision=precision,
        graphs=graphs,
        files=tuple(describe(path) for path in sorted(folder.iterdir()) if path.name not in listed),
        image=source.image,
        text=source.text,
        labels=source.labels,
        scores=source.scores,
        attention=source.attention,
        generation=source.generation,
        made_by=source.made_by,
        verified={
            **{what: float(f"{worst:.3g}") for what, worst in sorted(verified.items())},
            "shapes": "; ".join(words(sizes) for sizes in source.tried),
            "traced": words(source.traced),
            **({"run in": "fp32, weights as rounded to bf16"} if precision == "bf16" else {}),
        },
    )
    (folder / MANIFEST).write_text(json.dumps(manifest.model_dump(mode="json"), indent=1) + "\n")
    return manifest
