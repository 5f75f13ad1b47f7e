"""An answer in two steps: all inputs are predicted, and some of them are explained, by options that are completed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from starlette.responses import Response

from contract.manifest import Manifest
from service.answering.call import Answered, Call
from service.answering.predictions import predict
from service.api.tasks.answers import Answer
from service.explanations.answer import AttentionAnswer
from service.explanations.methods import METHODS, MethodRules
from service.explanations.query import AttentionQuery
from service.options.base import RequestOptions
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import Prediction

T = TypeVar("T")


async def with_attention(
    call: Call[Predictor],
    options: RequestOptions,
    query: AttentionQuery | None,
    answered: Answered[T],
    places: Sequence[int],
    write: Callable[[Sequence[AttentionAnswer | None]], Response],
) -> Response:
    """Return what `write` makes of the attention that a query asks for of some inputs, or windows of inputs.

    `places` are theirs among the inputs of what was `answered` before, and is stored. Without a query there is none.
    """
    if query is None:
        return write([None] * len(places))
    prepared = [answered.inputs[place] for place in places]
    given = [one.given for one in prepared]
    explained = replace(call, inputs=given, query=query, stored_id=answered.id, prepared=prepared)

    async def respond(found: Answered[object]) -> Response:
        return await explained.present(write, [attention for _, attention in found.results])

    return await predict(explained, options, None, respond)


def one_logit(logits: Prediction) -> float:
    """Return the logit of a model with one label."""
    return float(logits[0])


def best_windows(answered: Answered[float]) -> list[int]:
    """Return of each input of a request the place of its best window among those that were answered: the first."""
    best: dict[int, int] = {}
    scores = answered.shown
    for place, one in enumerate(answered.inputs):
        if scores[place] > scores[best.setdefault(one.number, place)]:
            best[one.number] = place
    return list(best.values())


async def attend_to_best(
    call: Call[Predictor], options: RequestOptions, score: Callable[[Prediction], float]
) -> Response:
    """Answer with the attention of each input's best window alone."""

    async def respond(answered: Answered[float]) -> Response:
        explained = replace(call, prepared=[answered.inputs[place] for place in best_windows(answered)])
        explained = replace(explained, stored_id=answered.id)
        return await predict(explained, options, None, Answer(explained, options))

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
