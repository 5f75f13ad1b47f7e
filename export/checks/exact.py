"""A definition that computes in float64, for a while, without holding its large matrices so."""

import contextlib
import copy
from collections.abc import Iterator, Sequence
from types import MethodType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

M = TypeVar("M", bound=nn.Module)

LARGE_NUMBERS = 1 << 20
"""From this count of numbers on, a matrix stays in single floats, and is made float64 where it is read."""
WIDENED_AT_ONCE = 1 << 24
"""Numbers of a matrix that are float64 at a time: 128 MiB."""


@contextlib.contextmanager
def in_float64(module: M) -> Iterator[M]:
    """Let a definition compute in float64 within a block; its single floats come back as they were.

    It is changed in place, and the large matrices of its layers and embeddings stay as they are: they are most of a
    model, so that it takes little more memory than before. What is computed is the same as if they were float64.
    Raises ValueError for a module of other floats.
    """
    tensors = (*module.parameters(), *module.buffers())
    held = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    if not held <= {torch.float32}:
        raise ValueError(f"module: must hold single floats, given {', '.join(sorted(map(str, held)))}")
    large = _large(module)
    kept = {id(part.weight) for part in large}
    try:
        for tensor in tensors:
            if tensor.is_floating_point() and id(tensor) not in kept:
                tensor.data = tensor.data.double()
        for part in large:
            part.forward = MethodType(_linear if type(part) is nn.Linear else _embedding, part)
        yield module
    finally:
        for part in large:
            part.__dict__.pop("forward", None)
        for tensor in tensors:
            if tensor.is_floating_point():
                tensor.data = tensor.data.float()


def in_single_floats(exact: M) -> M:
    """Return a copy in single floats of a definition that computes in float64; both read the same large matrices."""
    shared = {id(part.weight): part.weight for part in _large(exact)}
    single = copy.deepcopy(exact, dict(shared)).float()
    for part in single.modules():
        part.__dict__.pop("forward", None)
    return single


def _large(module: nn.Module) -> list[Any]:
    """Return the layers and embeddings whose matrices stay in single floats."""
    layers = [part for part in module.modules() if type(part) in (nn.Linear, nn.Embedding)]
    return [part for part in layers if part.get_parameter("weight").numel() >= LARGE_NUMBERS]


def _linear(self: nn.Linear, x: Tensor) -> Tensor:
    rows = max(1, WIDENED_AT_ONCE // self.in_features)
    parts: Sequence[Tensor] = torch.split(self.weight, rows)
    product = torch.cat([_Product.apply(x, part) for part in parts], -1)  # type: ignore[no-untyped-call] # PyTorch's
    return product if self.bias is None else product + self.bias


def _embedding(self: nn.Embedding, tokens: Tensor) -> Tensor:
    return nn.functional.embedding(tokens, self.weight).double()


class _Product(torch.autograd.Function):
    """x Wᵀ in the floats of x; a gradient of W is not known."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor) -> Tensor:  # noqa: ANN401 # as PyTorch has it
        """Return the product, and keep the matrix as it is."""
        context.save_for_backward(weight)
        return x @ weight.to(x.dtype).T

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 # as PyTorch has it
        """Return the gradient of x."""
        (weight,) = context.saved_tensors
        return gradients[0] @ weight.to(gradients[0].dtype), None
