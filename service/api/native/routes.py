"""Our own endpoints: each finds its model, reads the request, and has it answered."""

from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from service.answering.call import Call, answer, check_ready, find, find_ready
from service.answering.earlier import find_earlier
from service.answering.fed import what_was_fed
from service.answering.inside import one_step_inside
from service.answering.modalities import could_answer
from service.api import responses
from service.api.reading.call import call_of
from service.api.reading.request_parsing import ParsedRequest, parse_query
from service.api.reading.sorts import read_own
from service.api.tasks.table import BESIDE, TASKS, task_of
from service.api.tasks.task import Endpoint
from service.errors import NotFound, Unacceptable
from service.http.codings import packed
from service.http.exchange import exchange_of
from service.options.base import RequestOptions, parse
from service.options.inside import InsideOptions
from service.repository.models.served_model import ServedModel
from service.state import State, StateDep
from service.store.stored_request import StoredRequest

router, liveness, health, monitoring, admin = (APIRouter() for _ in range(5))


# Health, discovery, documents


@liveness.get("/health/live", tags=["health"], operation_id="live")
async def live(state: StateDep) -> Response:
    """Answer 200 while the process answers and its device comes back from what it runs."""
    state.check_live()
    return responses.respond({"live": True})


@health.get("/health/ready", tags=["health"], operation_id="ready")
async def ready(state: StateDep) -> Response:
    """Answer 200 once every session has run once, until the service is told to stop."""
    state.check_ready()
    return responses.respond({"ready": True})


@monitoring.get("/metrics", tags=["health"], operation_id="metrics", response_class=Response)
async def metrics(state: StateDep) -> Response:
    """Return all metrics in Prometheus' text format."""
    state.models.show_queues()
    state.metrics.count_dropped_lines()
    return Response(await state.metrics_text.result(), headers={"Content-Type": CONTENT_TYPE_LATEST})


@admin.post("/admin/reload", tags=["admin"], operation_id="reload")
async def reload(request: Request, state: StateDep) -> Response:
    """Read the folder of artifacts again: load what is new beside what is served, swap, let the old finish.

    The file of API keys is read again first; if it cannot be used, the old keys stay, and the answer is 422. Of several
    workers the one that answers tells what became of its own models; the others reload then, and log it.
    """
    keys_read = request.app.state.keys.reload(state.metrics)
    try:
        found = await state.models.reload()
    finally:
        if state.tell_reload:
            state.tell_reload()
    if not keys_read:
        raise Unacceptable("keys: must be a file that can be used, so the old ones stay; the log has the reason")
    return responses.respond({"models": found})


@router.get("/v1/models", tags=["models"], operation_id="list_models")
async def models(request: Request, state: StateDep) -> Response:
    """List the models that are loaded, by `order` and name: with all that is known of them, and as OpenAI does."""
    found = sorted(state.models.values(), key=lambda served: (served.manifest.order, served.manifest.name))
    listed: dict[str, object] = {"object": "list", "data": [responses.entry(served) for served in found]}
    listed |= {"models": [responses.describe(served) for served in found]}
    return packed(request, responses.respond(listed))


@router.get("/v1/models/{model}", tags=["models"], operation_id="get_model")
async def one_model(model: str, state: StateDep) -> Response:
    """Return what one model takes, answers and shows."""
    return responses.respond(responses.describe(find(state, model)))


@router.get("/v1/models/{model}/examples/{number}", tags=["models"], operation_id="get_example")
async def example(model: str, number: str, state: StateDep) -> Response:
    """Return an input to try a model on: a picture, or texts in JSON. They are numbered from 0."""
    return responses.example(find(state, model), number)


# Predictions


def _serve(asked: Endpoint[Any]) -> None:
    """Add the route of an endpoint."""

    async def endpoint(model: str, request: Request, state: StateDep) -> Response:
        served = find_ready(state, model, asked.endpoint, asked.model)
        return await answer(request, state, served, asked.ask(request, state, served))

    endpoint.__name__ = asked.operation
    endpoint.__doc__ = asked.about
    path = f"/v1/models/{{model}}/{asked.endpoint}"
    router.add_api_route(path, endpoint, methods=["POST"], tags=["predictions"], operation_id=asked.operation)


