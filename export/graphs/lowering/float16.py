"""Half floats of both kinds, float16 and bfloat16: the definition is cast before it is traced."""

import copy
import dataclasses

import torch
from torch import Tensor, nn

from export.plan import HALF_DTYPES, TORCH_DTYPES, Plan, Precision, ports_in_precision


class HalfPrecision(nn.Module):
    """A module that computes in half floats of one kind. Outputs that are not `kept` so are returned as float32."""

    def __init__(self, module: nn.Module, dtype: torch.dtype, kept: tuple[bool, ...]) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).to(dtype)
        self.kept = kept

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Take the inputs of the module and return its outputs."""
        outputs = self.module(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return tuple(output if kept else output.float() for output, kept in zip(outputs, self.kept, strict=True))


def in_half_precision(plan: Plan, precision: Precision) -> Plan:
    """Return the plan in half floats for fp16 and bf16; for other precisions, return it unchanged."""
    if precision not in HALF_DTYPES:
        return plan
    outputs = ports_in_precision(plan.outputs, precision)
    module = HalfPrecision(
        plan.module,
        TORCH_DTYPES[HALF_DTYPES[precision]],
        tuple(port.dtype == HALF_DTYPES[precision] for port in outputs),
    )
    return dataclasses.replace(plan, module=module, inputs=ports_in_precision(plan.inputs, precision), outputs=outputs)
