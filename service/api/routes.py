"""The endpoints: each finds its model, reads the request, and hands it to predictions or generations."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, Response

from service.api import openapi_schema, responses
from service.api.generations import generate as generate_all
from service.api.modalities import could_answer, modality_of
from service.api.predictions import predict
from service.api.request_parsing import ParsedRequest, parse_query
from service.errors import NotFound, NotReady
from service.http.answer_deadline import answer_in_time
from service.http.exchange import exchange_of
from service.options import FillMaskOptions, GenerateOptions, RequestOptions
from service.repository.generator import Generator
from service.repository.predictor import MaskFiller, Predictor
from service.repository.served_model import ServedModel
from service.state import State, StateDep
from service.store.stored_request import StoredRequest

S = TypeVar("S", bound=ServedModel)
router, liveness, health, monitoring, admin = (APIRouter() for _ in range(5))
PAGE = Path(__file__).parent / "page" / "index.html"


# Health, discovery, documents


@liveness.get("/health/live", tags=["health"], responses=openapi_schema.LIVE)
async def live(state: StateDep) -> Response:
    """Answer 200 while the process answers and its device comes back from what it runs."""
    if state.hung:
        raise NotReady("device: does not come back from a run", seconds=1)
    return responses.respond({"live": True})


@health.get("/health/ready", tags=["health"], responses=openapi_schema.READY)
async def ready(state: StateDep) -> Response:
    """Answer 200 once every session has run once, until the service is told to stop."""
    if state.draining:
        raise NotReady("service: is stopping", seconds=1)
    if not state.ready:
        raise NotReady("service: is warming up", seconds=1)
    return responses.respond({"ready": True})


@monitoring.get("/metrics", tags=["health"], responses=openapi_schema.METRICS)
async def metrics(state: StateDep) -> Response:
    """Return all metrics in Prometheus' text format."""
    state.models.show_queues()
    return state.metrics.exposition()


@admin.post("/admin/reload", tags=["admin"], responses=openapi_schema.RELOAD)
async def reload(request: Request, state: StateDep) -> Response:
    """Read the folder of artifacts again: load what is new beside what is served, swap, let the old finish.

    The file of API keys is read again too; one that cannot be used changes nothing. Of several workers the one that
    answers tells what became of its own models; the others reload then, and log it.
    """
    request.app.state.keys.reload()
    found = await state.models.reload()
    if state.tell_reload:
        state.tell_reload()
    return responses.respond({"models": found})


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """Return the web page."""
    return FileResponse(PAGE, media_type="text/html; charset=utf-8")


@router.get("/v1/models", tags=["models"], responses=openapi_schema.MODELS)
async def models(state: StateDep) -> Response:
    """List the models that are loaded."""
    return responses.respond({"models": [responses.describe(served) for served in state.models.values()]})


@router.get("/v1/models/{model}", tags=["models"], responses=openapi_schema.MODEL)
async def one_model(model: str, state: StateDep) -> Response:
    """Return what one model takes, answers and shows."""
    return responses.respond(responses.describe(_find(state, model)))


# Predictions


@router.post("/v1/models/{model}/classify", tags=["predictions"], **openapi_schema.CLASSIFY)
async def classify(model: str, request: Request, state: StateDep) -> Response:
    """Return the likeliest labels of every image or text."""
    served = _find_ready(state, model, "classify", Predictor)
    return await _answer(request, state, served, _classify(request, state, served))


@router.post("/v1/models/{model}/embed", tags=["predictions"], **openapi_schema.EMBED)
async def embed(model: str, request: Request, state: StateDep) -> Response:
    """Return a vector for every text or image; similar inputs have similar vectors."""
    served = _find_ready(state, model, "embed", Predictor)
    return await _answer(request, state, served, _embed(request, state, served))


@router.post("/v1/models/{model}/fill-mask", tags=["predictions"], **openapi_schema.FILL_MASK)
async def fill_mask(model: str, request: Request, state: StateDep) -> Response:
    """Return what every mask in every text may stand for."""
    served = _find_ready(state, model, "fill-mask", MaskFiller)
    return await _answer(request, state, served, _fill_mask(request, state, served))


@router.post("/v1/models/{model}/generate", tags=["predictions"], **openapi_schema.GENERATE)
async def generate(model: str, request: Request, state: StateDep) -> Response:
    """Turn every text or image into a text, or continue it; with `stream`, send its tokens as they come."""
    served = _find_ready(state, model, "generate", Generator)
    return await _answer(request, state, served, _generate(request, state, served))


