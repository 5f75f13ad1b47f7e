"""Definition to ONNX: `torch.onnx.export` through torch.export, with named axes."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

import onnx
import torch

from export.graphs.gru import TRANSLATIONS, traceable
from export.plan import Plan, Sizes

OPSET = 20
"""The first with one `Gelu` node, and the one at which dynamic int8 quantization was fastest on a CPU."""

OPSETS = range(18, 25)
"""Those that the exporter writes and the runtime reads."""


def trace(plan: Plan, sizes: Sizes, opset: int = OPSET) -> onnx.ModelProto:
    """Return the graph of a plan, traced at the given sizes, with its ports' names and every string axis dynamic.

    Any warning of the exporter is an error: it says that the graph is not what the definition is.
    """
    arguments = plan.example(sizes, seed=0)
    shapes = [
        {index: torch.export.Dim.DYNAMIC for index, axis in enumerate(port.axes) if isinstance(axis, str)}
        for port in plan.inputs
    ]
    named = plan.module.forward.__code__.co_argcount - 1  # without self
    with _strict():
        program = torch.onnx.export(
            traceable(plan.module.eval()),
            tuple(arguments),
            dynamo=True,
            opset_version=opset,
            input_names=[port.name for port in plan.inputs],
            output_names=[port.name for port in plan.outputs],
            dynamic_shapes=(*shapes[:named], tuple(shapes[named:])) if len(shapes) > named else tuple(shapes),
            custom_translation_table=TRANSLATIONS,
            external_data=False,
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned no program")
    return program.model_proto


@contextlib.contextmanager
def _strict() -> Iterator[None]:
    registration = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = registration.level
    registration.setLevel(logging.ERROR)  # it says at length that torchvision, which nothing here uses, is absent
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("error")
            # torch 2.13 copying its own deprecated class
            warnings.filterwarnings("ignore", category=FutureWarning, message=r".*isinstance\(treespec, LeafSpec\)")
            yield
    finally:
        registration.setLevel(level)
