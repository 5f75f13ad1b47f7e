"""A model's attention over many inputs, and what two models make of the same ones."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from regard import axes
from regard.errors import BadInput
from regard.table import Table

if TYPE_CHECKING:
    from regard.model import Model
    from regard.options import AttentionOptions, Method
    from regard.results import Result

Figures: TypeAlias = npt.NDArray[np.float64]
Progress: TypeAlias = bool | Callable[[int], object]
"""True writes to stderr how many inputs are done; a function is called with their number."""
BATCH = 16
"""Inputs of a request, unless the service takes fewer."""
FEWEST = 2
"""Blocks of a map's side that are sent, since figures are wanted and no maps."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Figures of every head of one kind of attention over inputs: `summary["entropy"]` is (inputs, layers, heads)."""

    kind: str
    figures: Mapping[str, Figures] = field(repr=False)
    """By name, (inputs, layers, heads): `entropy` in nats, `special` (weight on special tokens), of pictures `distance`
    in pixels that the model takes and `sink` (the largest share of one patch)."""
    max_entropy: Figures = field(repr=False)
    """(inputs,), in nats: of a row that looks everywhere alike, which longer inputs have more of."""
    sinks: Figures = field(repr=False)
    """(layers, heads): the share of inputs in which a head gives most of its attention to one patch."""

    def __getitem__(self, name: str) -> Figures:
        return self.figures[name]

    @property
    def mean(self) -> Mapping[str, Figures]:
        """The mean over inputs, (layers, heads)."""
        return {name: values.mean(0) for name, values in self.figures.items()}

    @property
    def spread(self) -> Mapping[str, Figures]:
        """The standard deviation over inputs, (layers, heads)."""
        return {name: values.std(0) for name, values in self.figures.items()}

    def table(self) -> Table:
        """Return a row for each head, with the mean and the spread of each figure."""
        mean, spread = self.mean, self.spread
        return Table(
            {
                "layer": layer, "head": head,
                **{name: float(mean[name][layer, head]) for name in mean},
                **{f"{name} spread": float(spread[name][layer, head]) for name in spread},
                "sink in": float(self.sinks[layer, head]),
            }
            for layer, head in np.ndindex(self.sinks.shape)
        )  # fmt: skip

    def __repr__(self) -> str:
        inputs, (layers, heads) = len(self.max_entropy), self.sinks.shape
        return f"<{self.kind}: {', '.join(self.figures)} of {layers} layers x {heads} heads over {inputs} inputs>"


@dataclass(frozen=True, eq=False)
class Difference:
    """What two models made of the same inputs."""

    models: tuple[str, str]
    method: str
    said: Sequence[tuple[str, str]] = field(repr=False)
    """What each said of each input, in short."""
    distance: Figures = field(repr=False)
    """(inputs,): from 0 to 1, half the sum of what the shares of their maps differ by, the mean over rows; NaN where
    the maps have other shapes."""

    @property
    def flipped(self) -> list[int]:
        """The numbers of the inputs of which they said something else."""
        return [at for at, (one, other) in enumerate(self.said) if one != other]

    def table(self) -> Table:
        """Return a row for each input: what each model said, and the distance of their maps."""
        return Table(
            {"input": at, "first": one, "second": other, "distance": float(distance)}
            for at, ((one, other), distance) in enumerate(zip(self.said, self.distance, strict=True))
        )

    def __repr__(self) -> str:
        one, other = self.models
        known = self.distance[~np.isnan(self.distance)]
        apart = f"{known.mean():.3f} apart by {self.method}" if len(known) else "of other shapes"
        return f"<{one} and {other} over {len(self.said)} inputs: {len(self.flipped)} flipped, maps {apart}>"


def summarise(model: Model, inputs: Iterable[Any], *, progress: Progress = False) -> dict[str, Summary]:
    """Return figures of every layer and head over inputs, by kind of attention, such as `encoder`.

    The service computes them, in requests of a few inputs, and sends no maps. Raises BadInput without inputs, and what
    the service refuses.
    """
    found: dict[str, list[Any]] = {}
    asked: AttentionOptions = {"diagnostics": True, "pool": FEWEST}
    for batch in _batches(model, inputs, progress):
        for look in model.attention_batch(batch, method="raw", **asked):
            for diagnosis in look.attention.diagnostics if look.attention else ():
                found.setdefault(diagnosis.kind, []).append(diagnosis)
    if not found:
        raise BadInput("inputs: must be some, of a model that shows raw attention, given none")
    return {kind: _summary(kind, figures) for kind, figures in found.items()}


def _summary(kind: str, found: Sequence[Any]) -> Summary:
    figures = {name: np.stack([one.heads[name] for one in found]) for name in found[0].heads}
    sinks = np.zeros(next(iter(figures.values())).shape[1:])
    for sink in itertools.chain.from_iterable(one.sinks for one in found):
        sinks[sink.layer, sink.head] += 1 / len(found)
    return Summary(kind, figures, np.array([one.max_entropy for one in found]), sinks)


def difference(
    first: Model, second: Model, inputs: Iterable[Any], *, method: Method | None = None, progress: Progress = False
) -> Difference:
    """Return what two models of one task say of inputs, and how far their maps are apart.

    `method` is how maps are computed: by default the first model's usual one if the second has it, else `raw`. Compared
    are the shares of the first map of the last kind, the mean of its heads. Raises BadInput for models of other tasks.
    """
    if first.description.endpoints[0] != second.description.endpoints[0]:
        raise BadInput("second: must be a model of the same task as the first, given another")
    usual: Method = first.description.usual["method"]
    chosen: Method = method or (usual if usual in second.description.methods else "raw")
    said, distances = [], []
    for batch in _batches(first, inputs, progress):
        for one, other in zip(_answers(first, batch, chosen), _answers(second, batch, chosen), strict=True):
            said.append((one.said, other.said))
            distances.append(_distance(_shares(one), _shares(other)))
    return Difference((first.name, second.name), chosen, said, np.array(distances))


def _answers(model: Model, batch: Sequence[Any], method: Method) -> Sequence[Result]:
    ask = getattr(model, f"{model.description.endpoints[0].replace('-', '_')}_batch")
    answers: Sequence[Result] = ask(batch, attention=method)
    return answers


def _shares(result: Result) -> Figures | None:
    """Return the rows of a map, (queries, keys), each over the sum of the sizes of its values."""
    if result.attention is None:
        return None
    values = axes.maps_of(result.attention)[0].values.mean(0, dtype=np.float64)
    sizes = np.abs(values).sum(1, keepdims=True)
    shares: Figures = values / np.where(sizes == 0, 1, sizes)
    return shares


def _distance(one: Figures | None, other: Figures | None) -> float:
    if one is None or other is None or one.shape != other.shape:
        return float("nan")
    return float(np.abs(one - other).sum(1).mean() / 2)


def _batches(model: Model, inputs: Iterable[Any], progress: Progress) -> Iterator[list[Any]]:
    """Yield inputs in lists, and tell how many are done."""
    rest, done = iter(inputs), 0
    while batch := list(itertools.islice(rest, min(BATCH, model.description.max_inputs))):
        yield batch
        done += len(batch)
        if callable(progress):
            progress(done)
        elif progress:
            sys.stderr.write(f"\r{done} inputs")
            sys.stderr.flush()
    if progress is True:
        sys.stderr.write("\n")
