"""Workers: processes that serve one port together, for models whose answers take less time than HTTP does.

Each is a whole service with its own models. It listens (`SO_REUSEPORT`, on Linux) once its models have run; from then
on the kernel distributes connections to it. The supervisor starts workers, passes signals on, and restarts workers that
end. They share a folder with the stored requests and the metrics.
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import structlog
from prometheus_client.multiprocess import mark_process_dead

from service.child_processes import end_with_parent
from service.process.sockets import bind, cannot_bind
from service.settings import PREFIX, Settings
from service.telemetry.metrics import SHARED_FOLDER_VARIABLE

WORKER_FLAG = "--worker"
"""The argument of a worker's process, before its number and the supervisor's."""
RESTART_SECONDS = 5.0
"""Until a worker that ended before it was ready is started again."""
log = structlog.get_logger()


@dataclass(frozen=True)
class Worker:
    """One of the processes that serve."""

    number: int
    supervisor: int
    """The process that looks after it."""
    folder: Path
    """What it shares with the others."""

    def tell_ready(self) -> None:
        """Tell the supervisor that this one serves."""
        self._tell(signal.SIGRTMIN)

    def tell_reload(self) -> None:
        """Have the supervisor tell the others to reload."""
        self._tell(signal.SIGHUP)

    def _tell(self, what: int) -> None:
        if os.getppid() == self.supervisor:  # else it has gone, and this one goes too
            os.kill(self.supervisor, what)


def current_worker() -> Worker | None:
    """Return which worker this process is, None if it is none."""
    if sys.argv[1:2] != [WORKER_FLAG]:
        return None
    return Worker(int(sys.argv[2]), int(sys.argv[3]), Path(os.environ[SHARED_FOLDER_VARIABLE]))


def supervise(settings: Settings) -> int:
    """Keep so many workers serving until told to stop; return the exit status.

    Sockets that are bound here, and never listen, keep a port that was found free the same for all of them.
    """
    log.info("settings", **settings.model_dump(mode="json"))
    with contextlib.ExitStack() as opened:
        try:
            folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="regard-"))
        except OSError as error:
            log.error("several workers need a folder for temporary files, see TMPDIR", reason=error.strerror)
            return 2
        environment = os.environ | {SHARED_FOLDER_VARIABLE: folder}
        for name in ("port", "admin_port"):
            if (port := getattr(settings, name)) is None:
                continue
            try:
                bind(settings.host, port).close()  # unshared: one on which others listen is taken, shared or not
                held = opened.enter_context(bind(settings.host, port, shared=True))
            except OSError as error:
                return cannot_bind(settings.host, port, error)
            environment[f"{PREFIX}{name}".upper()] = str(held.getsockname()[1])
        return Workers(settings.workers, environment).run()


class Workers:
    """The processes, by number. To be run by a process of one thread, which does nothing else."""

    def __init__(self, count: int, environment: dict[str, str]) -> None:
        self._environment = environment
        self._told_by = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGRTMIN}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._ready: set[int] = set()
        self._due = {0: 0.0}
        """When those that are not running are to be started."""
        self._later = set(range(1, count))
        """Those that are started once one is ready: what is wrong is said once."""
        self._stopping = False
        self._status = 0

    def run(self) -> int:
        """Go on until told to stop, or until no worker can be had; return the worst of their exit statuses."""
        signal.pthread_sigmask(signal.SIG_BLOCK, self._told_by)
        while self._processes or self._due:
            for number in [number for number, due in self._due.items() if due <= time.monotonic()]:
                try:
                    self._processes[number] = self._start(number)
                    del self._due[number]
                except OSError as error:
                    log.error("worker cannot be started", worker=number, reason=error.strerror)
                    self._due[number] = time.monotonic() + RESTART_SECONDS
            seconds = min(self._due.values(), default=math.inf) - time.monotonic()
            told = signal.sigtimedwait(self._told_by, min(max(seconds, 0), 3600))
            if told and told.si_signo == signal.SIGRTMIN:
                self._note_ready(told.si_pid)
            elif told and told.si_signo == signal.SIGCHLD:
                for number, process in list(self._processes.items()):
                    if process.poll() is not None:
                        self._note_end(number)
                self._reap_strangers()
            elif told and told.si_signo == signal.SIGHUP:
                self._pass_on(signal.SIGHUP, but=told.si_pid)
            elif told:
                self._stop(told.si_signo)
        return self._status

    def _start(self, number: int) -> "subprocess.Popen[bytes]":
        supervisor = os.getpid()

        def prepare() -> None:
            end_with_parent(supervisor, signal.SIGTERM)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._told_by - {signal.SIGHUP})  # which waits for its handler

        return subprocess.Popen(  # noqa: S603 # the interpreter and a module of ours
            [sys.executable, "-m", "service", WORKER_FLAG, str(number), str(supervisor)],
            env=self._environment,
            preexec_fn=prepare,  # here is but one thread
            process_group=0,  # what a terminal tells its processes, it tells this one alone
        )

    def _note_ready(self, pid: int) -> None:
        self._ready |= {number for number, process in self._processes.items() if process.pid == pid}
        if not self._stopping:
            self._due |= dict.fromkeys(self._later, 0.0)
            self._later = set()

    def _note_end(self, number: int) -> None:
        process, was_ready = self._processes.pop(number), number in self._ready
        self._ready.discard(number)
        mark_process_dead(process.pid, self._environment[SHARED_FOLDER_VARIABLE])  # type: ignore[no-untyped-call]
        status = process.returncode if process.returncode >= 0 else 128 - process.returncode  # as a shell says it
        if not was_ready:  # it counted nothing
            for file in Path(self._environment[SHARED_FOLDER_VARIABLE]).glob(f"*_{process.pid}.db"):
                file.unlink()
        if self._stopping:
            unready = process.returncode == -signal.SIGTERM  # told before it could take it
            self._status = max(self._status, 0 if unready else status)
        elif was_ready or self._ready:
            log.error("worker ended, and is started again", worker=number, status=status)
            self._due[number] = time.monotonic() + (0 if was_ready else RESTART_SECONDS)
        else:  # which has said why, unless it was killed
            if process.returncode < 0:
                log.error("worker ended", worker=number, status=status)
            self._status = status
            self._stop(signal.SIGTERM)

    def _stop(self, number: int) -> None:
        self._stopping = True
        self._due = {}
        self._pass_on(number)

    def _pass_on(self, number: int, but: int = 0) -> None:
        for process in self._processes.values():
            if process.pid != but:
                process.send_signal(number)

    def _reap_strangers(self) -> None:
        """Wait for what a worker has left behind, which falls to the first process of a container."""
        ours = {process.pid for process in self._processes.values()}
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, options)) and ended.si_pid not in ours:
                os.waitpid(ended.si_pid, 0)
