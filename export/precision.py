"""Lower precisions: half floats by casting the definition, 8-bit weights by quantizing its graph."""

import copy
import dataclasses
import logging
import tempfile
from pathlib import Path
from typing import Literal, TypeAlias

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn

from contract.manifest import Port
from export.plan import Plan

Precision: TypeAlias = Literal["fp32", "fp16", "int8"]

OWN = ("past.", "present.", "decoder.blocks.", "encoder.blocks.")
"""What caches, memory, weights and values are called: they stay in the precision that the graph computes in."""


class Half(nn.Module):
    """A module that computes in half floats; what is not `kept` is returned as float32."""

    def __init__(self, module: nn.Module, kept: tuple[bool, ...]) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).half()
        self.kept = kept

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Take and return what the module does."""
        outputs = self.module(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return tuple(output if kept else output.float() for output, kept in zip(outputs, self.kept, strict=True))


def lowered(plan: Plan, precision: Precision) -> Plan:
    """Return the plan whose graph is to be made: in half floats for fp16, and else the same."""
    if precision != "fp16":
        return plan
    outputs = ports(plan.outputs, precision)
    module = Half(plan.module, tuple(port.dtype == "float16" for port in outputs))
    return dataclasses.replace(plan, module=module, inputs=ports(plan.inputs, precision), outputs=outputs)


def ports(given: tuple[Port, ...], precision: Precision) -> tuple[Port, ...]:
    """Return the ports of a graph of that precision."""
    return tuple(
        port.model_copy(update={"dtype": "float16"})
        if precision == "fp16" and port.dtype == "float32" and port.name.startswith(OWN)
        else port
        for port in given
    )


def quantize(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Return a graph whose matrices are 8-bit, a scale a column; activations are quantized as they come."""
    logging.getLogger().addFilter(_unasked)
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "before.onnx"), Path(folder, "after.onnx")
        onnx.save_model(graph, before, save_as_external_data=True, location="before.bin")
        quantize_dynamic(
            before,
            after,
            op_types_to_quantize=["MatMul", "Gemm"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            use_external_data_format=True,
            extra_options={"MatMulConstBOnly": True},
        )
        return onnx.load_model(after)


def _unasked(record: logging.LogRecord) -> bool:
    """Drop the advice to infer shapes first, which the runtime does when it loads."""
    return "pre-processing before quantization" not in record.getMessage()
