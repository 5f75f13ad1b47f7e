"""Tables of tensor names: rename a checkpoint's tensors to those of a definition, and fill its parameters."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from export.checkpoints.reading.checkpoint import Checkpoint
from export.errors import CheckpointError


@dataclass(frozen=True)
class Destination:
    """Where a tensor goes: to one parameter, or to several that it is cut into along its first axis."""

    names: tuple[str, ...]
    transposed: bool = False
    """True for matrices that are stored as (in, out)."""
    copy: bool = False
    """True if the tensor repeats another one of the model, or stands for it where that one is missing."""
    spare: bool = False
    """True if the tensor is used only if no other one goes to that parameter."""


UNUSED = Destination(())
"""The destination of tensors that the task does not use."""


def cut(*names: str, transposed: bool = False) -> Destination:
    """Cut a tensor that holds several parameters, joined along their output axis."""
    return Destination(names, transposed)


def spare(name: str) -> Destination:
    """Use a tensor only if no other one goes to that parameter."""
    return Destination((name,), spare=True)


def copy_of(name: str) -> Destination:
    """Accept a tensor that equals a parameter or a buffer, or that is the parameter where no other tensor is."""
    return Destination((name,), copy=True)


Names = Mapping[str, str | Destination]
"""Name in the checkpoint -> ours. `{}` stands for a block's number; a final `.weight` or `.bias` may be omitted."""


def moved(names: Names, theirs: str, ours: str) -> Names:
    """Return the names of a part of a checkpoint that lies behind `theirs` there, and behind `ours` here."""
    found: dict[str, str | Destination] = {}
    for name, to in names.items():
        if isinstance(to, str):
            found[f"{theirs}{name}"] = f"{ours}{to}"
        else:
            found[f"{theirs}{name}"] = replace(to, names=tuple(f"{ours}{one}" for one in to.names)) if to.names else to
    return found


LEGACY_SUFFIXES = {"gamma": "weight", "beta": "bias"}
"""Parameter names of norms in checkpoints that were converted from TensorFlow -> ours."""


LISTED_TENSORS = 20
"""An error names no more tensors than this."""


@dataclass(frozen=True)
class RenamedTensors:
    """A checkpoint's tensors by our names, and the names of its unused tensors."""

    tensors: dict[str, Tensor]
    unused: list[str]


def rename_tensors(module: nn.Module, checkpoint: Checkpoint, names: Names, prefix: str) -> RenamedTensors:
    """Rename a checkpoint's tensors to the module's parameters, by the first rule that matches.

    `prefix` stands before the names if the checkpoint has a head too. Raises CheckpointError that lists tensors without
    a rule, and copies that differ from the original.
    """
    shapes = {name: parameter.shape for name, parameter in module.named_parameters(remove_duplicate=False)}
    rules = _compile_rules(names)
    renamed: dict[str, Tensor] = {}
    copies: list[tuple[str, str, Tensor]] = []
    spares: list[tuple[str, str, Tensor]] = []
    left: list[str] = []
    unused: list[str] = []
    for name, tensor in checkpoint.load():
        found = _match(rules, name.removeprefix(prefix))
        if found is None:
            left.append(name)
            continue
        to, ours = found
        if to is UNUSED or not tensor.numel():  # as register tokens where there are none
            unused.append(name)
            continue
        if not tensor.is_floating_point():
            raise CheckpointError(f"weights: {name} must hold floating point numbers, given {tensor.dtype}")
        if not tensor.isfinite().all():
            raise CheckpointError(f"weights: {name} must hold finite numbers, and holds NaN or infinity")
        if to.transposed and tensor.ndim == 2:
            tensor = tensor.T
        if to.copy or to.spare:
            (copies if to.copy else spares).append((name, ours[0], tensor))
            continue
        for target, piece in _pieces(name, tensor, ours, shapes).items():
            if target in renamed:
                raise CheckpointError(f"weights: {name} and another tensor are both {target}")
            renamed[target] = piece
    for name, target, tensor in spares:
        if target in renamed:
            unused.append(name)
        else:
            renamed[target] = tensor
    for name, original, tensor in copies:
        aliases = _aliases(module, original)
        if aliases and not renamed.keys() & set(aliases):  # the checkpoint has a shared matrix under this name alone
            renamed |= _pieces(name, tensor, (original,), shapes)
        elif not _equals(module, renamed, original, tensor):
            left.append(f"{name} (not the same as {original})")
    if left:
        raise CheckpointError("weights: left over " + _list_some(left))
    return RenamedTensors(renamed, unused)


