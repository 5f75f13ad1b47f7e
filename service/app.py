"""The application: state in its lifespan, one handler for every refusal."""

import asyncio
import contextlib
import gc
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from service import VERSION
from service.batch import Device
from service.edge import Edge
from service.errors import Refusal, problem, refused
from service.hot import Hot
from service.kept import Store
from service.keys import keys_of
from service.metrics import Metrics
from service.routes import State, router
from service.served import Served
from service.settings import Settings

log = structlog.get_logger()


def create_app(
    settings: Settings, models: Mapping[str, Served], store: Store, when_ready: Callable[[], None] = lambda: None
) -> FastAPI:
    """Return the application that serves these models and keeps requests; `load` and `open_store` make them.

    `when_ready` is called once every session has run.
    """
    metrics = Metrics()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        device = Device()
        decoders = ThreadPoolExecutor(settings.decode_threads, thread_name_prefix="decode")
        tokenizers = ThreadPoolExecutor(1, thread_name_prefix="tokenize")
        presenters = ThreadPoolExecutor(2, thread_name_prefix="present")
        app.state.regard = state = State(
            settings, dict(models), metrics, device, store, decoders, tokenizers, presenters
        )
        workers = [work for served in models.values() for work in served.workers(device, metrics)]
        tasks = [asyncio.create_task(_supervised(work)) for work in workers]
        tasks.append(asyncio.create_task(_warm_up(state, when_ready)))
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        device.close()
        await store.close()
        for threads in (decoders, tokenizers, presenters):
            threads.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(
        title="regard",
        summary="Serves Transformers and Vision Transformers and shows what they looked at.",
        version=VERSION,
        lifespan=lifespan,
        docs_url="/docs",
        redoc_url=None,
    )
    app.include_router(router)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _not_routed)
    app.add_middleware(Hot, routes=router.routes)
    app.state.keys = keys_of(app, settings)
    app.add_middleware(Edge, metrics=metrics, settings=settings, keys=app.state.keys)
    return app


async def _supervised(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Start a worker again should it ever fail: one request must not end the service for the next."""
    while True:
        try:
            await work()
        except Exception:
            log.exception("worker failed, and is started again")
            await asyncio.sleep(1)  # one that fails at once must not fill the log


async def _warm_up(state: State, when_ready: Callable[[], None]) -> None:
    """Run every session once, then say so; should one fail, end the process rather than wait for a first request."""
    try:
        for served in state.models.values():
            await served.warm_up(state.device)
            session = next(iter(served.sessions.values()))
            log.info(
                "model ready", model=served.manifest.name, version=served.manifest.version, provider=session.provider
            )
    except Exception as error:
        state.failure = str(error)
        signal.raise_signal(signal.SIGTERM)
        return
    gc.collect()
    gc.freeze()  # what stays until the end is not looked through again: pauses of tens of milliseconds
    state.metrics.ready.set(1)
    log.info("ready", models=list(state.models))
    when_ready()


async def _refused(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)  # noqa: S101 # registered for it
    return refused(refusal)


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 # registered for it
    detail = {404: "path: no such endpoint; see /docs", 405: "method: not served by this endpoint; see /docs"}
    return problem(error.status_code, detail.get(error.status_code, "request: refused"), headers=error.headers)
