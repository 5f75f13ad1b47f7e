"""Faithfulness of a map: how the score that it explains changes as what the map names is taken away, or put back.

Samek et al. 2017; Petsiuk et al. 2018 (RISE, section 4.2). Beside each curve stand those of random orders with fixed
seeds: a map whose curve is no better explains nothing.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from contract.input_rules import NODES, SAMPLES, GraphRule, ImageRule, SoundRule, TextRule
from contract.manifest import Kind
from service.arrays import Array
from service.concurrency import together
from service.errors import Unacceptable
from service.explanations.answer import AttentionMap
from service.explanations.evaluation import RANDOM, SEED, STEPS, Curve, CurveName, Evaluation, Score
from service.explanations.query import ONE_ROW, AttentionQuery, is_of
from service.explanations.relevance_identity import identity_rows
from service.inputs.model_input import ModelInput

Measure = Callable[[ModelInput], Awaitable[float]]
"""Returns the score of an input of which some parts were taken away."""


def count_scores(orders: int, names: Sequence[CurveName]) -> int:
    """Return how many scores an evaluation of these curves takes at most, for a number of orders, random ones included.

    All curves begin or end with the whole input, and with nothing of it.
    """
    return 2 + orders * len(names) * (STEPS - 1)


@dataclass(frozen=True)
class Subject:
    """An input whose parts are taken away, and what is measured of the rest."""

    item: ModelInput
    kind: Kind
    """That of the maps, among whose columns the parts are."""
    columns: Array
    """The columns of the parts."""
    take_away: Callable[[Array], ModelInput]
    """Returns the input with those parts only that are True in an array of bool (part)."""
    measure: Measure
    score: Score
    index: int | None = None
    """The class, mask or position that is explained, as a request names it; None for an embedding."""
    position: int | None = None
    """Of a token: the position of the row that explains it. Of a whole answer, maps have one row."""

    @property
    def parts(self) -> Literal["patches", "tokens"]:
        """What is taken away."""
        return "patches" if self.kind.grid else "tokens"

    def values(self, maps: Sequence[AttentionMap], query: AttentionQuery) -> Array:
        """Return what a map says of each part. The identity that a row of relevance starts from is subtracted.

        Raises Unacceptable for maps of which not exactly one row explains the score.
        """
        own = [one for one in maps if is_of(one.kind, self.kind)]
        if len(own) != 1 or len(own[0].values) != 1:
            raise Unacceptable(ONE_ROW)
        ((rows,), positions) = own[0].values, own[0].rows or ()
        whole = self.position is None or own[0].rows is None
        explaining = [row for row in range(len(rows)) if whole or positions[row] == self.position]
        if len(explaining) != 1:
            raise Unacceptable(ONE_ROW)
        (row,) = explaining
        values = rows[row].astype(np.float64)
        if query.rules.identity and positions:
            values -= identity_rows(query, own[0].kind, (positions[row],), len(values))[0]
        found: Array = values[self.columns]
        return found


async def evaluate(
    subject: Subject,
    found: Mapping[str, Array],
    names: Sequence[CurveName],
    digits: int,
    seeds: Sequence[int] = (SEED,),
    *,
    compared: bool,
) -> Evaluation:
    """Return the curves of each method by what it `found` of the parts, and those of a random order for each seed.

    Parts go by their signed value: what speaks for the score most, first. Equal values go in the first random order, so
    that a map that says nothing has its curve.
    """
    at_random, *others = (np.random.default_rng(seed).permutation(len(subject.columns)) for seed in seeds)
    orders = {method: at_random[np.argsort(-values[at_random], kind="stable")] for method, values in found.items()}
    orders[RANDOM] = at_random
    further = {f"{RANDOM} {seed}": order for seed, order in zip(seeds[1:], others, strict=True)}
    scores: dict[bytes, float] = {}
    curves: dict[str, dict[CurveName, Curve]] = {}
    for method, order in {**orders, **further}.items():
        curves[method] = {}
        for name in names:
            points = [kept(order, step, name) for step in range(STEPS + 1)]
            missing = {one.tobytes(): one for one in points if one.tobytes() not in scores}
            values = await together(_score(subject, one) for one in missing.values())
            scores |= zip(missing, values, strict=True)
            curves[method][name] = np.array([scores[one.tobytes()] for one in points])
    beside = [curves.pop(name) for name in further]
    return Evaluation(subject.score, subject.parts, curves, compared, digits, beside)


def kept(order: Array, step: int, name: CurveName) -> Array:
    """Return which parts there are at a step of a curve, an array of bool (part)."""
    first = np.zeros(len(order), np.bool_)
    first[order[: round(step / STEPS * len(order))]] = True
    return first if name == "insertion" else ~first


async def _score(subject: Subject, parts: Array) -> float:
    return await subject.measure(subject.take_away(parts))


def patches(item: ModelInput, kind: Kind, rule: ImageRule) -> tuple[Array, Callable[[Array], ModelInput]]:
    """Return the columns of an image's patches, and what makes all but some of them black.

    Of an image that was fitted in, the cells beside it are no parts.
    """
    grid = kind.grid or (1, 1)
    fitted = item.picture if rule.locate == "fit" else None
    shown = fitted.visible_cells(grid) if fitted else np.ones(grid[0] * grid[1], np.bool_)
    pixels = item.arrays["pixels"]
    # the pixels behind the last whole patch go with it
    row, column = (np.arange(side) // (side // count) for side, count in zip(pixels.shape, grid, strict=False))
    of_pixel = row.clip(max=grid[0] - 1)[:, None] * grid[1] + column.clip(max=grid[1] - 1)  # (height, width)

    def take_away(parts: Array) -> ModelInput:
        left = np.ones(len(shown), np.bool_)
        left[shown] = parts
        rest = np.where(left[of_pixel][..., None], pixels, 0).astype(pixels.dtype)
        return replace(item, arrays={**item.arrays, "pixels": rest})

    return kind.prefix + np.flatnonzero(shown), take_away


def tokens(item: ModelInput, kind: Kind, rule: TextRule) -> tuple[Array, Callable[[Array], ModelInput]]:
    """Return the columns of a text's tokens, and what masks all but some of them.

    A masked token becomes the mask token or, where the model has none, the token that fills a batch. Where there is
    neither, it is dropped, and the last token stays if no special one does, so that something is left. Special tokens
    and the masks that are to be filled are not among the parts. Raises Unacceptable for a text without others.
    """
    source = item.arrays["source"]
    stand_in = next(iter(rule.stand_ins.values()), None)
    free = ~item.special["source"]
    free[item.arrays.get("masked", [])] = False
    if stand_in is None and item.ends:  # which must be somewhere
        free[list(item.ends)] = False
    if stand_in is None and free.all():
        free[-1] = False
    columns = np.flatnonzero(free)
    if not len(columns):
        raise Unacceptable("evaluate: needs a token that may be taken away, given none")

    def take_away(parts: Array) -> ModelInput:
        gone = columns[~parts]
        if stand_in is not None:
            masked = source.copy()
            masked[gone] = stand_in
            return replace(item, arrays={**item.arrays, "source": masked})
        stays = np.delete(np.arange(len(source)), gone)
        return replace(
            item,
            # what a decoder is fed, and where it answers, is made anew
            arrays={name: array[stays] for name, array in item.arrays.items() if name.startswith("source")},
            lengths={**item.lengths, "source": len(stays)},
            special={"source": item.special["source"][stays]},
            ends=tuple(np.searchsorted(stays, item.ends).tolist()) if item.ends else None,
            tokens=[item.tokens[index] for index in stays.tolist()] if item.tokens else (),
        )

    return columns, take_away


def frames(item: ModelInput, kind: Kind, rule: SoundRule) -> tuple[Array, Callable[[Array], ModelInput]]:
    """Return the columns of a sound's frames, and what makes all but some of them silent.

    Raises Unacceptable for patches of a spectrogram: no part of a sound is one of them.
    """
    if kind.grid or item.sound is None:
        raise Unacceptable("evaluate: is of frames of a sound, not of patches of its spectrogram")
    columns, samples = np.arange(item.sound.frames), item.arrays[SAMPLES]
    of_sample = ((np.arange(len(samples)) - rule.side) / rule.rate / rule.step).astype(np.int64)

    def take_away(parts: Array) -> ModelInput:
        left = np.concatenate([parts, [True]])  # what is behind the sound stays as it is
        rest = np.where(left[of_sample.clip(0, len(parts))], samples, 0).astype(samples.dtype)
        return replace(item, arrays={**item.arrays, SAMPLES: rest})

    return columns, take_away


def nodes(item: ModelInput, kind: Kind, rule: GraphRule) -> tuple[Array, Callable[[Array], ModelInput]]:
    """Return the columns of a graph's nodes, and what makes all but some of them say nothing. Edges stay.

    Raises Unacceptable where each type of nodes says something.
    """
    if rule.plain is None:
        raise Unacceptable("evaluate: needs a type of nodes that says nothing; this model has none")
    columns, types = np.flatnonzero(~item.special[NODES]), item.arrays[NODES]

    def take_away(parts: Array) -> ModelInput:
        rest = types.copy()
        rest[columns[~parts]] = rule.plain
        return replace(item, arrays={**item.arrays, NODES: rest})

    return columns, take_away


PARTS: dict[str, Callable[[ModelInput, Kind, Any], tuple[Array, Callable[[Array], ModelInput]]]] = {
    "image": patches,
    "text": tokens,
    "sound": frames,
    "graph": nodes,
}
"""By the modality of an input: the columns of its parts, and what takes some away."""
