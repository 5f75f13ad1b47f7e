"""What is to be exported: a `Source` is a model with its metadata, a `Plan` is one graph of its artifact."""

import copy
import dataclasses
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from contract.contrast import Comparison
from contract.detection import Detection
from contract.example import Example
from contract.generation import Generation
from contract.input_rules import EDGES, ImageRule, Inputs, Rule
from contract.manifest import (
    ANSWERED,
    GRADIENT_METHODS,
    SALIENCY,
    SHOWN,
    STATE_METHODS,
    Dtype,
    GradientMethod,
    Kind,
    Method,
    Omissible,
    Port,
    Recommendation,
    Role,
    Scales,
    Scores,
    Task,
)
from export.errors import CheckpointError
from export.traced.base import Traced

Sizes: TypeAlias = dict[str, int]
"""The length of each named axis."""

UpperBounds: TypeAlias = dict[str, int | str]
"""Integer input -> exclusive upper bound of its example values.

A string names an axis: values then stay below the smallest true length that the axis may have.
"""

TORCH_DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "bool": torch.bool,
}

Precision: TypeAlias = Literal["fp32", "fp16", "bf16", "int8", "int4"]

QUANTIZED: Mapping[Precision, float] = {"int8": 1, "int4": 0.625}
"""Precision of few bits -> the bytes of a number of a matrix: of 4 bits, 32 of them share a scale."""

OPTIONAL_METHODS: tuple[Method, ...] = ("rollout", "norm", *get_args(GradientMethod), *STATE_METHODS, SALIENCY)
"""The methods that an artifact can be made without."""

OMISSIBLE: tuple[Omissible, ...] = (*OPTIONAL_METHODS, "inside")
"""All that an artifact can be made without."""

HALF_DTYPES: Mapping[str, Dtype] = {"fp16": "float16", "bf16": "bfloat16"}
"""Precision -> the dtype that a graph of half floats computes in."""

STATE_PREFIXES = ("past.", "present.", "memory.", "decoder.blocks.", "encoder.blocks.", "decoder.attention",
                  "source.planes.", "stages.", "vision.")  # fmt: skip
"""Prefixes of the names of caches, memory, weights and values: such ports have the dtype that the graph computes in."""


def format_sizes(sizes: Mapping[str, int]) -> str:
    """Format sizes for a message: `batch 3, source 13`."""
    return ", ".join(f"{axis} {size}" for axis, size in sizes.items())


def ports_in_precision(ports: tuple[Port, ...], precision: Precision) -> tuple[Port, ...]:
    """Return the ports of a graph of that precision: in half floats caches, memory, weights and values are too."""
    return tuple(
        port.model_copy(update={"dtype": HALF_DTYPES[precision]})
        if precision in HALF_DTYPES and port.dtype == "float32" and port.name.startswith(STATE_PREFIXES)
        else port
        for port in ports
    )


def patch_centres(grid: tuple[int, int], image: ImageRule) -> npt.NDArray[np.float64]:
    """Return the centres (patch, 2) of an image's patches as (y, x), in pixels of the model's input."""
    down, across = image.height / grid[0], image.width / grid[1]
    return np.array([[(y + 0.5) * down, (x + 0.5) * across] for y in range(grid[0]) for x in range(grid[1])])


