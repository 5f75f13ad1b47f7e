"""The reference for attention graphs: `model/methods/explanations.py` on a definition's maps, in float64."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from contract.input_rules import BANDS, FRAMES, SAMPLES, ImageRule
from contract.manifest import FIGURES, FUSIONS, GRAPH_METHODS, OBJECTS, POOL, Kind
from export.checks import windowed_reference
from export.plan import Plan, Sizes, Source, patch_centres
from export.traced.base import Observed, Traced
from model.methods import explanations
from model.methods.windows import windowed_rollout
from model.parts.attention import Maps

Controls = dict[str, Tensor]
"""Control inputs of a graph, by name."""


@contextlib.contextmanager
def keeping_no_maps(module: nn.Module) -> Iterator[None]:
    """Let a definition run within a block without keeping the weights of its attentions.

    For its answers alone: of a long input, the weights of all layers take more memory than everything else together.
    """

    def without_keys(_: nn.Module, __: object, returned: tuple[Tensor, Maps]) -> tuple[Tensor, Maps]:
        x, maps = returned
        return x, {name: weights[..., :0].clone() for name, weights in maps.items()}

    blocks = (block for path, block in module.named_modules() if re.search(r"\bblocks\.\d+$", path))
    hooks = [block.register_forward_hook(without_keys) for block in blocks]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


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
    sinks: float = 0.0
    """The largest sink of a head that is not left out; 0 leaves none out."""

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
            controls[f"{kind.name}.sinks"] = torch.tensor(self.sinks)
            controls[f"{kind.name}.discard"] = torch.tensor(int(self.share * query * query))
            controls[f"{kind.name}.layers"] = torch.arange(len(kind.maps))
            controls[f"{kind.name}.rows"] = self._rows(kind, query)
            controls[f"{kind.name}.heads"] = torch.arange(kind.heads if self.fusion == "each" else 0)
            controls[f"{kind.name}.after"] = torch.arange(kind.blocks if self.name == "raw" else 0)
            controls[f"{kind.name}.special"] = torch.rand(sizes["batch"], key, generator=generator) < 0.3
        return controls

    def applies(self, kinds: Sequence[Kind]) -> bool:
        """Return whether there is a kind to ask for so."""
        if self.share:  # nothing is discarded of windows
            return not any(kind.windows for kind in kinds)
        if self.sinks:
            return any(kind.has_sinks for kind in kinds)
        return not self.mean or any(kind.averages for kind in kinds)

    def _rows(self, kind: Kind, query: int) -> Tensor:
        if self.method not in kind.methods or (self.mean and not kind.averages):
            return torch.arange(0)
        if self.mean:
            return torch.tensor([-1])
        return torch.arange(0, query, -(-query // MOST_ROWS) if kind.windows else 1)


MOST_ROWS = 100
"""The most rows that are verified of a kind whose tokens look around in windows: there may be thousands."""


def with_fixed_axes(source: Source, sizes: Sizes) -> Sizes:
    """Return the sizes with the lengths of axes that they do not say: a sound's frames, an image's, its objects'."""
    objects = source.detection.objects if source.detection else 0
    sound = source.sound
    frames = sound.fills(sizes[SAMPLES]) if sound and sound.varies else sound.frames if sound else 0
    return {
        **sizes,
        OBJECTS: objects,
        POOL: 1,
        FRAMES: frames,
        BANDS: sound.bands if sound else 0,
        **{kind.key: kind.length for kind in source.attention if kind.grid},
    }


CASES = (
    Case("raw", "raw", "each"),
    Case("raw, fused by max", "raw", "max"),
    Case("rollout", "rollout", "mean"),
    Case("rollout, discarding", "rollout", "min", 0.5),
    Case("rollout, without sinks", "rollout", "max", sinks=0.5),
    Case("norm", "norm", "mean"),
    Case("raw, mean row", "raw", "mean", mean=True),
    Case("rollout, mean row", "rollout", "mean", mean=True),
    Case("norm, mean row", "norm", "mean", mean=True),
)


def attention_outputs(traced: Traced, observed: Observed, controls: Controls, image: ImageRule | None) -> list[Tensor]:
    """Return for each kind its maps, and its diagnostics if they are asked for."""
    found = []
    for kind, weights in zip(traced.kinds, observed.weights, strict=True):
        found.append(_maps(traced, kind, observed, controls))
        figures = windowed_reference.diagnostics if kind.windows else _diagnostics
        found.append(
            figures(kind, weights, controls[f"{kind.name}.special"], image)
            if controls["diagnose"]
            else torch.zeros(0, 0, 0, 0, 0)
        )
    return found


