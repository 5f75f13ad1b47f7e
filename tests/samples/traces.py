"""Traces of definitions: most of an export, so each is made once and kept until a definition or a tracer changes."""

import dataclasses
import enum
import hashlib
import inspect
import os
import shutil
import types
from collections.abc import Mapping
from unittest import mock

import numpy as np
import onnx
import torch
from pydantic import BaseModel
from torch import nn

from export.graphs.tracing.torch_export import DEFAULT_OPSET, trace
from tests.samples.exports import KEPT, contents, packages

READ_BY_A_TRACE = (
    "contract",
    "model",
    *(f"export/{name}" for name in ("plan.py", "traced", "tasks")),
    *(f"export/graphs/{name}" for name in ("tracing", "lowering/float16.py")),
)
LARGEST = 16 << 20
"""The most bytes of a graph, with its weights, that is kept."""


class Unknown(Exception):
    """A definition holds something whose value is not known to be all of it."""


def described(it, seen):
    """Yield bytes that are equal for equal definitions, in any process; `seen` numbers tensors, which may be shared."""
    if isinstance(it, torch.Tensor):
        known = id(it) in seen
        yield f"tensor {seen.setdefault(id(it), len(seen))} {it.dtype} {tuple(it.shape)}".encode()
        yield b"" if known else it.detach().flatten().view(torch.uint8).numpy().tobytes()
    elif it is None or isinstance(it, bool | int | float | str | bytes | enum.Enum | torch.dtype | torch.device):
        yield repr(it).encode()
    elif isinstance(it, np.ndarray | np.generic):
        yield f"{it.dtype} {it.shape}".encode() + it.tobytes()
    elif isinstance(it, BaseModel):
        yield f"{type(it)} {it.model_dump_json()}".encode()
    elif isinstance(it, type | types.BuiltinFunctionType) or (inspect.isfunction(it) and not it.__closure__):
        yield named(it)
    elif isinstance(it, Mapping):
        yield from described(list(it.items()), seen)
    elif isinstance(it, set | frozenset):
        yield from described(sorted(it), seen)
    elif isinstance(it, list | tuple):
        yield f"{type(it).__name__} of {len(it)}".encode()
        for part in it:
            yield from described(part, seen)
    elif isinstance(it, nn.Module) or dataclasses.is_dataclass(it):
        yield named(type(it))
        yield from described({name: value for name, value in vars(it).items() if name != "training"}, seen)
    else:
        raise Unknown(type(it))


def named(it):
    """Return the name of a class or a function, whose code is among READ_BY_A_TRACE or in a package."""
    if it.__module__.partition(".")[0] == "tests":
        raise Unknown(it)
    return f"{it.__module__}.{it.__qualname__}".encode()


def traced_once(plan, sizes, opset=DEFAULT_OPSET):
    """Trace a plan, or read the graph of the same definition, weights and sizes: a trace takes seconds."""
    if sum(one.nbytes for one in plan.module.parameters()) > LARGEST:
        return trace(plan, sizes, opset)
    found = hashlib.sha256()
    try:
        for part in described((plan.module, plan.inputs, plan.outputs, sizes, opset), {}):
            found.update(part)
    except Unknown:
        return trace(plan, sizes, opset)
    file = folder_of_traces() / f"{found.hexdigest()}.onnx"
    if file.exists():
        return onnx.load(file)
    graph = trace(plan, sizes, opset)
    part = file.with_suffix(f".{os.getpid()}")
    part.write_bytes(graph.SerializeToString())
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


def traces_kept():
    """Return a context in which exports read what was traced before."""
    return mock.patch("export.pipeline.trace", traced_once)
