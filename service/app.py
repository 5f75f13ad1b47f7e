"""The application: its state in the lifespan, its middleware in one list, its handlers of refusals."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import Match

from service import VERSION
from service.api.fast_path import FastPath
from service.api.native.routes import health, liveness, monitoring
from service.api.open_inference.infer_request import JSON_LENGTH
from service.api.openapi.document import describe
from service.api.protocols import ADMIN_PORT_ROUTERS, ADMIN_ROUTERS, ROUTERS, error_form_of, read_operations
from service.batching.admission import Bodies
from service.errors import Refusal
from service.http.api_keys import Keys, describe_keys
from service.http.body_limits import BodyLimits, shared_bytes
from service.http.gate import Gate
from service.http.head_requests import HeadRequests
from service.http.problems import fault, refused
from service.http.request_log import RequestLog
from service.http.unread_answers import SlicedAnswers, UnreadAnswers
from service.inputs.sandbox.decoder_pool import DecoderPool
from service.inputs.sandbox.decoder_process import ForkServer
from service.repository.models.served_model import ServedModel
from service.repository.registry import Registry
from service.runtime.device import Device
from service.runtime.providers import PROVIDERS
from service.runtime.session import device_memory
from service.runtime.threads import cores_of_runs
from service.settings import Settings, split_list
from service.state import State
from service.store.stored_request import Store
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import SILENT, Tracer

log = structlog.get_logger()

WATCH_SECONDS = 1.0
ENDED_AFTER_SECONDS = 60.0
"""A service of one process whose device has hung for so long ends, so that it is started again. A worker ends at once:
probes reach the other workers too, so nobody else would notice."""
COUNTED_FROM_ZERO = (HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI's own telemetry would report what clients send."""


def create_app(
    settings: Settings,
    models: Mapping[str, ServedModel],
    store: Store,
    when_ready: Callable[[], None] = lambda: None,
    fork_server: ForkServer | None = None,
    tell_reload: Callable[[], None] | None = None,
    tracer: Tracer = SILENT,
) -> FastAPI:
    """Return the application that serves these models and stores requests.

    `load` makes the models and `open_store` the store. `when_ready` is called once every session has run. A fork server
    may have been started while the models were loaded. `tell_reload` is given to a worker, one of several processes
    that serve, and tells the others to reload.
    """
    metrics = Metrics()
    keys = Keys(settings)
    unread = UnreadAnswers(settings.unread_bytes, metrics.answers_gave_way)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        device = Device(cores_of_runs(settings) if all(served.on_cpu for served in models.values()) else 1)
        decoders = DecoderPool(settings, metrics, fork_server)
        if any(served.inputs.confined for served in models.values()):
            decoders.start()
        elif fork_server:
            fork_server.end_all()
        tokenizer_threads = ThreadPoolExecutor(1, thread_name_prefix="tokenize")
        presenter_threads = ThreadPoolExecutor(2, thread_name_prefix="present")
        registry = Registry(models, settings, device, metrics, tracer)
        app.state.regard = state = State(
            settings, registry, metrics, tracer, device, store, unread, decoders, tokenizer_threads, presenter_threads,
            tell_reload,
        )  # fmt: skip
        warm = asyncio.create_task(_warm_up(state, when_ready))
        task = asyncio.create_task(_watch(state, warm))
        if tell_reload:  # other workers serve meanwhile, so this one listens once it can answer
            await warm
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await registry.close()
        device.close()
        await store.close()
        await decoders.close()
        for threads in (tokenizer_threads, presenter_threads):
            threads.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(
        title="regard",
        summary="Serves Transformers and Vision Transformers and shows what they looked at.",
        version=VERSION,
        lifespan=lifespan,
        openapi_url=None,  # `describe` adds it
        docs_url=None,  # FastAPI's own loads its viewer from the internet; api/page has one
        redoc_url=None,
        redirect_slashes=False,  # a redirect would name whatever host the client says
        telemetry=NO_TELEMETRY,
        middleware=[
            *_middleware(settings, metrics, tracer, keys, unread, lambda: app.state.regard.draining),
            Middleware(FastPath, routes=[route for router in ROUTERS for route in router.routes]),
        ],
        exception_handlers=HANDLERS,
    )
    _count_from_zero(metrics)
    app.state.metrics, app.state.keys, app.state.unread = metrics, keys, unread
    for routes in (liveness, health, *ROUTERS):
        app.include_router(routes)
    describe(app, read_operations)
    if keys.needed:
        describe_keys(app)
    if settings.admin_port is None:
        app.include_router(monitoring)
        if keys.needed:
            for routes in ADMIN_ROUTERS:
                app.include_router(routes)
    return app


def _count_from_zero(metrics: Metrics) -> None:
    """Begin to count the failures of every endpoint, since `rate` does not see a series that begins with its first."""
    for route in (route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)):
        if "POST" in (route.methods or ()):
            for status in COUNTED_FROM_ZERO:
                metrics.requests.labels(route.path, "POST", str(status.value))


def create_admin(app: FastAPI, settings: Settings, tracer: Tracer = SILENT) -> FastAPI:
    """Return the application of the admin port, which shares the state of the one that serves."""
    routers = (liveness, health, monitoring, *ADMIN_PORT_ROUTERS)
    beside = _create_beside(app, settings, tracer, routers, title="regard admin")
    describe(beside, read_operations)
    if app.state.keys.needed:
        describe_keys(beside)
    return beside


