"""Predictions in one pass: a request's inputs are checked, admitted, run, and answered, with attention if asked."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from service.api import responses
from service.api.modalities import Modality, PendingInput, permit_decoding
from service.api.other_input import read_other
from service.api.request_parsing import MEDIA_TYPES, ParsedRequest, negotiate
from service.concurrency import together
from service.errors import Unacceptable
from service.explanations.answer import AttentionAnswer, npz
from service.explanations.answer_size import check_picture, check_size
from service.explanations.query import AttentionQuery, check_runs
from service.http.exchange import exchange_of
from service.options import FillMaskOptions, RequestOptions, TextOptions
from service.repository.explain import Other, explain
from service.repository.predictor import Predictor
from service.repository.served_model import Prediction, ServedModel
from service.repository.subjects import evaluation_cost
from service.state import State
from service.store.stored_request import StoredRequest

Result = tuple[dict[str, object], AttentionAnswer | None]
"""What is shown of one input's prediction, and its attention answer if that was asked for."""


async def predict(
    request: Request,
    state: State,
    served: Predictor,
    modality: Modality,
    parsed: ParsedRequest,
    options: RequestOptions,
    show: Callable[[Prediction], dict[str, object]] | None = None,
) -> Response:
    """Answer with what `show` makes of each input's prediction, and with its attention if it is asked for.

    Without `show` the request is for attention alone. `show` runs on a thread of its own where it reads logits over a
    vocabulary.
    """
    query = attention_query(request, served, parsed, required=show is None)
    truncate = isinstance(options, TextOptions) and options.truncate
    compared = await read_other(request, state, served, query, truncate=truncate)
    given, cut = [*parsed.inputs], [truncate] * len(parsed.inputs)
    if compared:
        given, cut = [*given, compared.given], [*cut, compared.truncate]
    likely = _shown(query, modality.likely_lengths(given), len(parsed.inputs))
    queue, cost = served.cost(likely, query)
    with queue.permit(cost, options.priority):  # without room, texts would be tokenized in vain
        pending = await modality.prepare(state, given, cut)
    lengths = _shown(query, [one.lengths for one in pending], len(parsed.inputs))
    opposite = pending.pop() if compared else None
    targets = [query.count_targets(one.get("masked", 1)) if query else 1 for one in lengths]
    if query:
        check_size(query, lengths, targets, state.settings.max_answer_bytes)
        served.check_run(query, lengths)
    if isinstance(options, FillMaskOptions):
        options.check_size(sum(one["masked"] for one in lengths), state.settings.max_answer_bytes)

    async def answer(one: PendingInput, count: int, other: Other | None) -> Result:
        item = await one.decode()
        if query is None:
            return await shown(await served.predict(item, options.priority)), None
        check_picture(query, item.lengths, item.picture, count, state.settings.max_image_pixels)
        prediction, explained = await explain(served, item, query, one.text, options.priority, other)
        return await shown(prediction), explained

    async def shown(prediction: Prediction) -> dict[str, object]:
        if show is None:
            return {}
        if not served.mask:
            return show(prediction)
        return await state.present(served.manifest.name, served.prediction_budget, show, prediction)

    admitted = _admitted(served, query, lengths, targets, opposite, options)
    with admitted, permit_decoding(pending, options):
        other = None
        if compared and opposite:
            item = await opposite.decode()
            vector = await served.predict(item, options.priority)
            other = Other(item, opposite.text, vector, compared.name)
        results = await together(answer(one, count, other) for one, count in zip(pending, targets, strict=False))
        stored = StoredRequest(served.manifest.name, served.manifest.version, tuple(parsed.inputs), truncate)
        # within the permits: maps take memory and time until they are written
        return await store_and_respond(request, state, served, modality, results, query, stored, options)


def _shown(query: AttentionQuery | None, lengths: list[Mapping[str, int]], count: int) -> list[Mapping[str, int]]:
    """Return the lengths of the inputs that an answer is of: so many and, with both sides, the other one each time."""
    both = query is not None and query.options.sides == "both"
    return lengths[:count] + (lengths[count:] * count if both else [])


@contextlib.contextmanager
def _admitted(
    served: Predictor,
    query: AttentionQuery | None,
    lengths: Sequence[Mapping[str, int]],
    targets: Sequence[int],
    opposite: PendingInput | None,
    options: RequestOptions,
) -> Iterator[None]:
    """Hold what a request costs: its inputs, the one that they are compared with, and curves. Raises Busy."""
    runs = [1] * len(lengths)
    predictions = [opposite.lengths] if opposite else []
    if query:
        scores, comparison = evaluation_cost(served, query)
        runs = [count * query.runs + query.diagnosed_apart + comparison for count in targets]
        check_runs(sum(runs))
        scores += query.by_gradient and (query.method == "integrated" or served.manifest.explained is not None)
        predictions += [*lengths] * scores
    costs = [served.cost(lengths, query, runs)]
    if predictions:
        costs.append(served.cost(predictions))
    with contextlib.ExitStack() as permits:
        for queue, cost in costs:
            permits.enter_context(queue.permit(cost, options.priority))
        yield


def attention_query(
    request: Request, served: ServedModel, parsed: ParsedRequest, *, required: bool
) -> AttentionQuery | None:
    """Return the attention that a request asks for beside its prediction; the default if it is `required`."""
    options = parsed.attention(required=required)
    if options is None:
        return None
    query = served.query(options)
    if not required and options.format not in (None, "json"):
        raise Unacceptable(f"format: a prediction is answered in json; for {options.format}, ask .../attention")
    form = options.format or (negotiate(request.headers.getlist("accept")) if required else "json")
    query = query.in_form(form)
    if form == "png" and len(parsed.inputs) > 1:
        raise Unacceptable(f"format: a png shows one input, given {len(parsed.inputs)}")
    return query


async def store_and_respond(
    request: Request,
    state: State,
    served: ServedModel,
    modality: Modality,
    results: list[Result],
    query: AttentionQuery | None,
    stored: StoredRequest,
    options: RequestOptions,
) -> Response:
    """Store the request and answer it in the form that it asks for. A request that was stored before keeps its id."""
    exchange = exchange_of(request.scope)
    earlier: str | None = request.path_params.get("id")
    exchange.answer_id = answer_id = earlier or exchange.own_id
    if earlier is None:
        await state.store.put(answer_id, exchange.key_name, stored)

    def document() -> Response:
        return responses.respond(responses.answer(answer_id, served, [responses.result(*one) for one in results]))

    model, budget = served.manifest.name, served.attention_budget
    if query is None:
        return document()
    if query.form == "json":
        return await state.present(model, budget, document)
    answers = [answer for _, answer in results if answer]
    if query.form == "npz":
        frame = responses.answer(answer_id, served, [])
        return Response(await state.present(model, budget, npz, frame, answers), media_type=MEDIA_TYPES["npz"])
    async with modality.upright(state, stored.inputs[0], options) as pixels:
        picture = await state.present(model, budget, answers[0].png, pixels, state.settings.max_image_pixels)
    return Response(picture, media_type=MEDIA_TYPES["png"])
