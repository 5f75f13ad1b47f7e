"""Gradient methods: what is asked of their graphs to explain scores of one input, and the maps that are read of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from contract.manifest import GradientMethod, KindName, Manifest
from service.arrays import Array, only_first
from service.batching.fair_queue import Caller
from service.explanations.answer import MOST_ERROR, AttentionMap
from service.explanations.query import FINER, PATH_ENDS, AttentionQuery
from service.explanations.relevance_identity import identity_rows
from service.explanations.selection import KindQuery, Target
from service.inputs.model_input import ModelInput
from service.repository.explaining.baselines import baseline_controls
from service.repository.models.gradient_jobs import ANSWERS, ROWS, Found, GradientJob
from service.repository.models.graph_controls import grid_entry
from service.repository.models.served_model import Prediction, ServedModel

Figures = dict[str, object]

SMALLEST_DIFFERENCE = 1e-6
"""A smaller difference of scores counts as this."""
MOST_JOBS = 256
"""Most runs of one input that wait in a lane at once; the runs of one target always wait together."""


@dataclass(frozen=True)
class Explained:
    """What a method found of one score."""

    target: Target
    values: Mapping[str, Array]
    """For each kind of the graph, (layer, row, key)."""
    figures: Sequence[Figures]
    """For each layer, how the values add up: what an answer says of them."""
    answer: Prediction | None
    """The answer of the model, if it was asked for."""

    @property
    def is_rough(self) -> bool:
        """True if values along a path miss too much of the difference that they explain."""
        completeness: Any = self.figures[0].get("completeness", {})
        return bool(completeness.get("relative_error", 0) > MOST_ERROR)


async def explain_scores(
    served: ServedModel,
    item: ModelInput,
    query: AttentionQuery,
    targets: Sequence[Target],
    caller: Caller,
    other: tuple[Prediction, float] | None = None,
    *,
    answers: bool = False,
) -> list[Explained]:
    """Return what the method of a query finds of each target's score: of the cosine with `other`, times its weight.

    With `answers` the first one holds the answer of the model too, if the graph returns it.
    Integrated gradients need targets that name their class or token, since the likeliest changes along the path.
    """
    manifest = served.manifest
    method = cast(GradientMethod, query.method)  # the query is one by gradient
    read = READERS[method]

    async def run(some: Sequence[Target], points: Sequence[float], *, answers: bool = False) -> list[list[Found]]:
        """Return what the graph finds for each target, at each point."""
        vector, weight = other or (None, 1.0)
        jobs = [jobs_of(manifest, item, query, target, vector, points) for target in some]
        if answers:
            jobs[0][0] = replace(jobs[0][0], answers=True)
        every = await served.explain_scores(method, [job for own in jobs for job in own], caller)
        found = iter(every if weight == 1 else [_weighted(one, weight) for one in every])
        return [[next(found) for _ in own] for own in jobs]

    explained, at_once = [], max(1, MOST_JOBS // query.runs)
    for first in range(0, len(targets), at_once):
        some = targets[first : first + at_once]
        found = await run(some, path_of(query), answers=answers and not first)
        own = [read(manifest, query, target, runs) for target, runs in zip(some, found, strict=True)]
        rough = [index for index, one in enumerate(own) if query.refines and one.is_rough]
        if rough:
            further = await run([some[index] for index in rough], further_points(query.points))
            for index, runs in zip(rough, further, strict=True):
                own[index] = refined(own[index], runs, query.points)
        explained += own
    return explained


def _weighted(found: Found, weight: float) -> Found:
    """Return what was found of a multiple of a score. The answer of the model stays."""
    return {name: array if name in ANSWERS else array * np.float32(weight) for name, array in found.items()}


def path_of(query: AttentionQuery) -> list[float]:
    """Return the points of a path at first, and its ends."""
    return [*_middles(query.points), *PATH_ENDS]


def further_points(count: int) -> list[float]:
    """Return the points that make three times as many of `count`, which are among them."""
    return [point for index, point in enumerate(_middles(FINER * count)) if index % FINER != FINER // 2]


def _middles(count: int) -> list[float]:
    return [(index + 0.5) / count for index in range(count)]


def jobs_of(
    manifest: Manifest,
    item: ModelInput,
    query: AttentionQuery,
    target: Target,
    other: Prediction | None,
    points: Sequence[float] = (),
) -> list[GradientJob]:
    """Return the runs of a graph that explain a target: one, or one for each point of a path.

    Controls that a graph does not take are left out when it runs.
    """
    controls: dict[str, Array] = {
        "explained": np.array(target.token),
        "against": np.array(-1 if query.against is None else query.against),
        "position": np.array(target.position),
    }
    if other is not None:
        controls |= {"other": other, "kept": only_first(np.ones(len(other), np.float32), query.kept)}
    if query.rules.identity:
        return [GradientJob(item, controls | {ROWS: np.array(target.rows)}, query.kinds[0].layers)]
    if query.baseline is None:
        return [GradientJob(item, controls)]
    controls |= baseline_controls(item, query.baseline, manifest)
    return [GradientJob(item, controls | {"point": np.array(point, np.float32)}) for point in points]


def _read_relevance(manifest: Manifest, query: AttentionQuery, target: Target, found: Sequence[Found]) -> Explained:
    (one,) = found
    answer, *ports = manifest.graphs["relevance"].outputs
    values: dict[str, Array] = {port.name: one[port.name][None].copy() for port in ports}
    if query.summarized:  # the mean of all rows, without the identity that each starts from
        for asked in query.kinds:
            rows = values[asked.kind.name]
            rows = rows - identity_rows(query, query.shown(asked.kind), target.rows, rows.shape[2])
            values[asked.kind.name] = rows.mean(1, dtype=np.float64, keepdims=True).astype(np.float32)
    return Explained(target, values, [{}], one.get(answer.name))


def _read_libra(manifest: Manifest, query: AttentionQuery, target: Target, found: Sequence[Found]) -> Explained:
    (one,) = found
    answer, *ports = manifest.graphs["libra"].outputs
    kinds = [port.name for port in ports if port.name not in ("biases", "score")]
    layers = list(query.kinds[0].layers)
    values = {name: one[name][layers][:, None] for name in kinds}
    figures: list[Figures] = [
        {"conserved": {"tokens": _total(values, index), "biases": float(one["biases"][layer]),
                       "score": float(one["score"]), **_precision(manifest)}}
        for index, layer in enumerate(layers)
    ]  # fmt: skip
    return Explained(target, values, figures, one.get(answer.name))


def _read_integrated(manifest: Manifest, query: AttentionQuery, target: Target, found: Sequence[Found]) -> Explained:
    *between, whole, blank = found
    kinds = [port.name for port in manifest.graphs["integrated"].outputs if port.name != "score"]
    values = {
        name: np.asarray(np.mean([one[name] for one in between], axis=0, dtype=np.float64), np.float32)[None, None]
        for name in kinds
    }
    ends = {"score": float(whole["score"]), "baseline": float(blank["score"]), **_precision(manifest)}
    return Explained(target, values, [_completeness(values, ends, len(between))], None)


def refined(one: Explained, further: Sequence[Found], points: int) -> Explained:
    """Return what a path finds with further points, beside the `points` that it had."""
    count = points + len(further)
    values = {
        name: np.asarray(
            (old * np.float64(points) + np.sum([found[name] for found in further], axis=0, dtype=np.float64)) / count,
            np.float32,
        )
        for name, old in one.values.items()
    }
    ends: Any = one.figures[0]["completeness"]
    return replace(one, values=values, figures=[_completeness(values, ends, count)])


def _completeness(values: Mapping[str, Array], ends: Mapping[str, Any], steps: int) -> Figures:
    """Return how far the tokens add up to what the score is more than the baseline's.

    `relative_error` is the share of that difference that they miss, or exceed.
    """
    tokens, difference = _total(values, 0), ends["score"] - ends["baseline"]
    error = tokens - difference
    relative = abs(error) / max(abs(difference), SMALLEST_DIFFERENCE)
    return {"steps": steps, "completeness": {**ends, "tokens": tokens, "error": error, "relative_error": relative}}


def _precision(manifest: Manifest) -> dict[str, str]:
    """Return the precision that scores are computed in, where it is not that of the predictions."""
    return {"precision": manifest.explained} if manifest.explained else {}


READERS: Mapping[GradientMethod, Callable[[Manifest, AttentionQuery, Target, Sequence[Found]], Explained]] = {
    "relevance": _read_relevance,
    "libra": _read_libra,
    "integrated": _read_integrated,
}


def _total(values: Mapping[str, Array], layer: int) -> float:
    """Return the sum over the tokens of all kinds."""
    return float(sum(own[layer].sum(dtype=np.float64) for own in values.values()))


def maps_of(query: AttentionQuery, explained: Explained, entry: Mapping[str, object]) -> list[AttentionMap]:
    """Return the maps of one score: for each kind that is asked for and each layer, with an entry of its target."""
    maps = []
    for kind in query.kinds:
        stack = explained.values[kind.kind.name]
        for index, values in enumerate(stack):
            rows = None if query.summarized else explained.target.rows
            named = _entry(query, kind, index) | dict(entry) | dict(explained.figures[index])
            maps.append(AttentionMap(query.shown(kind.kind), named, values[None], rows))
    return maps


def maps_of_tokens(
    query: AttentionQuery, explained: Sequence[Explained], entries: Sequence[Sequence[Figures]]
) -> list[AttentionMap]:
    """Return the maps of generated tokens: for each kind and layer, one with a row for each token.

    `entries` are what an answer says of each token, for each layer.
    """
    maps = []
    rows = tuple(row for one in explained for row in one.target.rows)
    for kind in query.kinds:
        for index in range(len(explained[0].figures)):
            values = np.concatenate([found.values[kind.kind.name][index] for found in explained])
            entry = _entry(query, kind, index) | {"targets": [own[index] for own in entries]}
            maps.append(AttentionMap(kind.kind, entry, values[None], rows))
    return maps


def _entry(query: AttentionQuery, one: KindQuery, index: int) -> dict[str, object]:
    """Return what an answer says of a map, without its target."""
    entry: dict[str, object] = {"name": one.kind.name, "kind": one.kind.name, "layer": None}
    entry |= grid_entry(query.shown(one.kind))
    if query.rules.identity:
        entry |= {"layers": list(one.layers), "heads": "mean", "normalized": False}
        return entry | {"queries": None} if query.summarized else entry
    if query.rules.by_layer:
        entry["layer"] = one.layers[index]
    entry |= {"heads": "sum", "normalized": False, "signed": True}
    if query.rules.path:
        entry |= {"steps": query.points, "baseline": query.baseline}
    return entry


def parts_of(explained: Explained, columns: Mapping[str, tuple[KindName, slice | list[int]]]) -> list[Figures]:
    """Return for each layer the sum of some columns, and their share of the absolute sum of all of them.

    `columns` says for each part which columns of which kind it is. Without values, all shares are 0.
    """
    found: list[Figures] = []
    for index in range(len(explained.figures)):
        parts = {
            name: explained.values[kind][index][..., chosen].astype(np.float64)
            for name, (kind, chosen) in columns.items()
        }
        whole = sum(np.abs(part).sum() for part in parts.values())
        found.append(
            {
                name: {"sum": float(part.sum()), "share": float(np.abs(part).sum() / whole) if whole else 0.0}
                for name, part in parts.items()
            }
        )
    return found
