"""What is to be exported: a source, and for each role a plan of its graph."""

import dataclasses
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from contract.manifest import Dtype, Generation, ImageRule, Kind, Port, Role, Scores, Task, TextRule

Sizes = dict[str, int]
"""How long each named axis is."""

Below = dict[str, int | str]
"""Integer inputs by name: indices are drawn below a number, or below the least true length of an axis."""


def words(sizes: Mapping[str, int]) -> str:
    """Say sizes: `batch 3, source 13`."""
    return ", ".join(f"{axis} {size}" for axis, size in sizes.items())


DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "bool": torch.bool,
}


@dataclass(frozen=True)
class Plan:
    """One graph to make: a module that takes and returns tensors in the order of its ports."""

    role: Role
    module: nn.Module
    """The definition: it returns at least what verification holds the graph against."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    attentions: int
    """How often the module attends, which is how many softmaxes its graph must have."""
    below: Below = field(default_factory=dict)

    def example(self, sizes: Sizes, seed: int, given: Mapping[str, Tensor] | None = None) -> list[Tensor]:
        """Draw one tensor an input that is not given; masks are padded on the right up to half, the first row whole."""
        generator, given = torch.Generator().manual_seed(seed), given or {}
        return [given[port.name] if port.name in given else self._draw(port, sizes, generator) for port in self.inputs]

    def cut(self, inputs: Container[str], outputs: Container[str]) -> "Plan":
        """Return the same without some ports."""
        return dataclasses.replace(
            self,
            inputs=tuple(port for port in self.inputs if port.name not in inputs),
            outputs=tuple(port for port in self.outputs if port.name not in outputs),
        )

    def _draw(self, port: Port, sizes: Sizes, generator: torch.Generator) -> Tensor:
        shape = [sizes[axis] if isinstance(axis, str) else axis for axis in port.axes]
        if port.dtype == "bool":
            lengths = torch.randint(_least(shape[1]), shape[1] + 1, (shape[0], 1), generator=generator)
            lengths[0] = shape[1]
            return torch.arange(shape[1]) < lengths
        if port.dtype in ("float32", "float16", "bfloat16"):
            return torch.randn(shape, generator=generator).to(DTYPES[port.dtype])
        limit = self.below.get(port.name, 256)
        return torch.randint(
            _least(sizes[limit]) if isinstance(limit, str) else limit,
            shape,
            generator=generator,
            dtype=DTYPES[port.dtype],
        )


def _least(size: int) -> int:
    return (size + 1) // 2


@dataclass(frozen=True)
class Source:
    """A model with its weights and everything that the manifest says of it."""

    name: str
    family: str
    task: Task
    base: Plan
    """The graph that those of `attention`, `predict` and `relevance` are made of, and whose module they share."""
    plans: tuple[Plan, ...]
    attention: tuple[Kind, ...]
    made_by: dict[str, str | int | float | bool | list[int]]
    traced: Sizes
    tried: tuple[Sizes, ...]
    """Sizes at which the graphs are verified, all other than the traced ones."""
    longest: Sizes | None = None
    """The largest sizes there are, at which only predictions are verified."""
    labels: tuple[str, ...] = ()
    scores: Scores = "softmax"
    image: ImageRule | None = None
    text: TextRule | None = None
    generation: Generation | None = None
    tokenizer: str | None = None
    """The text of tokenizer.json."""
    target_tokenizer: str | None = None
    """The same of targets, where it is another."""

    def plan(self, role: Role) -> Plan:
        """Return the plan of one role."""
        return next(plan for plan in self.plans if plan.role == role)

    def without(self, role: Role) -> "Source":
        """Return the same without a role, and without what it serves."""
        kinds = [
            kind.model_copy(update={"methods": tuple(method for method in kind.methods if method != role)})
            for kind in self.attention
        ]
        plans = tuple(plan for plan in self.plans if plan.role != role)
        return dataclasses.replace(self, plans=plans, attention=tuple(kinds))


def patch_centres(grid: tuple[int, int], image: ImageRule) -> npt.NDArray[np.float64]:
    """Return the centres (patch, 2) of an image's patches, down and across, in pixels of what the model takes."""
    down, across = image.height / grid[0], image.width / grid[1]
    return np.array([[(y + 0.5) * down, (x + 0.5) * across] for y in range(grid[0]) for x in range(grid[1])])


Precision: TypeAlias = Literal["fp32", "fp16", "bf16", "int8"]


HALVES: Mapping[str, Dtype] = {"fp16": "float16", "bf16": "bfloat16"}
"""What a graph of half floats computes in."""


OWN = ("past.", "present.", "memory.", "decoder.blocks.", "encoder.blocks.", "decoder.attention")
"""What caches, memory, weights and values are called: they stay in the precision that the graph computes in."""


def ports(given: tuple[Port, ...], precision: Precision) -> tuple[Port, ...]:
    """Return the ports of a graph of that precision."""
    return tuple(
        port.model_copy(update={"dtype": HALVES[precision]})
        if precision in HALVES and port.dtype == "float32" and port.name.startswith(OWN)
        else port
        for port in given
    )
