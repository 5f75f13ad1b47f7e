"""Lower precisions: half floats of both kinds by casting the definition, 8 bits by rewriting its graph."""

import copy
import dataclasses

import torch
from torch import Tensor, nn

from export.plan import DTYPES, HALVES, Plan, Precision, ports


class Half(nn.Module):
    """A module that computes in half floats of one kind; what is not `kept` is returned as float32."""

    def __init__(self, module: nn.Module, dtype: torch.dtype, kept: tuple[bool, ...]) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).to(dtype)
        self.kept = kept

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Take and return what the module does."""
        outputs = self.module(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return tuple(output if kept else output.float() for output, kept in zip(outputs, self.kept, strict=True))


def lowered(plan: Plan, precision: Precision) -> Plan:
    """Return the plan whose graph is to be made: in half floats for fp16 and bf16, and else the same."""
    if precision not in HALVES:
        return plan
    outputs = ports(plan.outputs, precision)
    module = Half(plan.module, DTYPES[HALVES[precision]], tuple(port.dtype == HALVES[precision] for port in outputs))
    return dataclasses.replace(plan, module=module, inputs=ports(plan.inputs, precision), outputs=outputs)
