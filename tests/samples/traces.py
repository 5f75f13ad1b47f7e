"""Traces of definitions: most of an export, so each is made once and kept until a definition or a tracer changes."""

import hashlib
import io
import os
import pickle
import shutil

import onnx
import torch

from export.graphs.torch_export import DEFAULT_OPSET, trace
from tests.samples.exports import KEPT, contents, packages

READ_BY_A_TRACE = (
    "contract",
    "model",
    *(f"export/{name}.py" for name in ("plan", "traced")),
    "export/tasks",
    *(f"export/graphs/{name}.py" for name in ("torch_export", "decompositions", "gru", "float16")),
)
LARGEST = 16 << 20
"""Bytes of a graph, with its weights, that is kept."""


class Written(pickle.Pickler):
    """Writes tensors as their values: torch writes their addresses, too."""

    def reducer_override(self, given):
        if not isinstance(given, torch.Tensor):
            return NotImplemented
        values = given.detach().flatten().view(torch.uint8).numpy().tobytes()
        return tuple, ((str(given.dtype), tuple(given.shape), values),)


def traced_once(plan, sizes, opset=DEFAULT_OPSET):
    """Trace a plan, or read the graph of the same definition, weights and sizes: a trace takes seconds."""
    written = io.BytesIO()
    try:
        Written(written).dump((plan.module, plan.inputs, plan.outputs, sizes, opset))
    except (pickle.PicklingError, AttributeError, TypeError):  # a definition that holds a function
        return trace(plan, sizes, opset)
    folder = folder_of_traces()
    file = folder / f"{hashlib.sha256(written.getvalue()).hexdigest()}.onnx"
    if file.exists():
        return onnx.load(file)
    graph = trace(plan, sizes, opset)
    data = graph.SerializeToString()
    if len(data) <= LARGEST:
        part = file.with_suffix(f".{os.getpid()}")
        part.write_bytes(data)
        part.rename(file)  # whole, whoever else writes it at the same time
    return graph


def folder_of_traces():
    """Return the folder of what was traced by today's code; that of older code goes."""
    key = hashlib.sha256(f"{packages()} {contents(*READ_BY_A_TRACE)}".encode()).hexdigest()[:16]
    folder = KEPT / f"traces-{key}"
    if not folder.exists():
        for old in KEPT.glob(f"traces-{'?' * len(key)}"):
            shutil.rmtree(old, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
    return folder
