"""Recurrent layers as one GRU node each. (Traced as they are, they would fix the length of sequences.)"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from onnxscript import opset20
from torch import Tensor, nn


@torch.library.custom_op("regard::gru", mutates_args=())
def gru(x: Tensor, weight: Tensor, recurrent: Tensor, bias: Tensor) -> Tensor:
    """Stand for the GRU of ONNX: x (token, batch, inputs) -> the state after each token (token, batch, width).

    The first state is zeros.
    weight (1, 3 width, inputs), recurrent (1, 3 width, width) and bias (1, 6 width) hold update, reset and new gates.
    """
    raise NotImplementedError("this node is traced, and run by the runtime only")


@gru.register_fake
def _(x: Tensor, weight: Tensor, recurrent: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], recurrent.shape[2])


def _translate_gru(x: Any, weight: Any, recurrent: Any, bias: Any) -> Any:  # noqa: ANN401 # values of the graph that is made
    width = recurrent.shape[2]
    states, _ = opset20.GRU(x, weight, recurrent, bias, hidden_size=width, linear_before_reset=1)
    return opset20.Squeeze(states, opset20.Constant(value_ints=[1]))  # type: ignore[arg-type] # typed by its values


ONNX_TRANSLATIONS: dict[Callable[..., Any], Callable[..., Any]] = {torch.ops.regard.gru.default: _translate_gru}
"""The translation table of the exporter."""


class _TraceableGRU(nn.Module):
    """An `nn.GRU` of one layer and one direction, with its gates in the order of ONNX."""

    weight: Tensor
    recurrent: Tensor
    bias: Tensor

    def __init__(self, layer: nn.GRU) -> None:
        super().__init__()
        bias = torch.cat((_reorder_gates(layer.bias_ih_l0), _reorder_gates(layer.bias_hh_l0)))
        self.register_buffer("weight", _reorder_gates(layer.weight_ih_l0)[None])
        self.register_buffer("recurrent", _reorder_gates(layer.weight_hh_l0)[None])
        self.register_buffer("bias", bias[None])

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Take x (batch, token, inputs) -> states (batch, token, width)."""
        return gru(x.transpose(0, 1), self.weight, self.recurrent, self.bias).transpose(0, 1), None


def _reorder_gates(gates: Tensor | nn.Module) -> Tensor:
    """Reorder gates from PyTorch's (reset, update, new) to the (update, reset, new) of ONNX."""
    assert isinstance(gates, Tensor)  # noqa: S101 # for the type checker
    reset, update, new = gates.detach().chunk(3)
    return torch.cat((update, reset, new))


def with_traceable_gru(module: nn.Module) -> nn.Module:
    """Return a copy whose GRU layers can be traced; a module without them is returned as it is."""
    names = [name for name, part in module.named_modules() if isinstance(part, nn.GRU)]
    if names:
        module = copy.deepcopy(module)
    for name in names:
        path, _, own = name.rpartition(".")
        setattr(module.get_submodule(path), own, _TraceableGRU(module.get_submodule(name)))  # type: ignore[arg-type] # is one
    return module
