"""Trace a definition to an ONNX graph with named axes, by `torch.onnx.export` through torch.export."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import onnx
import torch
from onnxscript import ir

from export.graphs.tracing.decompositions import decomposed_in_place
from export.graphs.tracing.gru import ONNX_TRANSLATIONS, with_traceable_gru
from export.graphs.tracing.repeated_work import without_repeated_work
from export.plan import Plan, Sizes

DEFAULT_OPSET = 20
"""The first opset with a `Gelu` operator, and the one at which dynamic int8 quantization was fastest on a CPU."""

SUPPORTED_OPSETS = range(18, 25)
"""The opsets that the exporter writes and the runtime reads."""


def trace(plan: Plan, sizes: Sizes, opset: int = DEFAULT_OPSET) -> onnx.ModelProto:
    """Return the graph of a plan, traced at the given sizes, with its ports' names and every string axis dynamic.

    Any warning of the exporter is an error: it says that the graph is not what the definition is.
    """
    arguments = plan.example(sizes, seed=0)
    shapes = [
        {index: torch.export.Dim.DYNAMIC for index, axis in enumerate(port.axes) if isinstance(axis, str)}
        for port in plan.inputs
    ]
    named = plan.module.forward.__code__.co_argcount - 1  # without self
    with _warnings_as_errors(), decomposed_in_place(), without_repeated_work():
        program = torch.onnx.export(
            with_traceable_gru(plan.module.eval()),
            tuple(arguments),
            dynamo=True,
            opset_version=opset,
            input_names=[port.name for port in plan.inputs],
            output_names=[port.name for port in plan.outputs],
            dynamic_shapes=(*shapes[:named], tuple(shapes[named:])) if len(shapes) > named else tuple(shapes),
            custom_translation_table=ONNX_TRANSLATIONS,
            external_data=False,
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned no program")
    for weight in program.model.graph.initializers.values():
        weight.const_value = _leaving(weight.const_value)
    return program.model_proto


def _leaving(tensor: Any) -> ir.LazyTensor:  # noqa: ANN401 # of any class of onnxscript's
    """Return a tensor whose numbers can be read once, and are held no longer.

    So the weights that the tracer made are freed one by one, as the graph's message takes them, and a large model is
    not held twice. (The optimizer's rules, too, remember the graph that they saw last.)
    """
    held = [tensor]
    return ir.LazyTensor(held.pop, tensor.dtype, tensor.shape, name=tensor.name)


@contextlib.contextmanager
def _warnings_as_errors() -> Iterator[None]:
    registration = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = registration.level
    registration.setLevel(logging.ERROR)  # it warns that torchvision is absent, which nothing here uses
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("error")
            # torch 2.13 copying its own deprecated class
            warnings.filterwarnings("ignore", category=FutureWarning, message=r".*isinstance\(treespec, LeafSpec\)")
            yield
    finally:
        registration.setLevel(level)
