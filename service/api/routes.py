"""Route: find the model, refuse early, and send a request through decode, batch, run and present."""

from pathlib import Path
from typing import TypeVar

import structlog
from fastapi import APIRouter, Request
from starlette.responses import FileResponse, Response

from service.api import openapi_schema as documents
from service.api import responses as present
from service.api.generations import _generate_all
from service.api.predictions import _predict
from service.api.request_parsing import Sent, query, read_images, read_texts
from service.errors import NotFound, NotReady
from service.http.deadline import _answer
from service.options import (
    ClassifyOptions,
    ClassifyTextOptions,
    FillMaskOptions,
    GenerateOptions,
    RequestOptions,
    TextOptions,
)
from service.repository.generator import Generator
from service.repository.predictor import Predictor
from service.repository.served_model import ServedModel
from service.state import State, StateDep
from service.store.stored_request import StoredRequest

S = TypeVar("S", bound=ServedModel)
T = TypeVar("T")
log = structlog.get_logger()
router, health, watching, admin = APIRouter(), APIRouter(), APIRouter(), APIRouter()
PAGE = Path(__file__).parent / "page" / "index.html"


# Health, discovery, documents


@health.get("/health/live", tags=["health"], responses=documents.LIVE)
async def live(state: StateDep) -> Response:
    """Answer 200 while the process answers and its device comes back from what it runs."""
    if state.hung:
        raise NotReady("device: does not come back from a run", seconds=1)
    return present.respond({"live": True})


@health.get("/health/ready", tags=["health"], responses=documents.READY)
async def ready(state: StateDep) -> Response:
    """Answer 200 once every session has run once, until the service is told to stop."""
    if state.draining:
        raise NotReady("service: is stopping", seconds=1)
    if not state.ready:
        raise NotReady("service: is warming up", seconds=1)
    return present.respond({"ready": True})


@watching.get("/metrics", tags=["health"], responses=documents.METRICS)
async def metrics(state: StateDep) -> Response:
    """Return all metrics in Prometheus' text format."""
    state.models.show_queues()
    return state.metrics.exposition()


@admin.post("/admin/reload", tags=["admin"], responses=documents.RELOAD)
async def reload(request: Request, state: StateDep) -> Response:
    """Read the folder of artifacts again: load what is new beside what is served, swap, let the old finish.

    The file of API keys is read again too; one that cannot be used changes nothing. Of several workers the one that
    answers tells what became of its own models; the others reload then, and log it.
    """
    request.app.state.keys.reload()
    found = await state.models.reload()
    if state.worker:
        state.worker.tell_reload()
    return present.respond({"models": found})


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """Return the web page."""
    return FileResponse(PAGE, media_type="text/html; charset=utf-8")


@router.get("/v1/models", tags=["models"], responses=documents.MODELS)
async def models(state: StateDep) -> Response:
    """List the models that are loaded."""
    return present.respond({"models": [present.describe(served) for served in state.models.values()]})


@router.get("/v1/models/{model}", tags=["models"], responses=documents.MODEL)
async def one_model(model: str, state: StateDep) -> Response:
    """Say what one model takes, answers and shows."""
    return present.respond(present.describe(_model(state, model)))


# Predictions


@router.post("/v1/models/{model}/classify", tags=["predictions"], **documents.CLASSIFY)
async def classify(model: str, request: Request, state: StateDep) -> Response:
    """Return the likeliest labels of every image or text."""
    served = _serving(state, model, "classify", Predictor)
    return await _answer(request, state, served, _classify(request, state, served))


@router.post("/v1/models/{model}/embed", tags=["predictions"], **documents.EMBED)
async def embed(model: str, request: Request, state: StateDep) -> Response:
    """Return a vector for every text or image, near those of its like."""
    served = _serving(state, model, "embed", Predictor)
    return await _answer(request, state, served, _embed(request, state, served))


@router.post("/v1/models/{model}/fill-mask", tags=["predictions"], **documents.FILL_MASK)
async def fill_mask(model: str, request: Request, state: StateDep) -> Response:
    """Return what every mask in every text may stand for."""
    served = _serving(state, model, "fill-mask", Predictor)
    return await _answer(request, state, served, _fill_mask(request, state, served))


