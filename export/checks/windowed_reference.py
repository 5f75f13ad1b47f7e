"""The reference for kinds whose tokens attend in windows: `model/methods/windows.py` on the maps of a definition."""

from collections.abc import Iterable

import torch
from torch import Tensor

from contract.input_rules import ImageRule
from contract.manifest import FIGURES, Kind
from export.plan import patch_centres
from export.traced.base import Traced
from model.methods import explanations, windows
from model.parts.windows import Windows


def windows_of(kind: Kind) -> list[Windows]:
    """Return the windows of each layer of a kind."""
    rows, columns = kind.grid or (0, 0)
    return [Windows(rows, columns, one.side, one.shift) for one in kind.windows]


def raw(kind: Kind, layer: int, weights: Tensor, rows: Tensor) -> Tensor:
    """Return rows of the weights of one layer over all tokens, (batch, heads, row, token)."""
    return _rows(weights, windows_of(kind)[layer].places(), rows)


def norms(
    kind: Kind, weights: list[Tensor], values: list[Tensor], outputs: Iterable[Tensor], rows: Tensor
) -> list[Tensor]:
    """Return rows of each layer's norms, (batch, row, token)."""
    found = []
    for layer, value, output, own in zip(weights, values, outputs, windows_of(kind), strict=True):
        inside = windows.windowed_norms(layer, value, output)[:, :, None]  # as of one head
        found.append(_rows(inside, own.places(), rows)[:, 0])
    return found


def _rows(weights: Tensor, places: Tensor, rows: Tensor) -> Tensor:
    if (rows < 0).any():
        return windows.mean_row(weights, places)
    return windows.unfold_rows(weights, places, rows)


def joint_of(kind: Kind, rows: Tensor, like: Tensor) -> Tensor:
    """Return where rows (..., row) of a kind begin, (..., row, token)."""
    return explanations.row_vectors(rows, torch.zeros(kind.length).to(like))


def stages(
    traced: Traced, kind: Kind, fused: list[list[Tensor]], included: Tensor | None = None
) -> list[windows.WindowedStage]:
    """Return the stages through which a kind is carried, with the fused maps of every kind of the model.

    `included` says which layers of the kind itself count; those of the stages before it all do.
    """
    found = []
    for stage in traced.stages(kind):
        layers = fused[traced.kinds.index(stage)]
        every = torch.ones(len(layers), dtype=torch.bool)
        counted = included if stage is kind and included is not None else every
        found.append(windows.WindowedStage(windows_of(stage), layers, counted))
    return found


def diagnostics(kind: Kind, weights: list[Tensor], special: Tensor, image: ImageRule | None) -> Tensor:
    """Return the figures of every layer, head and query, (batch, layer, head, query, figure)."""
    layers = []
    for layer, own in zip(weights, windows_of(kind), strict=True):
        places = own.places()
        marked = special[:, places][:, :, None, None]  # (batch, windows, 1, 1, slot)
        figures = {"entropy": explanations.entropy(layer), "special": (layer * marked).sum(-1)}
        if image and kind.grid:
            centres = torch.from_numpy(patch_centres(kind.grid, image))[places]  # (windows, slot, 2)
            apart = (centres[:, :, None] - centres[:, None]).square().sum(-1).sqrt()
            figures["distance"] = (layer * apart[:, None]).sum(-1)
        named = [windows.by_token(figures[name], places) for name in FIGURES if name in figures]
        layers.append(torch.stack(named, dim=-1))
    return torch.stack(layers, dim=1)
