"""A definition that computes in float64, for a while, without holding its large matrices so."""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from export.plan import Precision

M = TypeVar("M", bound=nn.Module)

LARGE_NUMBERS = 1 << 20
"""From this count of numbers on, a matrix stays in single floats, and is made float64 where it is read."""
FOUR_BIT_BLOCK = 32
WIDENED_AT_ONCE = 1 << 24
"""Numbers of a matrix that are float64 at a time: 128 MiB."""


Read: TypeAlias = Callable[[Tensor], Tensor]
"""Returns some rows of a matrix (out, in) as a layer in float64 reads them."""


def _in_four_bits(rows: Tensor) -> Tensor:
    """Return rows as `graphs/lowering/int4.py` rounds them: 32 neighbours are -8 to 7 eighths of their largest."""
    width = rows.shape[1]
    blocks = nn.functional.pad(rows, (0, -width % FOUR_BIT_BLOCK)).reshape(len(rows), -1, FOUR_BIT_BLOCK)
    steps = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True)) / -8
    numbers = (blocks / steps.where(steps != 0, torch.ones(()))).round().clamp(-8, 7)
    return (numbers.double() * steps).flatten(1)[:, :width]


ROUNDED: Mapping[Precision, Read] = {"int4": _in_four_bits}
"""The precisions whose graphs compute exactly with rounded matrices: they are compared with a definition of these."""


@contextlib.contextmanager
def in_float64(module: M, precision: Precision = "fp32") -> Iterator[M]:
    """Let a definition compute in float64 within a block; its single floats come back as they were.

    It is changed in place, and the large matrices of its layers and embeddings stay as they are: they are most of a
    model, so that it takes little more memory than before. What is computed is the same as if they were float64. In a
    precision of `ROUNDED`, each layer reads its matrix as that rounds it.
    Raises ValueError for a module of other floats.
    """
    tensors = (*module.parameters(), *module.buffers())
    held = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    if not held <= {torch.float32}:
        raise ValueError(f"module: must hold single floats, given {', '.join(sorted(map(str, held)))}")
    kept = _kept(module, rounded=precision in ROUNDED)
    read = ROUNDED.get(precision, Tensor.double)
    shared = {id(part.weight) for part in kept}
    try:
        for tensor in tensors:
            if tensor.is_floating_point() and id(tensor) not in shared:
                tensor.data = tensor.data.double()
        for part in kept:
            is_linear = type(part) is nn.Linear
            part.forward = functools.partial(_linear, part, read) if is_linear else functools.partial(_embedding, part)
        yield module
    finally:
        for part in kept:
            part.__dict__.pop("forward", None)
        for tensor in tensors:
            if tensor.is_floating_point():
                tensor.data = tensor.data.float()


@contextlib.contextmanager
def rounded(module: nn.Module, precision: Precision) -> Iterator[None]:
    """Let a definition in single floats read its matrices within a block as a precision of `ROUNDED` rounds them."""
    read = ROUNDED.get(precision, Tensor.double)
    kept = _kept(module, rounded=True) if precision in ROUNDED else []
    layers: list[Any] = [part for part in kept if type(part) is nn.Linear]
    try:
        for layer in layers:
            layer.forward = functools.partial(_linear, layer, lambda rows: read(rows).float())
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


def in_single_floats(exact: M) -> M:
    """Return a copy in single floats of a definition that computes in float64; both read the same large matrices."""
    shared = {id(part.weight): part.weight for part in _kept(exact)}
    single = copy.deepcopy(exact, dict(shared)).float()
    for part in single.modules():
        part.__dict__.pop("forward", None)
    return single


def _kept(module: nn.Module, *, rounded: bool = False) -> list[Any]:
    """Return the layers and embeddings whose matrices stay in single floats: large ones, or all that are rounded."""
    layers: list[Any] = [part for part in module.modules() if type(part) in (nn.Linear, nn.Embedding)]
    held = {
        id(part.weight)
        for part in layers
        if part.weight.numel() >= LARGE_NUMBERS or (rounded and type(part) is nn.Linear)
    }
    return [part for part in layers if id(part.weight) in held]


def _linear(layer: nn.Linear, read: Read, x: Tensor) -> Tensor:
    rows = max(1, WIDENED_AT_ONCE // layer.in_features)
    parts: Sequence[Tensor] = torch.split(layer.weight, rows)
    product = torch.cat([_Product.apply(x, part, read) for part in parts], -1)  # type: ignore[no-untyped-call] # PyTorch's
    return product if layer.bias is None else product + layer.bias


def _embedding(layer: nn.Embedding, tokens: Tensor) -> Tensor:
    return nn.functional.embedding(tokens, layer.weight).double()


class _Product(torch.autograd.Function):
    """x Wᵀ in float64, of a matrix that is read anew for the gradient of x; that of W is not known."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, read: Read) -> Tensor:  # noqa: ANN401 # as PyTorch has it
        """Return the product, and keep the matrix as it is."""
        context.save_for_backward(weight)
        context.read = read
        return x @ read(weight).T

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401 # as PyTorch has it
        """Return the gradient of x."""
        (weight,) = context.saved_tensors
        return gradients[0] @ context.read(weight), None, None