def _pieces(
    name: str, tensor: Tensor, ours: tuple[str, ...], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Tensor]:
    """Cut a tensor into our parameters, each in the parameter's shape if they differ only by axes of length 1."""
    rows = [shapes[target][0] for target in ours if len(shapes.get(target, ()))]
    fits = (
        tensor.ndim and len(rows) == len(ours) and sum(rows) == len(tensor)
    )  # there are fewer heads of keys, at times
    if len(ours) > 1 and not fits and (not tensor.ndim or len(tensor) % len(ours)):
        raise CheckpointError(f"weights: {name} must be {len(ours)} tensors joined, given {list(tensor.shape)}")
    pieces = {}
    for target, piece in zip(ours, tensor.split_with_sizes(rows) if fits else tensor.chunk(len(ours)), strict=True):
        shape = shapes.get(target, piece.shape)
        same = _squeezed(piece.shape) == _squeezed(shape)
        pieces[target] = (piece.reshape(shape) if same else piece).contiguous()
    return pieces


def _equals(module: nn.Module, renamed: Mapping[str, Tensor], original: str, tensor: Tensor) -> bool:
    """True if a tensor equals a parameter that was renamed, under any of its names, or a buffer."""
    held = next((renamed[alias] for alias in _aliases(module, original) if alias in renamed), None)
    held = dict(module.named_buffers(remove_duplicate=False)).get(original) if held is None else held
    near = max(1e-5, 2 * torch.finfo(tensor.dtype).eps)  # it may have been stored in half precision
    return held is not None and held.shape == tensor.shape and torch.allclose(held.float(), tensor.float(), atol=near)


def fill_parameters(module: nn.Module, tensors: Mapping[str, Tensor], names: Names) -> None:
    """Fill every parameter of a module, shared ones once.

    Raises CheckpointError that lists what is missing or has another shape, by the checkpoint's names.
    """
    parameters = dict(module.named_parameters())
    ids = {name: id(parameter) for name, parameter in module.named_parameters(remove_duplicate=False)}
    filled = {ids[name] for name in tensors if name in ids}
    problems = [
        *(f"left over {theirs(name, names)}" for name in tensors if name not in ids),
        *(f"missing {theirs(name, names)}" for name, parameter in parameters.items() if id(parameter) not in filled),
        *(
            f"{theirs(name, names)} must be {list(parameter.shape)}, given {list(tensors[name].shape)}"
            for name, parameter in module.named_parameters(remove_duplicate=False)
            if name in tensors and tensors[name].shape != parameter.shape
        ),
    ]
    if problems:
        raise CheckpointError("weights: " + _list_some(problems))
    with torch.no_grad():
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if name in tensors:
                parameter.copy_(tensors[name])


def theirs(ours: str, names: Names) -> str:
    """Return the checkpoint's name of a parameter of ours."""
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


def _list_some(listed: list[str]) -> str:
    return "; ".join(listed[:LISTED_TENSORS]) + (
        f"; and {len(listed) - LISTED_TENSORS} more" if len(listed) > LISTED_TENSORS else ""
    )


def _squeezed(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]


def _compile_rules(names: Names) -> list[tuple[re.Pattern[str], Destination]]:
    return [
        (
            re.compile(re.escape(name).replace(r"\{\}", r"(\d+)") + r"(\.weight|\.bias|)"),
            Destination((to,)) if isinstance(to, str) else to,
        )
        for name, to in names.items()
    ]


def _match(rules: list[tuple[re.Pattern[str], Destination]], name: str) -> tuple[Destination, tuple[str, ...]] | None:
    path, _, last = name.rpartition(".")
    name = f"{path}.{LEGACY_SUFFIXES[last]}" if last in LEGACY_SUFFIXES else name
    for pattern, to in rules:
        if found := pattern.fullmatch(name):
            *numbers, suffix = found.groups()
            return to, tuple(ours.format(*numbers) + suffix for ours in to.names)
    return None
