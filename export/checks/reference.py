"""The reference for attention graphs: `model/explanations.py` on a definition's maps, in float64."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from contract.manifest import FIGURES, FUSIONS, GRAPH_METHODS, ImageRule, Kind
from export.plan import Sizes, Source, patch_centres
from export.traced import Observed, Traced
from model import explanations

M = TypeVar("M", bound=nn.Module)

Controls = dict[str, Tensor]
"""Control inputs of a graph, by name."""


@contextlib.contextmanager
def in_float64(module: M) -> Iterator[M]:
    """Let a definition compute in float64 within a block; its single floats come back as they were.

    It is changed in place, since a copy would take the memory of the weights three times. Raises ValueError for a
    module of other floats.
    """
    held = {tensor.dtype for tensor in (*module.parameters(), *module.buffers()) if tensor.is_floating_point()}
    if not held <= {torch.float32}:
        raise ValueError(f"module: must hold single floats, given {', '.join(sorted(map(str, held)))}")
    try:
        yield module.double()
    finally:
        module.float()


@dataclass(frozen=True)
class Case:
    """One way to ask for attention, which is verified."""

    name: str
    method: str
    fusion: str
    share: float = 0.0
    """The share of the entries of a layer that is discarded."""
    mean: bool = False
    """True for the mean of all rows alone, of the kinds that have it."""

    def controls(self, kinds: Sequence[Kind], sizes: Sizes, seed: int) -> Controls:
        """Return its controls: every layer and row of the kinds that have the method, and random special tokens."""
        generator = torch.Generator().manual_seed(seed)
        controls = {
            "method": torch.tensor(GRAPH_METHODS.index(self.method)),
            "fusion": torch.tensor(FUSIONS.index(self.fusion)),
            "diagnose": torch.tensor(self.name == "raw"),
        }
        for kind in kinds:
            query, key = sizes[kind.query], sizes[kind.fed]
            controls[f"{kind.name}.discard"] = torch.tensor(int(self.share * query * query))
            controls[f"{kind.name}.layers"] = torch.arange(len(kind.maps))
            controls[f"{kind.name}.rows"] = self._rows(kind, query)
            controls[f"{kind.name}.heads"] = torch.arange(kind.heads if self.fusion == "each" else 0)
            controls[f"{kind.name}.special"] = torch.rand(sizes["batch"], key, generator=generator) < 0.3
        return controls

    def applies(self, kinds: Sequence[Kind]) -> bool:
        """Return whether there is a kind to ask for so."""
        return not self.mean or any(kind.averages for kind in kinds)

    def _rows(self, kind: Kind, query: int) -> Tensor:
        if self.method not in kind.methods or (self.mean and not kind.averages):
            return torch.arange(0)
        return torch.tensor([-1]) if self.mean else torch.arange(query)


def with_fixed_axes(source: Source, sizes: Sizes) -> Sizes:
    """Return the sizes with the lengths of the axes that never vary: an image's, and that of the objects in it."""
    return {**sizes, "image": source.attention[0].length, "object": source.detection.objects if source.detection else 0}


CASES = (
    Case("raw", "raw", "each"),
    Case("raw, fused by max", "raw", "max"),
    Case("rollout", "rollout", "mean"),
    Case("rollout, discarding", "rollout", "min", 0.5),
    Case("norm", "norm", "mean"),
    Case("raw, mean row", "raw", "mean", mean=True),
    Case("rollout, mean row", "rollout", "mean", mean=True),
    Case("norm, mean row", "norm", "mean", mean=True),
)


def attention_outputs(traced: Traced, observed: Observed, controls: Controls, image: ImageRule | None) -> list[Tensor]:
    """Return for each kind its maps, and its diagnostics if they are asked for."""
    found = []
    for kind, weights, values in zip(traced.kinds, observed.weights, observed.values, strict=True):
        found.append(_maps(traced, kind, weights, values, controls))
        found.append(
            _diagnostics(kind, weights, controls[f"{kind.name}.special"], image)
            if controls["diagnose"]
            else torch.zeros(0, 0, 0, 0, 0)
        )
    return found


def _maps(traced: Traced, kind: Kind, weights: list[Tensor], values: list[Tensor], controls: Controls) -> Tensor:
    layers, rows, heads = (controls[f"{kind.name}.{name}"] for name in ("layers", "rows", "heads"))
    method, fusion = GRAPH_METHODS[int(controls["method"])], FUSIONS[int(controls["fusion"])]
    if method not in kind.methods or not len(rows):
        return torch.zeros(0)
    if method == "raw":
        picked = [explanations.mean_of_rows(layer, rows) for layer in weights]
        stack = torch.stack(picked, dim=2)[:, :, layers]
        return stack[:, heads] if fusion == "each" else _fuse_heads(stack, fusion)[:, None]
    if method == "rollout":
        fused = [_fuse_heads(layer, fusion) for layer in weights]
        ratio = controls[f"{kind.name}.discard"] / fused[0].shape[-1] ** 2
        if ratio:
            fused = [explanations.discard(layer, ratio) for layer in fused]
        included = torch.isin(torch.arange(len(weights)), layers)
        return explanations.rollout(*explanations.add_parallel(fused, included, kind.parallel), rows)[:, None, None]
    norms = [
        explanations.mean_of_rows(explanations.norms(layer, value, output), rows)
        for layer, value, output in zip(weights, values, traced.output_projections(kind), strict=True)
    ]
    return torch.stack(norms, dim=1)[:, None, layers]


def _fuse_heads(weights: Tensor, fusion: str) -> Tensor:
    if fusion == "mean":
        return weights.mean(1)
    return weights.amax(1) if fusion == "max" else weights.amin(1)


def _diagnostics(kind: Kind, weights: list[Tensor], special: Tensor, image: ImageRule | None) -> Tensor:
    layers = []
    for layer in weights if kind.normalized else map(explanations.shares, weights):
        figures = {
            "entropy": explanations.entropy(layer),
            "special": (layer * special[:, None, None]).sum(-1),
        }
        if image and kind.grid and kind.query == kind.key:
            centres = torch.from_numpy(patch_centres(kind.grid, image))
            figures["distance"] = explanations.distance(layer, centres, kind.prefix)
        layers.append(torch.stack([figures[name] for name in FIGURES if name in figures], dim=-1))
    return torch.stack(layers, dim=1)
