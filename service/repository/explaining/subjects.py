"""What is evaluated of each task: the parts of an input, and the score that is measured as they are taken away."""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from service.arrays import Array, only_first, probabilities
from service.batching.batcher import bucket_of
from service.batching.fair_queue import Caller
from service.errors import Unacceptable
from service.explanations.answer import AttentionMap
from service.explanations.comparison import compared, curve_names, is_comparison
from service.explanations.evaluation import SEED, Evaluation, MeasureName, Score
from service.explanations.query import ONE_ROW, AttentionQuery, evaluated_kind
from service.explanations.score import ENDS
from service.explanations.selection import Target, select
from service.inputs.model_input import ModelInput, Text
from service.options.attention import AttentionOptions
from service.repository.explaining.faithfulness import PARTS, Measure, Subject, count_scores, evaluate
from service.repository.models.detector import Detector
from service.repository.models.extractor import Extractor
from service.repository.models.generator import Generator
from service.repository.models.graph_controls import GraphControls, KindControls
from service.repository.models.mask_filler import MaskFiller
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import AttentionJob, Prediction, ServedModel
from service.repository.models.tagger import Tagger

SMALLEST_LENGTH = 1e-12
"""A cosine is divided by no smaller product of lengths."""
Attend = Callable[[AttentionQuery], Awaitable[Sequence[AttentionMap]]]
"""Computes the maps of a query."""


def evaluation_cost(served: ServedModel, query: AttentionQuery) -> tuple[int, int]:
    """Return how many scores an evaluation measures of an input at most, and how often graphs run for its comparison.

    Raises Unacceptable as `compared` does.
    """
    if not query.options.evaluate:
        return 0, 0
    others = list(compared(query, served.query).values()) if is_comparison(query) else []
    orders = len(others) + 1 if others else 1 + query.options.orders
    return count_scores(orders, curve_names(query)), sum(one.runs for one in others)


async def evaluation_of(
    served: ServedModel, subject: Subject, query: AttentionQuery, maps: Sequence[AttentionMap], attend: Attend
) -> Evaluation:
    """Return the evaluation that a query asks for: of its own `maps`, or of all methods of the model.

    Raises Unacceptable for maps of which not exactly one row explains what is evaluated.
    """
    found: dict[str, Array] = {}
    if is_comparison(query):
        for method, one in compared(query, functools.partial(_resolved, served, query), subject.index).items():
            found[method] = subject.values(await attend(one), one)
    else:
        found[query.method] = subject.values(maps, query)
    names, digits = curve_names(query), query.options.digits
    seeds = range(SEED, SEED + query.options.orders)
    return await evaluate(subject, found, names, digits, seeds, compared=is_comparison(query))


def _resolved(served: ServedModel, query: AttentionQuery, options: AttentionOptions) -> AttentionQuery:
    """Return the attention that options ask for, of what counts as found in a query."""
    resolved = served.query(options)
    return served.query_with(resolved, query.entities) if isinstance(served, Predictor) else resolved


def predicted(
    served: Predictor,
    item: ModelInput,
    query: AttentionQuery,
    text: Text,
    prediction: Prediction,
    other: Prediction | None,
    caller: Caller,
) -> Subject:
    """Return what is evaluated of a prediction: the probability of a class or of a mask's token, or a cosine.

    `other` is the embedding that one is compared with. Raises Unacceptable for an input of several masks if the
    request does not say which one.
    """
    if isinstance(served, Extractor):
        return _answered(served, item, query, caller)
    if isinstance(served, MaskFiller):
        return _filled(served, item, query, prediction, caller)
    if query.explains == "embedding":
        if other is None:
            raise TypeError("the embedding of an input is evaluated by another")

        async def cosine(rest: ModelInput) -> float:
            own = only_first(await served.predict(rest, caller), query.kept)
            lengths = float(np.linalg.norm(own) * np.linalg.norm(other))
            return float(own @ other) / max(lengths, SMALLEST_LENGTH)

        return _subject(served, item, cosine, Score("cosine", "the other input", {"target": None}))
    if isinstance(served, Detector):
        return _detected(served, item, query, prediction, caller)
    if isinstance(served, Tagger):
        (target,) = served.targets_after(item, query, prediction, text)
        return _tagged(served, item, target, caller)
    (index,) = query.targets or (int(prediction.argmax()),)
    scores, name = served.manifest.scores, str(served.class_entry(index)["label"])

    async def chance(rest: ModelInput) -> float:
        return float(probabilities(await served.predict(rest, caller), scores)[index])

    measure: MeasureName = "score" if scores == "identity" else "probability"
    score = Score(measure, name, {"target": index})
    return replace(_subject(served, item, chance, score), index=index)


def _detected(
    served: Detector, item: ModelInput, query: AttentionQuery, prediction: Prediction, caller: Caller
) -> Subject:
    """Return what is evaluated of an image with objects: the probability of the likeliest class of one of them."""
    target = served.chosen(served.targets(item, query)[0], prediction)

    async def chance(rest: ModelInput) -> float:
        return float(served.chances(await served.predict(rest, caller))[target.position, target.token])

    named = {"target": target.token, "object": target.position}
    score = Score("probability", served.manifest.labels[target.token], named)
    subject = _subject(served, item, chance, score)
    return replace(subject, index=target.position, position=served.row_of(target.position))


