"""An answer in two steps: all inputs are predicted, and some of them are explained."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from starlette.responses import Response

from service.answering.call import Answered, Call
from service.answering.predictions import predict
from service.explanations.answer import AttentionAnswer
from service.explanations.query import AttentionQuery
from service.options.base import RequestOptions
from service.repository.models.predictor import Predictor

T = TypeVar("T")


async def with_attention(
    call: Call[Predictor],
    options: RequestOptions,
    query: AttentionQuery | None,
    answered: Answered[T],
    places: Sequence[int],
    write: Callable[[Sequence[AttentionAnswer | None]], Response],
) -> Response:
    """Return what `write` makes of the attention that a query asks for of some inputs, by their places in a call.

    Their requests were `answered` before, and are stored. Without a query there is none of any.
    """
    if query is None:
        return write([None] * len(places))
    explained = replace(call, inputs=[call.inputs[one] for one in places], query=query, stored_id=answered.id)

    async def respond(found: Answered[object]) -> Response:
        return await explained.present(write, [attention for _, attention in found.results])

    return await predict(explained, options, None, respond)