@router.post("/v1/models/{model}/generate", tags=["predictions"], **documents.GENERATE)
async def generate(model: str, request: Request, state: StateDep) -> Response:
    """Turn every text or image into a text, or continue it; with `stream`, send its tokens as they come."""
    served = _serving(state, model, "generate", Generator)
    return await _answer(request, state, served, _generate(request, state, served))


@router.post("/v1/models/{model}/attention", tags=["attention"], **documents.ATTENTION)
async def attention(model: str, request: Request, state: StateDep) -> Response:
    """Return what the model looked at, for the same input as its prediction."""
    served = _serving(state, model, "attention", ServedModel)
    return await _answer(request, state, served, _attend(request, state, served))


@router.get("/v1/attention/{id}", tags=["attention"], **documents.KEPT)
async def kept_attention(id: str, request: Request, state: StateDep) -> Response:  # noqa: A002 # the path's name
    """Return what a model looked at for an earlier request, without its input being sent again."""
    kept = await state.store.get(id)
    served = state.models.get(kept.model) if kept else None
    model = request.query_params.get("model")
    if kept is None or served is None or served.manifest.version != kept.version or model not in (None, kept.model):
        seconds = f"{state.settings.keep_seconds:g}"
        raise NotFound(f"id: must be of a request that was answered, at most {seconds} seconds ago, given another")
    if not served.ready:
        raise NotReady("model: is warming up", seconds=1)
    return await _answer(request, state, served, _attend_to_kept(request, state, served, kept))


async def _classify(request: Request, state: State, served: Predictor) -> Response:
    sent = await _read(request, state, served)
    options = sent.options(ClassifyOptions if served.manifest.image else ClassifyTextOptions)
    return await _predict(request, state, served, sent, options, lambda row: present.labels(served, row, options.top_k))


async def _embed(request: Request, state: State, served: Predictor) -> Response:
    sent = await _read(request, state, served)
    options = sent.options(RequestOptions if served.manifest.image else TextOptions)
    return await _predict(request, state, served, sent, options, lambda row: present.embedding(served, row))


async def _fill_mask(request: Request, state: State, served: Predictor) -> Response:
    sent = await _read(request, state, served)
    options = sent.options(FillMaskOptions)
    return await _predict(
        request, state, served, sent, options, lambda row: present.candidates(served, row, options.top_k)
    )


async def _attend(request: Request, state: State, served: ServedModel) -> Response:
    sent = await _read(request, state, served)
    if isinstance(served, Predictor):
        options = sent.options(RequestOptions if served.manifest.image else TextOptions)
        return await _predict(request, state, served, sent, options, asked=True)
    return await _generate_all(request, state, _as(served, Generator), sent, sent.options(GenerateOptions), asked=True)


async def _attend_to_kept(request: Request, state: State, served: ServedModel, kept: StoredRequest) -> Response:
    given = query(request)
    given.pop("model", None)
    await request.body()  # there is none; what notices that the client has left waits for its end
    sent = Sent(list(kept.inputs), given, strings=True)  # type: ignore[arg-type] # all are bytes, or all texts
    priority = sent.options(RequestOptions).priority
    if isinstance(served, Predictor):
        options = (
            RequestOptions(priority=priority)
            if served.manifest.image
            else TextOptions(truncate=kept.truncate, priority=priority)
        )
        return await _predict(request, state, served, sent, options, asked=True)
    return await _generate_all(
        request,
        state,
        _as(served, Generator),
        sent,
        GenerateOptions(priority=priority),
        asked=True,
        targets=kept.targets,
    )


async def _read(request: Request, state: State, served: ServedModel) -> Sent:
    return await (read_images if served.manifest.image else read_texts)(request, state.settings)


async def _generate(request: Request, state: State, served: Generator) -> Response:
    sent = await _read(request, state, served)
    return await _generate_all(request, state, served, sent, sent.options(GenerateOptions))


# What every prediction shares


def _model(state: State, name: str) -> ServedModel:
    if name not in state.models:
        raise NotFound(f"model: must be one of {', '.join(state.models)}, given another")
    return state.models[name]


def _serving(state: State, name: str, endpoint: str, kind: type[S]) -> S:
    served = _model(state, name)
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