@dataclass(frozen=True)
class Plan:
    """One graph to make: a module that takes and returns tensors in the order of its ports."""

    role: Role
    module: nn.Module
    """The definition. It returns at least what the graph's outputs are verified against."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    attentions: int
    """The number of attentions that the module computes, which is the number of softmaxes its graph must have."""
    upper_bounds: UpperBounds = field(default_factory=dict)
    answers: int = 1
    """So many of the outputs, the first ones, are what the model answers; the first of them can be explained."""

    def example(self, sizes: Sizes, seed: int, given: Mapping[str, Tensor] | None = None) -> list[Tensor]:
        """Return one random tensor per input, except for the inputs that are given.

        Masks are padded on the right, by at most half of their length; the first row is not padded.
        """
        generator, given = torch.Generator().manual_seed(seed), given or {}
        return [given[port.name] if port.name in given else self._draw(port, sizes, generator) for port in self.inputs]

    def without_ports(self, inputs: Container[str], outputs: Container[str]) -> "Plan":
        """Return the plan without the ports of these names."""
        return dataclasses.replace(
            self,
            inputs=tuple(port for port in self.inputs if port.name not in inputs),
            outputs=tuple(port for port in self.outputs if port.name not in outputs),
        )

    def _draw(self, port: Port, sizes: Sizes, generator: torch.Generator) -> Tensor:
        shape = [sizes[axis] if isinstance(axis, str) else axis for axis in port.axes]
        if port.name == ANSWERED:  # any tokens of a target, and the last, behind which a text goes on
            places = torch.randint(sizes["target"], shape, generator=generator)
            places[:, -1] = sizes["target"] - 1
            return places
        if port.name == EDGES:  # few, so that nodes are at all distances
            return torch.rand(shape, generator=generator) < 3 / shape[-1]
        if port.dtype == "bool" and isinstance(port.axes[1], int):  # cells of an image: any may be hidden but the first
            shown = torch.rand(shape, generator=generator) < 0.7
            shown[:, 0] = True
            shown[0] = True
            return shown
        if port.dtype == "bool":
            lengths = torch.randint(_smallest_length(shape[1]), shape[1] + 1, (shape[0], 1), generator=generator)
            lengths[-1] = _smallest_length(shape[1])  # so that there is padding
            lengths[0] = shape[1]
            return torch.arange(shape[1]) < lengths
        if port.dtype in ("float32", "float16", "bfloat16"):
            return torch.randn(shape, generator=generator).to(TORCH_DTYPES[port.dtype])
        if port.name == SHOWN:  # an image fills the canvas, or half of a side and more
            sides = torch.tensor([side for one in self.inputs if one.name == "pixels" for side in one.axes[1:3]])
            least = torch.rand(shape, generator=generator)
            least[0] = 1
            return (sides * (1 + least) / 2).ceil().long()
        bound = self.upper_bounds.get(port.name, 256)
        return torch.randint(
            _smallest_length(sizes[bound]) if isinstance(bound, str) else bound,
            shape,
            generator=generator,
            dtype=TORCH_DTYPES[port.dtype],
        )


def _smallest_length(size: int) -> int:
    """Return the smallest true length of a row in an axis of this size: half of it, rounded up."""
    return (size + 1) // 2


@dataclass(frozen=True)
class Source(Inputs):
    """A model with its weights and everything that the manifest says of it."""

    name: str
    family: str
    task: Task
    inputs: tuple[Rule, ...]
    traced: Traced
    """The module of `base`, typed: the answer, every map and every value of the model."""
    base: Plan
    """The graph from which the attention, prediction and relevance graphs are derived."""
    plans: tuple[Plan, ...]
    attention: tuple[Kind, ...]
    made_by: dict[str, str | int | float | bool | list[int]]
    traced_at: Sizes
    verified_at: tuple[Sizes, ...]
    """Sizes at which the graphs are verified; none of them equals `traced_at`."""
    verified_longest: Sizes | None = None
    """The largest sizes that the model takes, at which only predictions and prompts are verified."""
    labels: tuple[str, ...] = ()
    scores: Scores = "softmax"
    generation: Generation | None = None
    detection: Detection | None = None
    tokenizer: str | None = None
    """The content of `tokenizer.json`."""
    scales: Scales | None = None
    """Of 8 bits, what a scale is of in the graphs that answer in one pass; None is that of tokens."""
    explained: Literal["fp32"] | None = None
    """The precision of the graphs that explain a score, if it is not that of the artifact."""
    best: Recommendation | None = None
    """The method that explains the model best, where that was measured."""
    about: str | None = None
    """A sentence for those who see the model for the first time."""
    order: int = 100
    """The place among other models in lists."""
    examples: tuple[Example, ...] = ()
    example_files: Mapping[str, bytes] = field(default_factory=dict)
    """The files of examples that are pictures or sounds."""
    comparison: Comparison | None = None
    """How its vectors are compared with its partner's."""
    partner: "Source | None" = None
    """The source of texts that is exported with this one of pictures, or not at all."""
    target_tokenizer: str | None = None
    """The content of `target_tokenizer.json`, if targets have a tokenizer of their own."""

    def precision_of(self, role: Role, precision: Precision) -> Precision:
        """Return the precision of a role's graph in an artifact of that precision; saliency has no weights."""
        if role == SALIENCY:
            return "fp32"
        return self.explained if self.explained and role in get_args(GradientMethod) else precision

    def plan(self, role: Role) -> Plan:
        """Return the plan of one role."""
        return next(plan for plan in self.plans if plan.role == role)

    @property
    def together(self) -> "tuple[Source, ...]":
        """The sources that are exported together: this one, and its partner if it has one."""
        return (self, self.partner) if self.partner else (self,)

    @property
    def width(self) -> int | None:
        """Numbers in the state of a token, or None if no states are outputs of the base graph."""
        axes = [port.axes for port in self.base.outputs if port.name in self.traced.states]
        return int(axes[0][-1]) if axes else None

    def has(self, method: Omissible) -> bool:
        """Return whether a kind of attention has this method, or a graph is there for it."""
        return any(method in kind.methods for kind in self.attention) or any(plan.role == method for plan in self.plans)

    def without(self, method: Omissible) -> "Source":
        """Return the source without a method of attention, or `inside`: no kind has it, and no graph computes it."""
        kinds = tuple(
            kind.model_copy(update={"methods": tuple(one for one in kind.methods if one != method)})
            for kind in self.attention
        )
        traced = copy.copy(self.traced)  # which shares the definition and its weights
        traced.kinds = kinds
        surplus = [f"{kind.name}.{what}" for kind in kinds for what in ("discard", "sinks") if method == "rollout"]
        unread: list[str] = []
        if self.traced.last_states and not traced.last_states:  # no method is left that compares states
            surplus += [f"{kind.name}.after" for kind in kinds]
            unread = [*self.traced.last_states, *(f"{kind.name}.states" for kind in kinds)]

        def changed(plan: Plan) -> Plan:
            module = traced if plan.module is self.traced else plan.module
            return dataclasses.replace(plan.without_ports(surplus, unread), module=module)

        plans = tuple(changed(plan) for plan in self.plans if plan.role != method)
        return dataclasses.replace(self, traced=traced, base=changed(self.base), plans=plans, attention=kinds)


