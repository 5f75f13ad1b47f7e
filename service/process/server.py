"""The servers of the main, the admin and the probe port: they listen, reload on SIGHUP, drain and stop on SIGTERM."""

import asyncio
import contextlib
import logging
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Literal

import structlog
import uvicorn
from fastapi import FastAPI
from uvicorn.loops.auto import auto_loop_factory

from service.app import create_admin, create_app, create_probe
from service.errors import Conflict, Refusal
from service.http.bounded_protocol import bounded_protocol
from service.inputs.sandbox.decoder_process import ForkServer
from service.process.sockets import PROBE_CONNECTIONS, several
from service.repository.models.served_model import ServedModel
from service.settings import Settings
from service.store.stored_request import Store
from service.telemetry.logs import OUTPUT
from service.telemetry.tracing import SILENT, Tracer

SWITCH_SECONDS = 0.0001
"""How long one thread may keep the others from running Python. The default, fifty times as long, would delay requests
as they pass from the event loop to a thread of the device and back."""
ALIVE_SECONDS = 1.0
"""Time between two signals of a worker that its event loop runs."""
log = structlog.get_logger()


@dataclass(frozen=True)
class Stopped:
    """How serving ended."""

    failure: str | None
    """The reason why the service could not go on; None if it was told to stop."""
    at_once: bool
    """True if it was told to stop twice."""


def serve(
    settings: Settings,
    models: Mapping[str, ServedModel],
    store: Store,
    listening: Mapping[str, socket.socket],
    when_ready: Callable[[], None],
    fork_server: ForkServer | None,
    tell_reload: Callable[[], None] | None = None,
    tracer: Tracer = SILENT,
    tell_alive: Callable[[], None] | None = None,
) -> Stopped:
    """Serve until told to stop, on the socket of each port that the settings name.

    A worker is given `tell_reload` and `tell_alive`. It listens only once its models have run, and from then on tells
    every ALIVE_SECONDS that its event loop runs.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    settings = settings.with_hosts()
    app = create_app(settings, models, store, when_ready, fork_server, tell_reload, tracer)
    server = Server(uvicorn_config(app, settings, "on"), app, settings.drain_seconds, worker=tell_reload is not None)
    of_probes = settings.model_copy(update={"max_connections": PROBE_CONNECTIONS})
    other_ports = {
        "admin_port": OtherServer(uvicorn_config(create_admin(app, settings, tracer), settings, "off")),
        "probe_port": OtherServer(uvicorn_config(create_probe(app, settings, tracer), of_probes, "off")),
    }

    async def serve_other(name: str) -> None:
        if tell_reload:
            await server.listens.wait()
        await other_ports[name].serve(sockets=[listening[name]])

    async def keep_telling() -> None:
        await server.listens.wait()
        while tell_alive:
            tell_alive()
            await asyncio.sleep(ALIVE_SECONDS)

    async def serve_all() -> None:
        others = [asyncio.create_task(serve_other(name)) for name in other_ports if name in listening]
        telling = asyncio.create_task(keep_telling())
        await server.serve(sockets=several(listening["port"]))
        if server.force_exit:
            log.info("stopped at once")
            logging.disable()  # what is cancelled now has not failed
        telling.cancel()
        for port in other_ports.values():
            port.stop_with(server)
        await asyncio.gather(*others)

    with asyncio.Runner(loop_factory=auto_loop_factory(use_subprocess=False)) as runner:
        runner.run(serve_all())
    return Stopped(app.state.regard.failure, server.force_exit)


def uvicorn_config(app: FastAPI, settings: Settings, lifespan: Literal["on", "off"]) -> uvicorn.Config:
    """Return how uvicorn serves an application of ours."""
    return uvicorn.Config(
        app,
        http=bounded_protocol(settings, app.state.metrics),
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=settings.shutdown_grace_seconds,
    )


class Server(uvicorn.Server):
    """A server that drains before it stops, and that exits with status 0 after a signal.

    On SIGTERM it drains first; on SIGINT, from a person, it does not; a second signal ends it at once.
    """

    def __init__(self, config: uvicorn.Config, app: FastAPI, drain_seconds: float, *, worker: bool) -> None:
        super().__init__(config)
        self._app, self._drain_seconds, self._worker = app, drain_seconds, worker
        self.listens = asyncio.Event()
        self._stop_signal = 0
        """The number of the signal to stop; 0 before there was one."""
        self._stop_at = math.inf
        self.grace_ends = math.inf
        """When requests that are still answered are given up; known once it stops."""
        self._reload: asyncio.Task[None] | None = None
        self._reload_wanted = False
        """True from a SIGHUP until a reload begins."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and to handle SIGHUP."""
        await super().startup(sockets)
        self.listens.set()
        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._begin_reload)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # it was blocked until now

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM. (uvicorn would raise the signal again once it has stopped.)"""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Record a signal to stop; a worker that does not listen yet exits at once.

        It does no more, since the code that it interrupts may hold any lock.
        """
        if self._worker and not self.started:  # the kernel has not given it a connection yet
            state = getattr(self._app.state, "regard", None)
            if failure := state and state.failure:
                log.error("model cannot run", reason=failure)  # safe, since this process sent the signal itself
                OUTPUT.close(seconds=0.1)  # the line may be no more than queued
            os._exit(6 if failure else 0)
        if self._stop_signal:
            self.should_exit = self.force_exit = True
        self._stop_signal = self._stop_signal or sig

    async def on_tick(self, counter: int) -> bool:
        """Check ten times a second whether it is time to stop."""
        state = self._app.state.regard
        if self._stop_signal == signal.SIGTERM and not state.failure and not state.draining:
            log.info("draining", seconds=self._drain_seconds)
            state.drain()
            self._stop_at = time.monotonic() + self._drain_seconds
        elif self._stop_signal and not state.draining:
            self._stop_at = 0.0
        OUTPUT.flush()
        self.should_exit = self.should_exit or time.monotonic() >= self._stop_at
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what is in flight, within the time of grace."""
        self.grace_ends = time.monotonic() + (self.config.timeout_graceful_shutdown or 0)
        await super().shutdown(sockets)

    def _begin_reload(self) -> None:
        """Reload; if a reload runs, then once more after it, however many signals come meanwhile."""
        self._app.state.keys.reload(self._app.state.metrics)  # takes no time, and a key that was revoked ends now
        self._reload_wanted = True
        if self._reload is None or self._reload.done():
            self._reload = asyncio.create_task(self._reload_while_wanted())

    async def _reload_while_wanted(self) -> None:
        while self._reload_wanted:
            self._reload_wanted = False
            try:
                await self._app.state.regard.models.reload()
            except Conflict:  # the folder may have changed since the other reload began
                self._reload_wanted = True
                await asyncio.sleep(0.1)
            except Refusal:
                pass  # `reload` has logged it
            except Exception:  # the next signal must not be lost
                log.exception("reload failed")


class OtherServer(uvicorn.Server):
    """The server of another port. The main server handles the signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    def stop_with(self, main: Server) -> None:
        """Stop, within what the main server, which has stopped, has left of the time of grace."""
        left = max(main.grace_ends - time.monotonic(), 0.0)
        self.config.timeout_graceful_shutdown = left  # type: ignore[assignment] # uvicorn accepts any number of seconds
        self.force_exit = main.force_exit
        self.should_exit = True
