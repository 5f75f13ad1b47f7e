"""Recurrent layers as one node: what is traced in their place, since tracing them fixes how long a sequence is."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from onnxscript import opset20
from torch import Tensor, nn


@torch.library.custom_op("regard::gru", mutates_args=())
def gru(x: Tensor, weight: Tensor, recurrent: Tensor, bias: Tensor) -> Tensor:
    """Stand for ONNX's GRU: x (token, batch, inputs) -> the states after each token (token, batch, width), from zeros.

    weight (1, 3 width, inputs), recurrent (1, 3 width, width) and bias (1, 6 width) hold update, reset and new gates.
    """
    raise NotImplementedError("this node is traced, and run by the runtime only")


@gru.register_fake
def _(x: Tensor, weight: Tensor, recurrent: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], recurrent.shape[2])


def _translated(x: Any, weight: Any, recurrent: Any, bias: Any) -> Any:  # noqa: ANN401 # values of the graph that is made
    width = recurrent.shape[2]
    states, _ = opset20.GRU(x, weight, recurrent, bias, hidden_size=width, linear_before_reset=1)
    return opset20.Squeeze(states, opset20.Constant(value_ints=[1]))  # type: ignore[arg-type] # typed by its values


TRANSLATIONS: dict[Callable[..., Any], Callable[..., Any]] = {torch.ops.regard.gru.default: _translated}
"""For the exporter."""


class _GRU(nn.Module):
    """An `nn.GRU` of one layer and direction, its weights in ONNX's order."""

    weight: Tensor
    recurrent: Tensor
    bias: Tensor

    def __init__(self, layer: nn.GRU) -> None:
        super().__init__()
        bias = torch.cat((_ordered(layer.bias_ih_l0), _ordered(layer.bias_hh_l0)))
        self.register_buffer("weight", _ordered(layer.weight_ih_l0)[None])
        self.register_buffer("recurrent", _ordered(layer.weight_hh_l0)[None])
        self.register_buffer("bias", bias[None])

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """Take x (batch, token, inputs) -> states (batch, token, width)."""
        return gru(x.transpose(0, 1), self.weight, self.recurrent, self.bias).transpose(0, 1), None


def _ordered(gates: Tensor | nn.Module) -> Tensor:
    """Turn PyTorch's reset, update and new gates to update, reset and new."""
    assert isinstance(gates, Tensor)  # noqa: S101 # for the type checker
    reset, update, new = gates.detach().chunk(3)
    return torch.cat((update, reset, new))


def traceable(module: nn.Module) -> nn.Module:
    """Return a module whose recurrent layers can be traced: the same one where it has none."""
    names = [name for name, part in module.named_modules() if isinstance(part, nn.GRU)]
    if names:
        module = copy.deepcopy(module)
    for name in names:
        path, _, own = name.rpartition(".")
        setattr(module.get_submodule(path), own, _GRU(module.get_submodule(name)))  # type: ignore[arg-type] # is one
    return module
