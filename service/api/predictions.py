"""Predictions in one pass: a request's inputs are checked, admitted, run, and answered, with attention if asked."""

import contextlib
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from service.api import responses
from service.api.modalities import Modality, PendingInput, permit_decoding
from service.api.request_parsing import MEDIA_TYPES, ParsedRequest, negotiate
from service.concurrency import together
from service.errors import Unacceptable
from service.explanations.answer import AttentionAnswer, npz
from service.explanations.answer_size import check_picture, check_size
from service.explanations.query import AttentionQuery
from service.http.exchange import exchange_of
from service.options import FillMaskOptions, RequestOptions, TextOptions
from service.repository import faithfulness
from service.repository.explain import explain
from service.repository.predictor import Predictor
from service.repository.served_model import Prediction, ServedModel
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
    queue, cost = served.cost(modality.likely_lengths(parsed.inputs), attention=query is not None)
    with queue.permit(cost, options.priority):  # without room, texts would be tokenized in vain
        pending = await modality.prepare(state, parsed.inputs, truncate=truncate)
    lengths = [one.lengths for one in pending]
    targets = [query.count_targets(one.get("masked", 1)) if query else 1 for one in lengths]
    if query:
        check_size(query, lengths, targets, state.settings.max_answer_bytes)
    if isinstance(options, FillMaskOptions):
        options.check_size(sum(one["masked"] for one in lengths), state.settings.max_answer_bytes)

    async def answer(one: PendingInput, count: int) -> Result:
        item = await one.decode()
        if query is None:
            return await shown(await served.predict(item, options.priority)), None
        check_picture(query, item.lengths, item.picture, count, state.settings.max_image_pixels)
        prediction, explained = await explain(served, item, query, one.text, options.priority)
        return await shown(prediction), explained

    async def shown(prediction: Prediction) -> dict[str, object]:
        if show is None:
            return {}
        if not served.mask:
            return show(prediction)
        return await state.present(served.manifest.name, served.prediction_budget, show, prediction)

    curves = faithfulness.count_predictions(query.options.evaluate) if query and query.options.evaluate else 0
    with contextlib.ExitStack() as permits:
        runs = max(targets) * (query.runs if query else 1)
        queue, cost = served.cost(lengths, attention=query is not None, runs=runs)
        permits.enter_context(queue.permit(cost, options.priority))
        if curves:
            queue, cost = served.cost(lengths * curves, attention=False)
            permits.enter_context(queue.permit(cost, options.priority))
        permits.enter_context(permit_decoding(pending, options))
        results = await together(answer(one, count) for one, count in zip(pending, targets, strict=True))
        stored = StoredRequest(served.manifest.name, served.manifest.version, tuple(parsed.inputs), truncate)
        # within the permits: maps take memory and time until they are written
        return await store_and_respond(request, state, served, modality, results, query, stored, options)


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
