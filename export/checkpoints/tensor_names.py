"""TODO: what export/checkpoints/tensor_names.py is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from export.checkpoints.checkpoint import Checkpoint
from export.errors import CheckpointError


@dataclass(frozen=True)
class To:
    """Where a tensor goes: one parameter, or several that it is cut into along its first axis."""

    names: tuple[str, ...]
    transposed: bool = False
    """Of a matrix: stored as (in, out)."""
    copy: bool = False
    """It may be there, and then only repeats what the model has at that place."""
    spare: bool = False
    """It is used where no other tensor goes there."""


NOWHERE = To(())
"""For tensors that the task at hand does not use."""


def cut(*names: str, transposed: bool = False) -> To:
    """Cut a tensor that joins several along its output axis."""
    return To(names, transposed)


def spare(name: str) -> To:
    """Use a tensor only where no other is for the same parameter."""
    return To((name,), spare=True)


def copy_of(name: str) -> To:
    """Let a tensor be there if it equals a parameter or a buffer."""
    return To((name,), copy=True)


Names = Mapping[str, str | To]
"""Checkpoint's name -> ours; `{}` stands for a block's number, and both may leave out a final `.weight` or `.bias`."""


OLD = {"gamma": "weight", "beta": "bias"}
"""What norms called their parameters in checkpoints that were converted from TensorFlow."""


@dataclass(frozen=True)
class Fitted:
    """What became of a checkpoint's tensors: those for the model by our names, and the names of those set aside."""

    tensors: dict[str, Tensor]
    aside: list[str]


def fit(module: nn.Module, checkpoint: Checkpoint, names: Names, prefix: str) -> Fitted:
    """Name a checkpoint's tensors as the module does; the first rule that names a tensor holds.

    `prefix` stands before the names where the checkpoint holds a head too. Raises CheckpointError listing what is left
    over, and what is there twice but differs.
    """
    wanted = {name: parameter.shape for name, parameter in module.named_parameters(remove_duplicate=False)}
    rules = _compiled(names)
    fitted: dict[str, Tensor] = {}
    repeated: dict[str, tuple[str, Tensor]] = {}
    spares: list[tuple[str, str, Tensor]] = []
    left: list[str] = []
    unused: list[str] = []
    for name, tensor in checkpoint.load():
        found = _match(rules, name.removeprefix(prefix))
        if found is None:
            left.append(name)
            continue
        to, ours = found
        if to is NOWHERE:
            unused.append(name)
            continue
        if not tensor.is_floating_point():
            raise CheckpointError(f"weights: {name} must hold floating point numbers, given {tensor.dtype}")
        if to.transposed and tensor.ndim == 2:
            tensor = tensor.T
        if to.copy:
            repeated[name] = (ours[0], tensor)
            continue
        if to.spare:
            spares.append((name, ours[0], tensor))
            continue
        if len(ours) > 1 and (not tensor.ndim or len(tensor) % len(ours)):
            raise CheckpointError(f"weights: {name} must be {len(ours)} tensors joined, given {list(tensor.shape)}")
        for target, piece in zip(ours, tensor.chunk(len(ours)), strict=True):
            if target in fitted:
                raise CheckpointError(f"weights: {name} and another tensor are both {target}")
            shape = wanted.get(target)
            if shape is not None and _squeezed(piece.shape) == _squeezed(shape):
                piece = piece.reshape(shape)
            fitted[target] = piece.contiguous()
    for name, target, tensor in spares:
        if target in fitted:
            unused.append(name)
        else:
            fitted[target] = tensor
    for name, (original, tensor) in repeated.items():
        held = next((fitted[alias] for alias in _aliases(module, original) if alias in fitted), None)
        held = dict(module.named_buffers(remove_duplicate=False)).get(original) if held is None else held
        near = max(1e-5, 2 * torch.finfo(tensor.dtype).eps)  # it may have been stored in half precision
        if held is None or held.shape != tensor.shape or not torch.allclose(held.float(), tensor.float(), atol=near):
            left.append(f"{name} (not the same as {original})")
    if left:
        raise CheckpointError("weights: left over " + _some(left))
    return Fitted(fitted, unused)


def fill(module: nn.Module, tensors: Mapping[str, Tensor], names: Names) -> None:
    """Fill every parameter, shared ones once.

    Raises CheckpointError listing what is missing or mis-shaped, under the checkpoint's names.
    """
    wanted = dict(module.named_parameters())
    everywhere = {name: id(parameter) for name, parameter in module.named_parameters(remove_duplicate=False)}
    filled = {everywhere[name] for name in tensors if name in everywhere}
    faults = [
        *(f"left over {theirs(name, names)}" for name in tensors if name not in everywhere),
        *(f"missing {theirs(name, names)}" for name, parameter in wanted.items() if id(parameter) not in filled),
        *(
            f"{theirs(name, names)} must be {list(parameter.shape)}, given {list(tensors[name].shape)}"
            for name, parameter in module.named_parameters(remove_duplicate=False)
            if name in tensors and tensors[name].shape != parameter.shape
        ),
    ]
    if faults:
        raise CheckpointError("weights: " + _some(faults))
    with torch.no_grad():
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if name in tensors:
                parameter.copy_(tensors[name])


def theirs(ours: str, names: Names) -> str:
    """Return what the checkpoint calls a parameter."""
    for their, to in names.items():
        for place, name in enumerate([to] if isinstance(to, str) else to.names):
            found = re.fullmatch(re.escape(name).replace(r"\{\}", r"(\d+)") + r"(\.weight|\.bias|)", ours)
            if found:
                *numbers, suffix = found.groups()
                return their.format(*numbers) + suffix + (f" (part {place + 1})" if place else "")
    return ours


def _aliases(module: nn.Module, name: str) -> list[str]:
    """Return every name of a parameter."""
    named = dict(module.named_parameters(remove_duplicate=False))
    return [alias for alias, parameter in named.items() if parameter is named.get(name)]


def _some(listed: list[str]) -> str:
    most = 20
    return "; ".join(listed[:most]) + (f"; and {len(listed) - most} more" if len(listed) > most else "")


def _squeezed(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]


def _compiled(names: Names) -> list[tuple[re.Pattern[str], To]]:
    return [
        (
            re.compile(re.escape(name).replace(r"\{\}", r"(\d+)") + r"(\.weight|\.bias|)"),
            To((to,)) if isinstance(to, str) else to,
        )
        for name, to in names.items()
    ]


def _match(rules: list[tuple[re.Pattern[str], To]], name: str) -> tuple[To, tuple[str, ...]] | None:
    path, _, last = name.rpartition(".")
    name = f"{path}.{OLD[last]}" if last in OLD else name
    for pattern, to in rules:
        if found := pattern.fullmatch(name):
            *numbers, suffix = found.groups()
            return to, tuple(ours.format(*numbers) + suffix for ours in to.names)
    return None