def states_after_layers(traced: Traced, observed: Observed, controls: Controls) -> list[Tensor]:
    """Return the states that are compared, (batch, layer, token, width), after the layers asked for."""
    compared = [kind for kind in traced.kinds if kind.compares_states]
    after = [controls[f"{kind.name}.after"].tolist() for kind in compared]
    states = [[observed.states[traced.returned_states[layer]] for layer in layers] for layers in after]
    return [torch.stack(own, dim=1) if own else torch.zeros(0) for own in states]


def _maps(traced: Traced, kind: Kind, observed: Observed, controls: Controls) -> Tensor:
    index = traced.kinds.index(kind)
    weights, values = observed.weights[index], observed.values[index]
    among = observed.visible if kind.averages else None
    layers, rows, heads = (controls[f"{kind.name}.{name}"] for name in ("layers", "rows", "heads"))
    method, fusion = GRAPH_METHODS[int(controls["method"])], FUSIONS[int(controls["fusion"])]
    if method not in kind.methods or not len(rows):
        return torch.zeros(0)
    if method == "raw":
        found = []
        for layer in layers.tolist():  # one by one, since maps are large
            maps = weights[layer]
            own = (
                windowed_reference.raw(kind, layer, maps, rows)
                if kind.windows
                else explanations.mean_of_rows(maps, rows, among)
            )
            found.append(own[:, heads] if fusion == "each" else _fuse_heads(own, fusion)[:, None])
        return torch.stack(found, dim=2)
    if method == "rollout" and kind.windows:
        every = [[_fuse_heads(layer, fusion, 2) for layer in own] for own in observed.weights]
        included = torch.isin(torch.arange(len(weights)), layers)
        joint = windowed_reference.joint_of(kind, rows, weights[0])[None]
        stages = windowed_reference.stages(traced, kind, every, included)
        return windowed_rollout(stages, joint)[:, None, None]
    if method == "rollout":
        share = controls[f"{kind.name}.sinks"]
        if share and kind.has_sinks:
            weights = [explanations.without_sinks(layer, kind.patches, share) for layer in weights]
        fused = [_fuse_heads(layer, fusion) for layer in weights]
        ratio = controls[f"{kind.name}.discard"] / fused[0].shape[-1] ** 2
        if ratio:
            fused = [explanations.discard(layer, ratio) for layer in fused]
        included = torch.isin(torch.arange(len(weights)), layers)
        added, layers_included = explanations.add_parallel(fused, included, kind.parallel)
        return explanations.rollout(added, layers_included, rows, among)[:, None, None]
    outputs = (one.to(values[0].dtype) for one in traced.output_projections(kind))  # one at a time: they may be large
    norms = (
        windowed_reference.norms(kind, weights, values, outputs, rows)
        if kind.windows
        else [
            explanations.mean_of_rows(explanations.norms(layer, value, output), rows, among)
            for layer, value, output in zip(weights, values, outputs, strict=True)
        ]
    )
    return torch.stack(norms, dim=1)[:, None, layers]


def _fuse_heads(weights: Tensor, fusion: str, axis: int = 1) -> Tensor:
    if fusion == "mean":
        return weights.mean(axis)
    return weights.amax(axis) if fusion == "max" else weights.amin(axis)


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
            figures["sink"] = explanations.sink(layer, kind.patches)[:, :, None].expand(figures["entropy"].shape)
        layers.append(torch.stack([figures[name] for name in FIGURES if name in figures], dim=-1))
    return torch.stack(layers, dim=1)


def with_controls_off(plan: Plan, given: Sequence[Tensor]) -> list[npt.NDArray[Any]]:
    """Return the inputs of an attention graph with the given model inputs, and every control 0, False or empty."""
    controls = [
        np.zeros([axis if isinstance(axis, int) else 0 for axis in port.axes], port.dtype)
        for port in plan.inputs[len(given) :]
    ]
    return [*(tensor.numpy() for tensor in given), *controls]


def weights_by_kind(stacks: Sequence[npt.NDArray[Any]]) -> list[list[Tensor]]:
    """Return maps (batch, heads, layer, row, key) of each kind as a list of its layers, in float64."""
    return [[layer.double() for layer in torch.from_numpy(stack).unbind(2)] for stack in stacks]
