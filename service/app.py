"""The application: state in its lifespan, one handler for every refusal."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import structlog
from fastapi import FastAPI, Request
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.responses import Response

from service import VERSION
from service.api.direct_routes import FastPath
from service.api.routes import admin, health, router, watching
from service.errors import Refusal
from service.http.api_keys import Keys, keys_of
from service.http.middleware import RequestLog
from service.http.problems import problem, refused
from service.inputs.sandbox.decoder_pool import DecoderPool
from service.inputs.sandbox.decoder_process import ForkServer
from service.process.workers import Worker
from service.repository.registry import Registry
from service.repository.served_model import ServedModel
from service.runtime.device import Device
from service.runtime.providers import PROVIDERS
from service.runtime.session import device_memory
from service.settings import Settings
from service.state import State
from service.store.stored_request import Store
from service.telemetry.metrics import Metrics

log = structlog.get_logger()

WATCH_SECONDS = 1.0
SILENT: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI's own telemetry tells what is sent."""


def create_app(
    settings: Settings,
    models: Mapping[str, ServedModel],
    store: Store,
    when_ready: Callable[[], None] = lambda: None,
    nursery: ForkServer | None = None,
    worker: Worker | None = None,
) -> FastAPI:
    """Return the application that serves these models and keeps requests; `load` and `open_store` make them.

    `when_ready` is called once every session has run. A nursery may have been started while the models were loaded.
    """
    metrics = Metrics()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        device = Device()
        decoders = DecoderPool(settings, metrics, nursery)
        if any(served.manifest.image for served in models.values()):
            decoders.start()
        elif nursery:
            nursery.end_all()
        tokenizers = ThreadPoolExecutor(1, thread_name_prefix="tokenize")
        presenters = ThreadPoolExecutor(2, thread_name_prefix="present")
        fleet = Registry(models, settings, device, metrics)
        app.state.regard = state = State(
            settings, fleet, metrics, device, store, decoders, tokenizers, presenters, worker
        )
        warm = asyncio.create_task(_warm_up(state, when_ready))
        task = asyncio.create_task(_watch(state, warm))
        if worker:  # others serve meanwhile, so this one listens once it can
            await warm
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await fleet.close()
        device.close()
        await store.close()
        await decoders.close()
        for threads in (tokenizers, presenters):
            threads.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(
        title="regard",
        summary="Serves Transformers and Vision Transformers and shows what they looked at.",
        version=VERSION,
        lifespan=lifespan,
        docs_url="/docs",
        redoc_url=None,
        telemetry=SILENT,
    )
    app.state.metrics = metrics
    app.include_router(health)
    app.include_router(router)
    keys = keys_of(app, settings)
    if settings.admin_port is None:
        app.include_router(watching)
        if keys.needed:
            app.include_router(admin)
    app.add_middleware(FastPath, routes=router.routes)
    return _edged(app, settings, keys)


def create_admin(app: FastAPI, settings: Settings) -> FastAPI:
    """Return the application of the admin port, which shares the state of the one that serves."""
    beside = FastAPI(title="regard admin", version=VERSION, docs_url=None, redoc_url=None, telemetry=SILENT)
    beside.state = app.state
    for routes in (health, watching, admin):
        beside.include_router(routes)
    return _edged(beside, settings, app.state.keys)


def _edged(app: FastAPI, settings: Settings, keys: Keys) -> FastAPI:
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _not_routed)
    app.state.keys = keys
    app.add_middleware(RequestLog, metrics=app.state.metrics, settings=settings, keys=keys)
    return app


async def _warm_up(state: State, when_ready: Callable[[], None]) -> None:
    """Run every session, then say so; should one fail, end the process rather than wait for a first request."""
    try:
        await state.models.warm_up()
    except Exception as error:
        state.fail(str(error))
        return
    gc.collect()
    gc.freeze()  # what stays until the end is not looked through again: pauses of tens of milliseconds
    state.metrics.ready.set(1)
    log.info("ready", models=list(state.models))
    when_ready()


async def _watch(state: State, warm: "asyncio.Task[None]") -> None:
    """Look after the device and the models from when they are warm until cancelled."""
    await warm
    while not state.failure:
        await asyncio.sleep(WATCH_SECONDS)
        state.device.revive()
        if state.device.lost:
            state.fail(f"the device is lost: {state.device.lost}")
        elif state.hung:
            log.error("device hangs", seconds=round(state.device.busy_seconds()))
            if state.worker:  # probes are dealt to the others too, so nobody else would notice
                state.fail("the device hangs")
        else:
            await state.models.check()
        state.metrics.ready.set(state.ready)
        state.models.show_queues()
        if any(served.provider != PROVIDERS["cpu"] for served in state.models.values()):
            for device, held in device_memory().items():
                state.metrics.device_memory.labels(device).set(held)


async def _refused(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)  # noqa: S101 # registered for it
    return refused(refusal, request.scope)


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 # registered for it
    detail = {404: "path: no such endpoint; see /docs", 405: "method: not served by this endpoint; see /docs"}
    return problem(error.status_code, detail.get(error.status_code, "request: refused"), headers=error.headers)
