"""From settings to an exit status: artifacts are tried and loaded, ports bound, requests served."""

import contextlib
import socket
import sys
from collections.abc import Mapping, Sequence

import structlog

from contract.artifact import ArtifactError, NoRoomError, find_artifacts
from service.child_processes import forbid_inspection
from service.http.api_keys import Keys
from service.inputs.sandbox.decoder_process import ForkServer
from service.process.early_stop import end_if_asked, postponed
from service.process.sockets import PORTS, bind, cannot_bind
from service.process.welcome import welcome
from service.process.workers import Worker
from service.repository.loading.load import load
from service.repository.loading.trial_load import Trial
from service.repository.models.served_model import ServedModel
from service.runtime.memory import return_large_blocks
from service.settings import Settings, SettingsError
from service.store import open_store
from service.store.stored_request import Store
from service.telemetry import open_tracer
from service.telemetry.metric_files import allocate_all
from service.telemetry.tracing import Tracer

log = structlog.get_logger()


def load_and_serve(settings: Settings, worker: Worker | None) -> tuple[int, bool]:
    """Serve until stopped; return the exit status, and whether the process is to end at once."""
    try:
        if worker:
            allocate_all(worker.folder)
        store = open_store(settings, worker.folder if worker else None)
        Keys(settings)
    except (SettingsError, ValueError) as error:
        return _report_settings(error), False
    if worker:
        structlog.contextvars.bind_contextvars(worker=worker.number)
    else:
        log.info("settings", **settings.model_dump(mode="json", exclude_defaults=True))
    with contextlib.ExitStack() as stack:  # before anything is loaded, which may take a minute
        if isinstance(wrong := _bind_ports(settings, worker, stack), int):
            return wrong, False
    return_large_blocks()
    trial = None
    fork_server = None if settings.decode == "threads" else ForkServer(settings)
    try:
        if fork_server:
            with contextlib.suppress(OSError):  # the start of the fork server asks for it again
                forbid_inspection()  # before the trial, too, which runs what nobody has tried yet
        with contextlib.suppress(ArtifactError), postponed():  # loading raises the same error
            trial = Trial(find_artifacts(settings.artifacts), settings, "fork")
        tracer = open_tracer(settings)  # it starts a thread, so it comes after the fork of the trial
        with postponed():
            import service.process.server  # noqa: F401 # importing FastAPI takes a while; the trial runs meanwhile

        if fork_server:  # not before, since the imports of two processes and the trial would share two cores
            with contextlib.suppress(OSError):  # it is started again for the first image
                fork_server.start()
        models = load(settings, trial)
        end_if_asked()
    except SettingsError as error:
        return _report_settings(error), False
    except ImportError as error:
        log.error("a package is missing or broken; install the service anew", reason=str(error))
        return 2, False
    except ExceptionGroup as group:
        return _report_faults(group.exceptions), False
    except OSError as error:
        log.error("a process or a folder for temporary files (TMPDIR) cannot be had", reason=error.strerror)
        return 2, False
    finally:
        if trial:
            trial.close()
    return _listen_and_serve(settings, worker, models, store, fork_server, tracer)


def _listen_and_serve(
    settings: Settings,
    worker: Worker | None,
    models: Mapping[str, ServedModel],
    store: Store,
    fork_server: ForkServer | None,
    tracer: Tracer,
) -> tuple[int, bool]:
    """Bind the ports and serve loaded models; return what `load_and_serve` does."""
    from service.process.server import serve  # imported already, while the trial ran

    with contextlib.ExitStack() as stack:
        listening = _bind_ports(settings, worker, stack)
        if isinstance(listening, int):
            return listening, False
        url = "http://{}:{}".format(*listening["port"].getsockname()[:2])
        other_ports = {name: listening[name].getsockname()[1] if name in listening else None for name in PORTS[1:]}
        log.info("listening", url=url, **other_ports)

        def when_ready() -> None:
            if worker:
                worker.tell_ready()
            if worker is None or worker.number == 0:
                welcome(settings, listening["port"], models)

        tell_reload, tell_alive = (worker.tell_reload, worker.tell_alive) if worker else (None, None)
        stopped = serve(settings, models, store, listening, when_ready, fork_server, tell_reload, tracer, tell_alive)
    tracer.close()
    if stopped.failure:
        log.error("model cannot run", reason=stopped.failure)
        return 6, False
    log.info("stopped")
    return 0, stopped.at_once


def _bind_ports(
    settings: Settings, worker: Worker | None, stack: contextlib.ExitStack
) -> dict[str, socket.socket] | int:
    """Return the sockets of the settings that are ports, which the stack closes; an exit status if one is taken."""
    bound: dict[str, socket.socket] = {}
    for name in PORTS:
        if (port := getattr(settings, name)) is None:
            continue
        try:
            bound[name] = stack.enter_context(bind(settings.host, port, shared=worker is not None))
        except OSError as error:
            return cannot_bind(settings.host, port, name, error)
    return bound


def _report_settings(error: Exception) -> int:
    with contextlib.suppress(BlockingIOError):  # nobody reads it
        print(f"settings cannot be used:\n{error}", file=sys.stderr)  # noqa: T201 # as before there is a log
    return 2


def _report_faults(faults: Sequence[Exception]) -> int:
    """Log all faults; return the exit status of the first."""
    for fault in faults:
        if isinstance(fault, NoRoomError):
            log.error("no room for a copy of the models", folder=str(fault.file), reason=fault.reason)
        elif isinstance(fault, ArtifactError):
            log.error("artifact cannot be used", file=str(fault.file), reason=fault.reason)
        else:
            log.error("device or graph cannot be used", reason=str(fault))
    if isinstance(faults[0], NoRoomError):
        return 2
    if isinstance(faults[0], ArtifactError):
        return 3
    return 4
