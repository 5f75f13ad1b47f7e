"""Our own protocol: what a request that was read asks of a model."""

from typing import TypeVar

from starlette.requests import Request

from service.answering.call import Call
from service.api.reading.request_parsing import ParsedRequest, negotiate
from service.errors import Unacceptable
from service.explanations.query import AttentionQuery
from service.http.exchange import exchange_of
from service.options.attention import AttentionOptions
from service.repository.models.served_model import ServedModel
from service.state import State

S = TypeVar("S", bound=ServedModel)


def call_of(
    request: Request,
    state: State,
    served: S,
    parsed: ParsedRequest,
    *,
    attention: bool = False,
    stored: str | None = None,
) -> Call[S]:
    """Return what a request asks of a model; `attention` alone is required of it, or comes beside a prediction.

    `stored` is the id of the earlier request that it is about. Raises Unacceptable and NotAcceptable.
    """
    query = attention_query(request, served, parsed, required=attention)
    return Call(state, exchange_of(request.scope), served, parsed.inputs, query, stored)


def attention_query(
    request: Request, served: ServedModel, parsed: ParsedRequest, *, required: bool
) -> AttentionQuery | None:
    """Return the attention that a request asks for beside its prediction; the default if it is `required`."""
    options = parsed.attention(required=required)
    return None if options is None else query_of(request, served, options, required=required)


def query_of(request: Request, served: ServedModel, options: AttentionOptions, *, required: bool) -> AttentionQuery:
    """Return the attention that options ask for, in the form that a request accepts. Raises Unacceptable."""
    query = served.query(options)
    if not required and options.format not in (None, "json"):
        raise Unacceptable(f"format: a prediction is answered in json; for {options.format}, ask .../attention")
    form = options.format or (negotiate(request.headers.getlist("accept")) if required else "json")
    return query.in_form(form)
