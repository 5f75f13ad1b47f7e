"""Our own endpoints: each finds its model, reads the request, and has it answered."""

import functools

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from service.answering.call import answer, check_ready, find, find_ready, narrowed
from service.answering.generations import generate as generate_all
from service.answering.modalities import could_answer, modality_of
from service.answering.predictions import predict
from service.api import responses
from service.api.native.answers import Answer, NativeEvents, call_of
from service.api.reading.request_parsing import ParsedRequest, parse_query
from service.api.reading.sorts import sort_of
from service.errors import NotFound, Unacceptable
from service.http.exchange import exchange_of
from service.options.base import RequestOptions
from service.options.generation import GenerateOptions
from service.options.predictions import DetectOptions, FillMaskOptions
from service.repository.models.detector import Detector
from service.repository.models.generator import Generator
from service.repository.models.predictor import MaskFiller, Predictor
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
async def models(state: StateDep) -> Response:
    """List the models that are loaded, by `order` and name: with all that is known of them, and as OpenAI does."""
    found = sorted(state.models.values(), key=lambda served: (served.manifest.order, served.manifest.name))
    listed = {"object": "list", "data": [responses.entry(served) for served in found]}
    return responses.respond({**listed, "models": [responses.describe(served) for served in found]})


@router.get("/v1/models/{model}", tags=["models"], operation_id="get_model")
async def one_model(model: str, state: StateDep) -> Response:
    """Return what one model takes, answers and shows."""
    return responses.respond(responses.describe(find(state, model)))


@router.get("/v1/models/{model}/examples/{number}", tags=["models"], operation_id="get_example")
async def example(model: str, number: str, state: StateDep) -> Response:
    """Return an input to try a model on: a picture, or texts in JSON. They are numbered from 0."""
    return responses.example(find(state, model), number)


# Predictions


@router.post("/v1/models/{model}/classify", tags=["predictions"], operation_id="classify")
async def classify(model: str, request: Request, state: StateDep) -> Response:
    """Return the likeliest labels of every image or text."""
    served = find_ready(state, model, "classify", Predictor)
    return await answer(request, state, served, _classify(request, state, served))


@router.post("/v1/models/{model}/detect", tags=["predictions"], operation_id="detect")
async def detect(model: str, request: Request, state: StateDep) -> Response:
    """Return the objects that are found in every image: what they are, and where."""
    served = find_ready(state, model, "detect", Detector)
    return await answer(request, state, served, _detect(request, state, served))


@router.post("/v1/models/{model}/embed", tags=["predictions"], operation_id="embed")
async def embed(model: str, request: Request, state: StateDep) -> Response:
    """Return a vector for every text or image; similar inputs have similar vectors."""
    served = find_ready(state, model, "embed", Predictor)
    return await answer(request, state, served, _embed(request, state, served))


@router.post("/v1/models/{model}/fill-mask", tags=["predictions"], operation_id="fill_mask")
async def fill_mask(model: str, request: Request, state: StateDep) -> Response:
    """Return what every mask in every text may stand for."""
    served = find_ready(state, model, "fill-mask", MaskFiller)
    return await answer(request, state, served, _fill_mask(request, state, served))


@router.post("/v1/models/{model}/generate", tags=["predictions"], operation_id="generate")
async def generate(model: str, request: Request, state: StateDep) -> Response:
    """Turn every text or image into a text, or continue it; with `stream`, send its tokens as they come."""
    served = find_ready(state, model, "generate", Generator)
    return await answer(request, state, served, _generate(request, state, served))


@router.post("/v1/models/{model}/attention", tags=["attention"], operation_id="attention")
async def attention(model: str, request: Request, state: StateDep) -> Response:
    """Return what the model looked at, for the same input as its prediction."""
    served = find_ready(state, model, "attention", ServedModel)
    return await answer(request, state, served, _attend(request, state, served))