for served_endpoint in (*TASKS, *BESIDE):
    _serve(served_endpoint)


@router.post("/v1/models/{model}/attention", tags=["attention"], operation_id="attention")
async def attention(model: str, request: Request, state: StateDep) -> Response:
    """Return what the model looked at, for the same input as its prediction."""
    served = find_ready(state, model, "attention", ServedModel)
    return await answer(request, state, served, _attend(request, state, served))


@router.get("/v1/attention/{id}/inside", tags=["attention"], operation_id="inside")
async def inside(id: str, request: Request, state: StateDep) -> Response:  # noqa: A002 # the path's name
    """Return the numbers that the heads of a layer make of one row and one column, which add up."""
    stored, served = await _earlier(id, request, state)
    return await answer(request, state, served, _look_inside(request, state, served, stored, id))


@router.get("/v1/attention/{id}", tags=["attention"], operation_id="stored_attention")
async def kept_attention(id: str, request: Request, state: StateDep) -> Response:  # noqa: A002 # the path's name
    """Return what a model looked at for an earlier request, without its input being sent again.

    Of a request with several inputs, `ID.0` is that of the first, `ID.1` that of the second. With API keys, only keys
    of the name that sent the request find it.
    """
    stored, served = await _earlier(id, request, state)
    return await answer(request, state, served, _attend_to_stored(request, state, served, stored, id))


@router.get("/v1/attention/{id}/input", tags=["attention"], operation_id="kept_input")
async def kept_input(id: str, request: Request, state: StateDep) -> Response:  # noqa: A002 # the path's name
    """Return what a model was fed of an earlier request: its pixels or tokens, after all that prepares them."""
    stored, served = await _earlier(id, request, state)
    return await answer(request, state, served, _feed(request, state, served, stored))


async def _earlier(id: str, request: Request, state: State) -> tuple[StoredRequest, ServedModel]:  # noqa: A002 # as above
    """Return an earlier request and the model that answered it. Raises NotFound and NotReady."""
    stored = await find_earlier(state.store, id, exchange_of(request.scope).key_name)
    served = state.models.get(stored.model) if stored else None
    model = request.query_params.get("model")
    together = [own.manifest.name for own in served.together] if served else []
    if stored and model not in (None, stored.model, *together):
        raise NotFound("model: must be that of the request, given another")
    if stored is None or served is None or not could_answer(served, stored):
        seconds = f"{state.settings.keep_seconds:g}"
        raise NotFound(
            f"id: must be of a request that was answered, at most {seconds} seconds ago; send its input again"
        )
    check_ready(served)
    return stored, served


async def _attend(request: Request, state: State, served: ServedModel) -> Response:
    served, parsed = await read_own(request, state.settings, served)
    task = task_of(served)
    options = parsed.options(task.attention_options(served))
    return await task.attend(call_of(request, state, served, parsed, attention=True), options)


async def _feed(request: Request, state: State, served: ServedModel, stored: StoredRequest) -> Response:
    options = parse(RequestOptions, await _asked(request), strings=True)
    call = Call(state, exchange_of(request.scope), served, stored.inputs)
    return responses.respond(await what_was_fed(call, options, stored))


async def _attend_to_stored(
    request: Request, state: State, served: ServedModel, stored: StoredRequest, stored_id: str
) -> Response:
    task = task_of(served)
    given = task.asked_of_stored(served, stored, await _asked(request))
    parsed = ParsedRequest(list(stored.inputs), given, strings=True)
    options = task.stored_options(served, stored, parsed)
    call = call_of(request, state, served, parsed, attention=True, stored=stored_id)
    return await task.attend(call, options, stored)


async def _look_inside(
    request: Request, state: State, served: ServedModel, stored: StoredRequest, stored_id: str
) -> Response:
    options = parse(InsideOptions, await _asked(request), strings=True)
    call = Call(state, exchange_of(request.scope), served, stored.inputs, stored_id=stored_id)
    return responses.respond(await one_step_inside(call, options, stored))


async def _asked(request: Request) -> dict[str, object]:
    """Return what is asked of an earlier request, without the model that answered it."""
    given = parse_query(request)
    given.pop("model", None)
    await request.body()  # it is empty; the watch for a client that leaves waits for its end
    return given