def create_probe(app: FastAPI, settings: Settings, tracer: Tracer = SILENT) -> FastAPI:
    """Return the application of the probe port, which says whether the one that serves is alive, and nothing else."""
    return _create_beside(app, settings, tracer, (liveness,), title="regard probe")


def _create_beside(
    app: FastAPI, settings: Settings, tracer: Tracer, routers: Sequence[APIRouter], title: str
) -> FastAPI:
    beside = FastAPI(
        title=title,
        version=VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
        middleware=_middleware(
            # who scrapes or administers calls by address, or by a name of the cluster
            settings.for_operators(),
            app.state.metrics,
            tracer,
            app.state.keys,
            app.state.unread,
            lambda: app.state.regard.draining,
            for_pages=False,
        ),
        exception_handlers=HANDLERS,
    )
    beside.state = app.state
    for routes in routers:
        beside.include_router(routes)
    return beside


def _middleware(
    settings: Settings,
    metrics: Metrics,
    tracer: Tracer,
    keys: Keys,
    unread: UnreadAnswers,
    draining: Callable[[], bool],
    *,
    for_pages: bool = True,
) -> list[Middleware]:
    """Return the middleware that every request passes through, outermost first."""
    origins = split_list(settings.cors_origins)
    cors = Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=["GET", "HEAD", "POST"],
        allow_headers=["*"],  # a page that may call at all may say what it likes: clients send headers of their own
        expose_headers=["X-Request-Id", "Retry-After", JSON_LENGTH],
    )
    return [
        Middleware(RequestLog, metrics=metrics, tracer=tracer, draining=draining, error_form_of=error_form_of),
        Middleware(SlicedAnswers, unread=unread),
        *([cors] if origins else []),  # outside of the gate: a preflight request carries no key
        Middleware(HeadRequests),
        Middleware(Gate, settings=settings, keys=keys, for_pages=for_pages),
        Middleware(BodyLimits, settings=settings, budget=Bodies(shared_bytes(settings))),
    ]


async def _warm_up(state: State, when_ready: Callable[[], None]) -> None:
    """Run every session and report it; if one fails, end the process rather than wait for a first request."""
    try:
        await state.models.warm_up()
    except Exception as error:
        state.fail(str(error))
        return
    gc.freeze()  # long-lived objects are not examined again, which would pause the service for tens of milliseconds
    gc.enable()  # it is off while the service starts, when little is made that could be freed
    state.metrics.ready.set(1)
    log.info("ready", models=list(state.models))
    when_ready()


async def _watch(state: State, warm: "asyncio.Task[None]") -> None:
    """Once the models are warm, check the device and the models every WATCH_SECONDS, until cancelled."""
    await warm
    checks: asyncio.Task[None] | None = None  # beside this one: a device that hangs lets none of them end
    try:
        while not state.failure:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                checks = _watch_once(state, checks)
            except Exception:  # of any kind, such as a thread that cannot be started: the next look may succeed
                log.exception("the device and the models cannot be checked")
    finally:
        if checks:
            checks.cancel()


def _watch_once(state: State, checks: "asyncio.Task[None] | None") -> "asyncio.Task[None] | None":
    """Look at the device, and set the gauges; begin checks of the models if the last ones have ended. Return them."""
    state.device.revive()
    if state.device.lost:
        state.fail(f"the device is lost: {state.device.lost}")
    elif state.hung:
        log.error("device hangs", seconds=round(state.device.busy_seconds()))
        if state.tell_reload or state.hung_seconds > ENDED_AFTER_SECONDS:
            state.fail("the device hangs")
    elif checks is None or checks.done():
        checks = asyncio.create_task(_check_models(state))
    state.metrics.ready.set(state.ready)
    state.models.show_queues()
    state.decoders.show_queue()
    state.metrics.count_dropped_lines()
    if any(served.provider != PROVIDERS["cpu"] for served in state.models.values()):
        for device, held in device_memory().items():
            state.metrics.device_memory.labels(device).set(held)
    return checks


async def _check_models(state: State) -> None:
    try:
        await state.models.check()
        await state.models.give_back_memory()
    except Exception:  # of any kind: the next checks come all the same
        log.exception("checks failed")


async def _refused(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)  # noqa: S101 # registered for it
    return refused(refusal, request.scope)


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 # registered for it
    detail, headers = "request: refused", dict(error.headers or {})
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = "path: no such endpoint; see /docs"
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = allowed = ", ".join(_methods(request))
        detail = f"method: must be {'one of ' if ',' in allowed else ''}{allowed} here, given another; see /docs"
    return fault(request.scope, error.status_code, detail, headers=headers)


def _methods(request: Request) -> list[str]:
    """Return the methods that are served at the path of a request."""
    routes = [one for route in request.app.routes for one in getattr(route, "original_router", request.app).routes]
    matching = (route for route in routes if route.matches(request.scope)[0] != Match.NONE)
    found = {method for route in matching for method in getattr(route, "methods", None) or ()}
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


HANDLERS: dict[int | type[Exception], Any] = {Refusal: _refused, HTTPException: _not_routed}
