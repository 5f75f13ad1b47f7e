"""Predictions in one pass: a request's inputs are checked, admitted, run, and answered, with attention if asked."""

import contextlib
import functools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from starlette.responses import Response

from service.answering.call import Answered, Call, narrowed
from service.answering.embedding_options import with_options
from service.answering.in_time import in_time
from service.answering.modalities import PendingInput, modality_of, permit_decoding
from service.answering.other_input import OtherInput, read_others
from service.batching.fair_queue import Caller
from service.concurrency import together
from service.errors import about_input
from service.explanations.answer import AttentionAnswer
from service.explanations.answer_size import check_picture, check_size
from service.explanations.pictures import Space
from service.explanations.query import AttentionQuery, check_runs
from service.inputs.model_input import Windows
from service.options.base import RequestOptions
from service.options.predictions import CutOptions, TextOptions
from service.repository.explaining.explain import Other, explain, other_of, rather_than
from service.repository.explaining.subjects import evaluation_cost
from service.repository.models.predictor import Predictor
from service.repository.models.served_model import Prediction, ServedModel
from service.state import State
from service.store.stored_request import StoredRequest

T = TypeVar("T")

Then: TypeAlias = Callable[[], Awaitable[Response]]
"""A further step of an answer."""


async def predict(
    call: Call[Predictor],
    options: RequestOptions,
    show: Callable[[Prediction], T] | None,
    respond: Callable[[Answered[T]], Awaitable[Response | Then]],
) -> Response:
    """Return what `respond` makes of the predictions, each as `show` has it, and of attention if that is asked for.

    Without `show` the request is for attention alone. `show` runs on a thread of its own where it reads logits over a
    vocabulary. `respond` is awaited while the work still counts, since maps take memory and time until they are
    written; it may return a further step, which is admitted when this one counts no longer.
    """
    call = with_options(call, options)
    state, served, query = call.state, call.served, call.query_with(options)
    truncate, windows = _cuts(options)
    compared = await read_others(call, truncate=truncate)
    caller = call.caller(options)
    own = [one for one in compared if one.served is served]
    pending = await _prepare(call, query, own, caller, truncate=truncate, windows=windows)
    lengths = _lengths_of_runs(query, [one.lengths for one in pending], len(pending) - len(own))
    opposite = [pending.pop() for _ in own][::-1]
    across = [(one, await _prepare_across(state, one)) for one in compared if one.served is not served]
    targets = [query.count_targets(one.get("masked", 1)) if query else 1 for one in lengths]
    if query:
        over = opposite[0].lengths if opposite and query.by_states else None
        answered = len(pending) if over else len(lengths)
        check_size(query, lengths[:answered], targets[:answered], state.settings.max_answer_bytes, over)
        query = _possible(served, query, lengths, targets)
    options.check_answer(lengths, state.settings.max_answer_bytes)

    space = Space(state.settings.max_image_pixels, len(pending))
    sent = (len(call.inputs) if call.ranked is None else call.ranked) // call.copies

    async def answer(one: PendingInput, count: int, other: Other | None) -> tuple[T | None, AttentionAnswer | None]:
        item = await one.decode()
        if query is None:
            return await shown(await served.predict(item, caller)), None
        check_picture(query, item.lengths, item.picture, count, space)
        if other and query.by_states:
            check_picture(query, item.lengths, other.item.picture, count, space, other.item.lengths)
        with about_input(one.number // call.copies, sent):
            prediction, explained = await explain(served, item, query, one.text, caller, other)
        return await shown(prediction), explained

    async def shown(prediction: Prediction) -> T | None:
        if show is None:
            return None
        if not served.of_vocabulary:
            return show(prediction)
        return await state.present(served.manifest.name, served.prediction_budget, show, prediction)

    admitted = _admitted(served, query, lengths, targets, opposite, caller)
    beside = _admitted_across(across, query, len(pending), caller)
    with admitted, beside, permit_decoding(pending, caller):
        other = await _run_on(compared, [*zip(own, opposite, strict=True), *across], query, caller)
        results = await together(answer(one, count, other) for one, count in zip(pending, targets, strict=False))
        answer_id = await keep(call, _stored(call, options, truncate=truncate, windows=windows))
        done = await respond(Answered(answer_id, results, pending, compared[0].given if compared else None))
    return done if isinstance(done, Response) else await done()


def _stored(
    call: Call[Predictor], options: RequestOptions, *, truncate: bool, windows: Windows | None
) -> StoredRequest:
    manifest = call.served.manifest
    dimensions = options.dimensions if isinstance(options, CutOptions) else None
    return StoredRequest(
        manifest.name, manifest.version, tuple(call.inputs), truncate, windows=windows, dimensions=dimensions
    )


def _cuts(options: RequestOptions) -> tuple[bool, Windows | None]:
    """Return whether a text that is too long is cut off, and in which windows it is read. Raises Unacceptable."""
    truncate = isinstance(options, TextOptions) and options.truncate
    return truncate, Windows(*options.windows) if options.windows else None


async def _prepare(
    call: Call[Predictor],
    query: AttentionQuery | None,
    compared: Sequence[OtherInput],
    caller: Caller,
    *,
    truncate: bool,
    windows: Windows | None,
) -> list[PendingInput]:
    """Return the inputs of a call, or their windows, as far as they were not prepared before, and what is compared."""
    own = [] if call.prepared else call.inputs
    others = [one.given for one in compared]
    cut = [truncate] * len(own) + [one.truncate for one in compared]
    lengths = [*(one.lengths for one in call.prepared), *call.modality.likely_lengths([*own, *others], windows)]
    queue, cost = call.served.cost(_lengths_of_runs(query, lengths, len(call.inputs)), query)
    count = len(own) if call.ranked is None else call.ranked
    prepare = functools.partial(call.modality.prepare, call.state)
    with queue.permit(cost, caller):  # without room, texts would be tokenized in vain
        if windows is None:
            fresh = await prepare([*own, *others], cut, count=count, copies=call.copies) if cut else []
        else:  # what is compared is read whole
            fresh = await prepare(own, cut[: len(own)], count=count, windows=windows) if own else []
            fresh += await prepare(others, cut[len(own) :], count=0) if others else []
    return [*call.prepared, *fresh]


async def _prepare_across(state: State, other: OtherInput) -> PendingInput:
    """Return what a call's inputs are compared with, of the partner of their model."""
    (found,) = await modality_of(other.served).prepare(state, [other.given], [other.truncate], count=0)
    return found


@contextlib.contextmanager
def _admitted_across(
    across: Sequence[tuple[OtherInput, PendingInput]], query: AttentionQuery | None, count: int, caller: Caller
) -> Iterator[None]:
    """Hold what the partner's runs cost: one on each input, and the explanations of its side. Raises Busy."""
    with contextlib.ExitStack() as permits:
        for other, one in across:
            partner = narrowed(other.served, Predictor)
            costs = [partner.cost([one.lengths])]
            if query and query.options.sides == "both":
                partner.check_run(query, [one.lengths])
                costs.append(partner.cost([one.lengths] * count, query, [query.runs] * count))
            for queue, cost in costs:
                permits.enter_context(queue.permit(cost, caller))
            permits.enter_context(permit_decoding([one], caller))
        yield


async def _run_on(
    compared: Sequence[OtherInput],
    prepared: Sequence[tuple[OtherInput, PendingInput]],
    query: AttentionQuery | None,
    caller: Caller,
) -> Other | None:
    """Return the other input that each is compared with, once its model has run on it; None without one."""
    pending = {id(other): one for other, one in prepared}
    others = [
        await other_of(
            narrowed(other.served, Predictor), await (one := pending[id(other)]).decode(), query, one.text, caller,
            other.name,
        )
        for other in compared
    ]  # fmt: skip
    return rather_than(*others) if others else None


def _possible(
    served: Predictor, query: AttentionQuery, lengths: list[Mapping[str, int]], targets: Sequence[int]
) -> AttentionQuery:
    """Return a query for which there is memory and time. Raises TooLarge, and Unacceptable for too many steps."""
    served.check_run(query, lengths)
    queue, cost = served.cost(lengths, query, targets)
    return in_time(query, served.seconds_for(query, cost), queue.deadline)


def _lengths_of_runs(
    query: AttentionQuery | None, lengths: list[Mapping[str, int]], count: int
) -> list[Mapping[str, int]]:
    """Return the lengths of what attention is computed of: of the first `count` inputs, and of the compared one.

    Of that once where states are compared, or for each input where both sides of an embedding are explained.
    """
    times = 0 if query is None or not query.both_sides else 1 if query.by_states else count
    return lengths[:count] + lengths[count : count + 1] * times


@contextlib.contextmanager
def _admitted(
    served: Predictor,
    query: AttentionQuery | None,
    lengths: Sequence[Mapping[str, int]],
    targets: Sequence[int],
    opposite: Sequence[PendingInput],
    caller: Caller,
) -> Iterator[None]:
    """Hold what a request costs: its inputs, the one that they are compared with, and curves. Raises Busy."""
    runs = [1] * len(lengths)
    predictions = [] if query and query.by_states else [one.lengths for one in opposite]
    if query:
        scores, comparison = evaluation_cost(served, query)
        runs = [count * query.runs + query.diagnosed_apart + comparison for count in targets]
        check_runs(sum(runs), query)
        scores += query.predicts_first(served.manifest)
        predictions += [*lengths] * scores
    costs = [served.cost(lengths, query, runs)]
    if predictions:
        costs.append(served.cost(predictions))
    with contextlib.ExitStack() as permits:
        for queue, cost in costs:
            permits.enter_context(queue.permit(cost, caller, len(lengths)))
        yield


async def keep(call: Call[ServedModel], stored: StoredRequest) -> str:
    """Store a request, and return the id of its answer. A request that was stored before keeps its id."""
    exchange = call.exchange
    exchange.answer_id = call.stored_id or exchange.own_id
    if call.stored_id is None:
        await call.state.store.put(exchange.own_id, exchange.key_name, stored)
    return exchange.answer_id