NO_GRADIENT: Mapping[Precision, str] = {
    "int8": "8-bit weights have no gradient; with --explain float it is exported in fp32",
    "int4": "4-bit weights have no gradient; with --precision int8 --explain float it is exported in fp32",
}


def leave_out(
    source: Source, precision: Precision, without: Collection[Omissible], *, explain_in_float: bool
) -> tuple[Source, dict[Omissible, str]]:
    """Return a source without the methods that are not wanted, or that few bits cannot have, and the reason for each.

    In 8 and 4 bits, the graphs that explain a score are left out, or of 8 with `explain_in_float` are single floats.
    Raises CheckpointError if a model is not exported in 4 bits.
    """
    if precision == "int4" and source.task != "text-generation":
        raise CheckpointError(f"--precision int4: is for models that continue texts, given {source.task}")
    reasons: dict[Omissible, str] = {}
    if precision == "int8" and explain_in_float:
        source = dataclasses.replace(source, explained="fp32")
    elif precision in QUANTIZED:
        reasons |= dict.fromkeys(GRADIENT_METHODS, NO_GRADIENT[precision])
    reasons |= dict.fromkeys(without, "as the export was asked to")
    left_out = {method: reason for method, reason in reasons.items() if source.has(method)}
    for method in left_out:
        source = source.without(method)
    return source, left_out
