"""An answer in two steps: all inputs are predicted, and some of them are explained, by options that are completed."""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from starlette.responses import Response

from contract.manifest import Manifest
from service.answering.call import Answered, Call
from service.answering.modalities import PendingInput
from service.answering.predictions import Then, predict
from service.api.tasks.answers import Answer
from service.explanations.answer import AttentionAnswer
from service.explanations.methods import METHODS, MethodRules
from service.explanations.query import AttentionQuery
from service.options.base import RequestOptions
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import Prediction

P = TypeVar("P", bound=Predictor)
T = TypeVar("T")


async def with_attention(
    call: Call[Predictor],
    options: RequestOptions,
    query: AttentionQuery | None,
    answered: Answered[T],
    places: Sequence[int],
    write: Callable[[Sequence[AttentionAnswer | None]], Response],
) -> Response | Then:
    """Return the step that answers what `write` makes of the attention of some inputs, or windows of inputs.

    `places` are theirs among the inputs of what was `answered` before, and is stored. Without a query there is none.
    """
    if query is None:
        return write([None] * len(places))
    prepared = [answered.inputs[place] for place in places]
    given = [one.given for one in prepared]
    sent = len(call.inputs) if call.ranked is None else call.ranked
    explained = replace(call, inputs=given, query=query, stored_id=answered.id, prepared=prepared, ranked=sent)

    async def respond(found: Answered[object]) -> Response:
        return await explained.present(write, [attention for _, attention in found.results])

    return functools.partial(predict, explained, options, None, respond)


def explain_windows(
    call: Call[P],
    options: RequestOptions,
    answered: Answered[Prediction],
    shown: Sequence[T | None],
    prepared: Sequence[PendingInput],
    respond: Callable[[Answered[T]], Awaitable[Response]],
) -> Then:
    """Return the step that answers what `respond` makes of what is `shown` of each input, and of its attention.

    Of each, `prepared` is the window that is explained.
    """

    async def with_maps(found: Answered[object]) -> Response:
        results = [(one, attention) for one, (_, attention) in zip(shown, found.results, strict=True)]
        return await respond(Answered(answered.id, results, answered.inputs, found.compared))

    explained = replace(call, prepared=prepared, stored_id=answered.id)
    return functools.partial(predict, explained, options, None, with_maps)


def by_input(answered: Answered[T]) -> list[list[int]]:
    """Return the places of each input's windows among those that were answered."""
    places: dict[int, list[int]] = {}
    for place, one in enumerate(answered.inputs):
        places.setdefault(one.number, []).append(place)
    return list(places.values())


def one_logit(logits: Prediction) -> float:
    """Return the logit of a model with one label."""
    return float(logits[0])


def best_windows(answered: Answered[float]) -> list[int]:
    """Return of each input of a request the place of its best window among those that were answered: the first."""
    scores = answered.shown
    return [max(places, key=lambda place: scores[place]) for places in by_input(answered)]


async def attend_to_best(
    call: Call[Predictor], options: RequestOptions, score: Callable[[Prediction], float]
) -> Response:
    """Answer with the attention of each input's best window alone."""

    async def respond(answered: Answered[float]) -> Then:
        best = [answered.inputs[place] for place in best_windows(answered)]
        explained = replace(call, prepared=best, stored_id=answered.id)
        return functools.partial(predict, explained, options, None, Answer(explained, options))

    return await predict(replace(call, query=None), options, score, respond)


def as_options(asked: object) -> dict[str, object] | None:
    """Return options of attention as an object: a method stands for itself. None for what is neither."""
    if isinstance(asked, str):
        return {"method": asked}
    return dict(asked) if isinstance(asked, dict) else None


def rules_of(options: Mapping[str, object], manifest: Manifest) -> MethodRules | None:
    """Return what is particular to the method that options of attention name; None where there is no such method."""
    named = options.get("method", "raw")
    method = manifest.best.method if named == "best" and manifest.best else named
    return METHODS.get(method) if isinstance(method, str) else None  # type: ignore[call-overload] # or another's word