def _tagged(served: Tagger, item: ModelInput, target: Target, caller: Caller) -> Subject:
    """Return what is evaluated of a text with entities: the probability of the label of one at its first token.

    Raises Unacceptable for a model without a token that stands for one that is taken away: places would be others.
    """
    if not served.inputs.rule.stand_ins:
        raise Unacceptable("evaluate: needs a mask or padding token, and this model has none")

    async def chance(rest: ModelInput) -> float:
        return _probability((await served.predict(rest, caller))[target.position], target.token)

    named = {"target": target.token, **served.entity_entry(target)}
    score = Score("probability", served.manifest.labels[target.token], named)
    return replace(_subject(served, item, chance, score), index=target.index, position=target.position)


def _answered(served: Extractor, item: ModelInput, query: AttentionQuery, caller: Caller) -> Subject:
    """Return what is evaluated of an end of an answer: the probability of the token that it is at."""
    (target,) = served.targets(item, query)

    async def chance(rest: ModelInput) -> float:
        assert rest.ends is not None  # noqa: S101 # as the item has them
        return float(served.chances(rest, await served.predict(rest, caller))[rest.ends[target.token], target.token])

    named = {"target": target.token, "answer": target.index, "part": ENDS[target.token]}
    score = Score("probability", ENDS[target.token], named)
    return replace(_subject(served, item, chance, score), position=target.position)


def _filled(
    served: MaskFiller, item: ModelInput, query: AttentionQuery, prediction: Prediction, caller: Caller
) -> Subject:
    """Return what is evaluated of a text with masks: the probability of the likeliest token for one of them."""
    positions: list[int] = item.arrays["masked"].tolist()
    mask = _target(query, positions, item.lengths)
    token = int(prediction[mask].argmax())

    async def chance(rest: ModelInput) -> float:
        return _probability((await served.predict(rest, caller))[mask], token)

    score = Score("probability", served.text_of(token), {"target": token, "mask": mask})
    return replace(_subject(served, item, chance, score), index=mask, position=positions[mask])


def generated(
    served: Generator, source: ModelInput, target: Sequence[int], query: AttentionQuery, caller: Caller
) -> Subject:
    """Return what is evaluated of a generated target: the probability of one of its tokens, given those before it.

    What is taken away are parts of the source, or of the prompt that is continued. Raises Unacceptable for a target of
    several tokens if the request does not say which one.
    """
    first = source.lengths["source"] - 1 if served.continues else 0
    lengths = served.lengths(source.lengths[served.inputs.axis], len(target))
    index = _target(query, range(first, first + len(target)), lengths)
    token = target[index]

    async def chance(rest: ModelInput) -> float:
        # fed as its row emits it, whatever row is read
        emitting = replace(query, options=query.options.model_copy(update={"align": "emit"}))
        item = served.finished(rest, target[: index + 1], emitting)
        return _probability((await _answer(served, item, caller))[-1], token)

    score = Score("probability", served.target_tokenizer.text_of(token), {"target": token, "position": index})
    return replace(_subject(served, source, chance, score), index=index, position=first + index)


def _probability(logits: Array, token: int) -> float:
    """Return the probability of one token of a vocabulary."""
    logs = logits.astype(np.float64) - logits.max()
    return float(np.exp(logs[token]) / np.exp(logs).sum())


def _target(query: AttentionQuery, positions: Sequence[int], lengths: Mapping[str, int]) -> int:
    """Return which of the tokens at these positions is evaluated: the target, or the only one whose row is read."""
    if query.targets:
        (index,) = select("target", query.targets, len(positions))
        return index
    rows: Sequence[int] = positions
    kind = evaluated_kind(query.model_kinds)
    for kind_query in query.kinds:
        if kind_query.kind == kind and not query.by_gradient:
            rows = query.rows(kind_query, lengths)
    among = [index for index, position in enumerate(positions) if position in rows]
    if len(among) != 1:
        raise Unacceptable(ONE_ROW)
    return among[0]


def _subject(served: ServedModel, item: ModelInput, measure: Measure, score: Score) -> Subject:
    kind = evaluated_kind(served.manifest.attention)
    rule = served.inputs.rule
    columns, take_away = PARTS[rule.modality](item, kind, rule)
    return Subject(item, kind, columns, take_away, measure, score)


async def _answer(served: Generator, item: ModelInput, caller: Caller) -> Prediction:
    """Return the logits of a target, from one teacher-forced pass in which no map is asked for."""
    nothing = tuple(KindControls(kind, (0,), (), ()) for kind in served.manifest.attention)
    controls = GraphControls("raw", "mean", diagnose=False, kinds=nothing)
    bucket = bucket_of(max(item.lengths.values())), controls, None
    logits, _ = await served.attention_lane.submit(
        AttentionJob(item, controls), served.footprint.maps(item.lengths), bucket, caller
    )
    return logits
