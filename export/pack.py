"""Write an artifact: one file a graph, their weights in one file that they share, and the manifest last."""

import json
from collections.abc import Mapping
from pathlib import Path

import onnx

from contract.artifact import MANIFEST, describe
from contract.manifest import Graph, Manifest, Role
from export.plan import Source, words

WEIGHTS = "weights.bin"
ALIGNMENT = 4096  # a page, so that the runtime can map each tensor into memory
INLINE = 1024  # bytes; smaller tensors stay in the graph, where shape inference can see them


def write_graphs(graphs: Mapping[Role, onnx.ModelProto], folder: Path) -> tuple[int, int]:
    """Write `<role>.onnx` for each role and `weights.bin`, in which equal tensors lie once.

    Returns the bytes written to the weights file and the bytes that sharing saved.
    """
    offsets: dict[bytes, int] = {}
    saved = 0
    with (folder / WEIGHTS).open("wb") as weights:
        for role, graph in graphs.items():
            for tensor in graph.graph.initializer:
                data = tensor.raw_data
                if len(data) < INLINE:
                    continue
                if data in offsets:
                    saved += len(data)
                else:
                    weights.write(b"\0" * (-weights.tell() % ALIGNMENT))
                    offsets[data] = weights.tell()
                    weights.write(data)
                onnx.external_data_helper.set_external_data(
                    tensor, location=WEIGHTS, offset=offsets[data], length=len(data)
                )
                tensor.ClearField("raw_data")
            (folder / f"{role}.onnx").write_bytes(graph.SerializeToString(deterministic=True))
        return weights.tell(), saved


def write_manifest(source: Source, version: str, verified: dict[str, float], folder: Path) -> Manifest:
    """Describe every file of the folder and write the manifest beside them."""
    graphs = {
        plan.role: Graph(
            **describe(folder / f"{plan.role}.onnx").model_dump(), inputs=plan.inputs, outputs=plan.outputs
        )
        for plan in source.plans
    }
    listed = {graph.file for graph in graphs.values()}
    manifest = Manifest(
        name=source.name,
        version=version,
        family=source.family,
        task=source.task,
        precision="fp32",
        graphs=graphs,
        files=tuple(describe(path) for path in sorted(folder.iterdir()) if path.name not in listed),
        image=source.image,
        text=source.text,
        labels=source.labels,
        attention=source.attention,
        generation=source.generation,
        made_by=source.made_by,
        verified={
            **{what: float(f"{worst:.3g}") for what, worst in sorted(verified.items())},
            "shapes": "; ".join(words(sizes) for sizes in source.tried),
            "traced": words(source.traced),
        },
    )
    (folder / MANIFEST).write_text(json.dumps(manifest.model_dump(mode="json"), indent=1) + "\n")
    return manifest