@router.post("/v1/models/{model}/attention", tags=["attention"], **openapi_schema.ATTENTION)
async def attention(model: str, request: Request, state: StateDep) -> Response:
    """Return what the model looked at, for the same input as its prediction."""
    served = _find_ready(state, model, "attention", ServedModel)
    return await _answer(request, state, served, _attend(request, state, served))


@router.get("/v1/attention/{id}", tags=["attention"], **openapi_schema.STORED_ATTENTION)
async def kept_attention(id: str, request: Request, state: StateDep) -> Response:  # noqa: A002 # the path's name
    """Return what a model looked at for an earlier request, without its input being sent again.

    With API keys, only keys of the name that sent the request find it.
    """
    stored = await state.store.get(id, exchange_of(request.scope).key_name)
    served = state.models.get(stored.model) if stored else None
    model = request.query_params.get("model")
    if stored is None or served is None or model not in (None, stored.model) or not could_answer(served, stored):
        seconds = f"{state.settings.keep_seconds:g}"
        raise NotFound(f"id: must be of a request that was answered, at most {seconds} seconds ago, given another")
    if not served.ready:
        raise NotReady("model: is warming up", seconds=1)
    answer = await _answer(request, state, served, _attend_to_stored(request, state, served, stored))
    answer.headers["Cache-Control"] = "no-store"  # a cache between us and the clients does not know whose it is
    return answer


async def _answer(request: Request, state: State, served: ServedModel, work: Coroutine[Any, Any, Response]) -> Response:
    """Answer within the deadline; the model is in use until then."""
    with served.used():
        return await answer_in_time(request, work, state.settings.request_seconds)


async def _classify(request: Request, state: State, served: Predictor) -> Response:
    modality = modality_of(served)
    parsed = await modality.read(request, state.settings)
    options = parsed.options(modality.classify_options)
    show = responses.Labels(served.manifest, options.top_k)
    return await predict(request, state, served, modality, parsed, options, show)


async def _embed(request: Request, state: State, served: Predictor) -> Response:
    modality = modality_of(served)
    parsed = await modality.read(request, state.settings)
    options = parsed.options(modality.options)
    return await predict(request, state, served, modality, parsed, options, responses.embedding)


async def _fill_mask(request: Request, state: State, served: MaskFiller) -> Response:
    modality = modality_of(served)
    parsed = await modality.read(request, state.settings)
    options = parsed.options(FillMaskOptions)
    return await predict(
        request, state, served, modality, parsed, options,
        lambda logits: responses.candidates(served, logits, options.top_k),
    )  # fmt: skip


async def _generate(request: Request, state: State, served: Generator) -> Response:
    modality = modality_of(served)
    parsed = await modality.read(request, state.settings)
    return await generate_all(request, state, served, modality, parsed, parsed.options(GenerateOptions))


async def _attend(request: Request, state: State, served: ServedModel) -> Response:
    modality = modality_of(served)
    parsed = await modality.read(request, state.settings)
    if isinstance(served, Predictor):
        options = parsed.options(modality.options)
        return await predict(request, state, served, modality, parsed, options)
    generator, generating = _as(served, Generator), parsed.options(GenerateOptions)
    return await generate_all(request, state, generator, modality, parsed, generating, attention=True)


async def _attend_to_stored(request: Request, state: State, served: ServedModel, stored: StoredRequest) -> Response:
    modality = modality_of(served)
    given = parse_query(request)
    given.pop("model", None)
    await request.body()  # it is empty; the watch for a client that leaves waits for its end
    parsed = ParsedRequest(list(stored.inputs), given, strings=True)
    options = parsed.options(RequestOptions)
    if isinstance(served, Predictor):
        stored_options = modality.stored_options(stored, options)
        return await predict(request, state, served, modality, parsed, stored_options)
    generator, generating = _as(served, Generator), GenerateOptions(priority=options.priority)
    return await generate_all(
        request, state, generator, modality, parsed, generating, attention=True, targets=stored.targets
    )


def _find(state: State, name: str) -> ServedModel:
    if name not in state.models:
        raise NotFound(f"model: must be one of {', '.join(state.models)}, given another")
    return state.models[name]


def _find_ready(state: State, name: str, endpoint: str, kind: type[S]) -> S:
    """Return a model that serves an endpoint and can run. Raises NotFound and NotReady."""
    served = _find(state, name)
    if endpoint not in served.endpoints:
        raise NotFound(
            f"{endpoint}: this model's task is {served.manifest.task}; it serves {', '.join(served.endpoints)}"
        )
    if not served.ready:
        raise NotReady("model: is warming up", seconds=1)
    return _as(served, kind)


def _as(served: ServedModel, kind: type[S]) -> S:
    if not isinstance(served, kind):
        raise TypeError(f"{served.manifest.name}: must be {kind.__name__}")
    return served