@router.get("/v1/attention/{id}", tags=["attention"], operation_id="stored_attention")
async def kept_attention(id: str, request: Request, state: StateDep) -> Response:  # noqa: A002 # the path's name
    """Return what a model looked at for an earlier request, without its input being sent again.

    With API keys, only keys of the name that sent the request find it.
    """
    stored = await state.store.get(id, exchange_of(request.scope).key_name)
    served = state.models.get(stored.model) if stored else None
    model = request.query_params.get("model")
    if stored and model not in (None, stored.model):
        raise NotFound("model: must be that of the request, given another")
    if stored is None or served is None or not could_answer(served, stored):
        seconds = f"{state.settings.keep_seconds:g}"
        raise NotFound(
            f"id: must be of a request that was answered, at most {seconds} seconds ago; send its input again"
        )
    check_ready(served)
    return await answer(request, state, served, _attend_to_stored(request, state, served, stored, id))


async def _classify(request: Request, state: State, served: Predictor) -> Response:
    parsed = await sort_of(served).read(request, state.settings)
    options = parsed.options(modality_of(served).classify_options)
    call = call_of(request, state, served, parsed)
    return await predict(call, options, responses.Labels(served.manifest, options.top_k), Answer(call, options))


async def _detect(request: Request, state: State, served: Detector) -> Response:
    parsed = await sort_of(served).read(request, state.settings)
    options = parsed.options(DetectOptions)
    call = call_of(request, state, served, parsed)
    return await predict(call, options, responses.Objects(served, options), Answer(call, options))


async def _embed(request: Request, state: State, served: Predictor) -> Response:
    parsed = await sort_of(served).read(request, state.settings)
    options = parsed.options(modality_of(served).options)
    call = call_of(request, state, served, parsed)
    return await predict(call, options, responses.embedding, Answer(call, options))


async def _fill_mask(request: Request, state: State, served: MaskFiller) -> Response:
    parsed = await sort_of(served).read(request, state.settings)
    options = parsed.options(FillMaskOptions)
    call = call_of(request, state, served, parsed)
    show = functools.partial(responses.candidates, served, top_k=options.top_k)
    return await predict(call, options, show, Answer(call, options))


async def _generate(request: Request, state: State, served: Generator) -> Response:
    parsed = await sort_of(served).read(request, state.settings)
    options = parsed.options(GenerateOptions)
    call = call_of(request, state, served, parsed)
    show = functools.partial(responses.sequence, served, penalty=served.penalty(options))
    return await generate_all(call, options, show, Answer(call, options), NativeEvents(served))


async def _attend(request: Request, state: State, served: ServedModel) -> Response:
    parsed = await sort_of(served).read(request, state.settings)
    if isinstance(served, Predictor):
        options = parsed.options(modality_of(served).options)
        call = call_of(request, state, served, parsed, attention=True)
        return await predict(call, options, None, Answer(call, options))
    generator, generating = narrowed(served, Generator), parsed.options(GenerateOptions)
    asked = call_of(request, state, generator, parsed, attention=True)
    return await generate_all(asked, generating, None, Answer(asked, generating))


async def _attend_to_stored(
    request: Request, state: State, served: ServedModel, stored: StoredRequest, stored_id: str
) -> Response:
    given = parse_query(request)
    given.pop("model", None)
    await request.body()  # it is empty; the watch for a client that leaves waits for its end
    parsed = ParsedRequest(list(stored.inputs), given, strings=True)
    options = parsed.options(DetectOptions if served.manifest.detection else RequestOptions)
    if isinstance(served, Predictor):
        stored_options = modality_of(served).stored_options(stored, options)
        call = call_of(request, state, served, parsed, attention=True, stored=stored_id)
        return await predict(call, stored_options, None, Answer(call, stored_options))
    generator, generating = (
        narrowed(served, Generator),
        GenerateOptions(
            priority=options.priority,
            source_language=stored.source_language,
            target_language=stored.target_language,
        ),
    )
    asked = call_of(request, state, generator, parsed, attention=True, stored=stored_id)
    return await generate_all(asked, generating, None, Answer(asked, generating), targets=stored.targets)
