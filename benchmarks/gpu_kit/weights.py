"""Models without their large weights: graphs and small tensors are carried, large ones are drawn anew from a seed.

What is timed does not depend on the numbers, as long as they have the size of the real ones: of each large tensor the
mean and the deviation are kept.
"""

import hashlib
import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import onnx

from contract.manifest import WEIGHTS

CARRIED_BYTES = 16384
"""Tensors up to this size are carried as they are."""
DRAWN = {onnx.TensorProto.FLOAT: np.float32, onnx.TensorProto.FLOAT16: np.float16}
"""The types of tensors that are drawn; others are carried."""
SMALL_FILE, DRAWN_FILE = "small.npz", "drawn.json"


def tensors(folder: Path) -> dict[int, tuple[int, int]]:
    """Return every tensor in the file of weights, by where it begins: its bytes and its type."""
    found: dict[int, tuple[int, int]] = {}
    graphs = [onnx.load(file, load_external_data=False).graph for file in sorted(folder.glob("*.onnx"))]
    while graphs:
        graph = graphs.pop()
        for tensor in graph.initializer:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                entry = {pair.key: pair.value for pair in tensor.external_data}
                found[int(entry.get("offset", 0))] = (int(entry["length"]), tensor.data_type)
        graphs += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return found


def strip(artifact: Path, target: Path) -> None:
    """Write an artifact without its large tensors, of which the mean and the deviation are kept."""
    target.mkdir(parents=True)
    for file in artifact.iterdir():
        if file.name != WEIGHTS:
            shutil.copy(file, target / file.name)
    blob = np.memmap(artifact / WEIGHTS, np.uint8, "r")
    small: dict[str, np.ndarray] = {}
    drawn = []
    for start, (length, kind) in sorted(tensors(artifact).items()):
        part = blob[start : start + length]
        values = part.view(DRAWN[kind]).astype(np.float64) if kind in DRAWN and length > CARRIED_BYTES else None
        if values is None or not np.isfinite(values).all():  # what is never generated has -inf
            small[str(start)] = np.asarray(part)
        else:
            drawn.append([start, length, kind, values.mean(), values.std()])
    np.savez_compressed(target / SMALL_FILE, **small)
    (target / DRAWN_FILE).write_text(json.dumps({"bytes": len(blob), "tensors": drawn}))


def fill(stripped: Path, artifact: Path) -> None:
    """Write the artifact again, with its large tensors drawn, and their hash in its manifest."""
    artifact.mkdir(parents=True)
    kept = json.loads((stripped / DRAWN_FILE).read_text())
    blob = np.zeros(kept["bytes"], np.uint8)
    for start, part in np.load(stripped / SMALL_FILE).items():
        blob[int(start) : int(start) + len(part)] = part
    for start, length, kind, mean, deviation in kept["tensors"]:
        generator = np.random.Generator(np.random.SFC64(zlib.crc32(str(start).encode())))
        values = generator.standard_normal(length // np.dtype(DRAWN[kind]).itemsize, np.float32)
        scaled = values * np.float32(deviation) + np.float32(mean)
        blob[start : start + length] = scaled.astype(DRAWN[kind]).view(np.uint8)
    (artifact / WEIGHTS).write_bytes(blob.tobytes())
    for file in stripped.iterdir():
        if file.name not in (SMALL_FILE, DRAWN_FILE):
            shutil.copy(file, artifact / file.name)
    manifest = json.loads((artifact / "manifest.json").read_text())
    for entry in manifest["files"]:
        if entry["file"] == WEIGHTS:
            entry["sha256"] = hashlib.sha256(blob).hexdigest()
    (artifact / "manifest.json").write_text(json.dumps(manifest))
