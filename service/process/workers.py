"""Workers: processes that serve one port together, for models that take less time than HTTP does.

Each worker is a whole service with its own models. It listens (`SO_REUSEPORT`, on Linux) once its models have run; from
then on the kernel distributes connections to it. The supervisor starts workers, forwards signals, and restarts workers
that end. The workers share a folder with the stored requests and the metrics.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

from service.child_processes import COPIES_PREFIX, end_with_parent
from service.process.private_folder import cannot_write, private_folder
from service.process.sockets import PORTS, bind, cannot_bind
from service.settings import PREFIX, Settings
from service.telemetry.logs import OUTPUT
from service.telemetry.metric_files import SHARED_FOLDER_VARIABLE, release

WORKER_FLAG = "--worker"
"""The argument of a worker's process. Its number and the pid of the supervisor follow."""
RESTART_SECONDS = 5.0
"""Pause before a worker that ended before it was ready is started again."""
FIRST_SIGNAL: int = getattr(signal, "SIGRTMIN", 0)  # there are no workers where it does not exist
READY, RELOAD, ALIVE = FIRST_SIGNAL, FIRST_SIGNAL + 1, FIRST_SIGNAL + 2
"""What workers tell the supervisor. Signals of these numbers queue. Two SIGHUPs from one sender could become one."""
LOOK_SECONDS = 1.0
MOST_SILENT_LOOKS = 20
"""A worker that was ready is killed after this many looks without a signal from it. Looks are counted, not seconds,
because the supervisor may have been stopped together with its workers."""
log = structlog.get_logger()


@dataclass(frozen=True)
class Worker:
    """What a worker knows of itself."""

    number: int
    supervisor: int
    """The pid of the supervisor."""
    folder: Path
    """The folder that it shares with the other workers."""

    def tell_ready(self) -> None:
        """Tell the supervisor that this worker serves."""
        with contextlib.suppress(BlockingIOError):  # the user's queue of signals is full: told by the next ALIVE
            self._tell(READY)

    def tell_reload(self) -> None:
        """Ask the supervisor to tell the other workers to reload."""
        self._tell(RELOAD)

    def tell_alive(self) -> None:
        """Tell the supervisor that this worker's event loop runs."""
        with contextlib.suppress(BlockingIOError):
            self._tell(ALIVE)

    def _tell(self, number: int) -> None:
        if os.getppid() == self.supervisor:  # otherwise the supervisor has ended, and this worker ends too
            os.kill(self.supervisor, number)


def current_worker() -> Worker | None:
    """Return the worker that this process is, or None if it is not a worker."""
    if sys.argv[1:2] != [WORKER_FLAG]:
        return None
    return Worker(int(sys.argv[2]), int(sys.argv[3]), Path(os.environ[SHARED_FOLDER_VARIABLE]))


def supervise(settings: Settings) -> int:
    """Keep the workers of the settings running until told to stop; return the exit status.

    Sockets that are bound here and never listen reserve the ports, so that a free port that was chosen here is the same
    for all workers.
    """
    log.info("settings", **settings.model_dump(mode="json", exclude_defaults=True))
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(private_folder())
        except OSError as error:
            return cannot_write(error)
        environment = os.environ | {SHARED_FOLDER_VARIABLE: str(folder)}
        for name in PORTS:
            if (port := getattr(settings, name)) is None:
                continue
            try:
                bind(settings.host, port).close()  # not shared, so that it fails if any other process listens
                reserved = stack.enter_context(bind(settings.host, port, shared=True))
            except OSError as error:
                return cannot_bind(settings.host, port, name, error)
            environment[f"{PREFIX}{name}".upper()] = str(reserved.getsockname()[1])
        return Workers(settings.workers, environment).run()


class Workers:
    """The supervisor of the worker processes. It needs a process of one thread that does nothing else."""

    def __init__(self, count: int, environment: dict[str, str]) -> None:
        self._environment = environment
        self._signals = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, READY, RELOAD, ALIVE}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._ready: set[int] = set()
        self._silent_looks: dict[int, int] = {}
        """Looks since a worker that is ready last told that it is alive, by number."""
        self._look_at = time.monotonic()
        self._start_at = {0: 0.0}
        """The times (monotonic) at which workers that are not running are to be started, by number."""
        self._held_back = set(range(1, count))
        """Workers that are started once one is ready, so that an error of all of them is logged once."""
        self._unreleased: dict[int, bool] = {}
        """The processes that have ended and whose metrics are still to be released: whether they were ready, since
        before that they count nothing."""
        self._stopping = False
        self._status = 0

    def run(self) -> int:
        """Run until told to stop, or until no worker can start; return the highest of their exit statuses."""
        signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        while self._processes or self._start_at:
            for number in [number for number, due in self._start_at.items() if due <= time.monotonic()]:
                try:
                    self._processes[number] = self._start(number)
                    del self._start_at[number]
                except OSError as error:
                    log.error("worker cannot be started", worker=number, reason=error.strerror)
                    self._start_at[number] = time.monotonic() + RESTART_SECONDS
            if self._look_at <= time.monotonic():
                self._look()
            seconds = min([self._look_at, *self._start_at.values()]) - time.monotonic()
            received = signal.sigtimedwait(self._signals, max(seconds, 0))
            if received and received.si_signo == READY:
                self._note_ready(received.si_pid)
            elif received and received.si_signo == ALIVE:
                self._note_ready(received.si_pid)
                self._silent_looks |= dict.fromkeys(self._numbers(received.si_pid), 0)
            elif received and received.si_signo == signal.SIGCHLD:
                while told := signal.sigtimedwait({READY}, 0):  # sent before, and given later, as the higher number
                    self._note_ready(told.si_pid)
                for number, process in list(self._processes.items()):
                    if process.poll() is not None:
                        self._note_end(number)
                self._reap_orphans()
            elif received and received.si_signo == signal.SIGHUP:
                self._forward(signal.SIGHUP)
            elif received and received.si_signo == RELOAD:
                self._forward(signal.SIGHUP, except_pid=received.si_pid)
            elif received and received.si_signo in (signal.SIGTERM, signal.SIGINT):
                self._stop(received.si_signo)  # Python returns any number after SIGCONT, if the time was over by then
        return self._status

    def _start(self, number: int) -> "subprocess.Popen[bytes]":
        supervisor = os.getpid()

        def prepare() -> None:
            end_with_parent(supervisor, signal.SIGTERM)
            # SIGHUP stays blocked until the worker has its handler
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._signals - {signal.SIGHUP})

        return subprocess.Popen(  # noqa: S603 # the interpreter and a module of ours
            [sys.executable, "-m", "service", WORKER_FLAG, str(number), str(supervisor)],
            env=self._environment,
            preexec_fn=prepare,  # safe, since this process has one thread
            process_group=0,  # only the supervisor gets the terminal's signals, and forwards them
        )

    def _look(self) -> None:
        """Count a look at every worker that has been ready, and kill those that have been silent for too many."""
        OUTPUT.flush()
        self._release()
        self._look_at = time.monotonic() + LOOK_SECONDS
        for number in self._silent_looks:
            self._silent_looks[number] += 1
            if self._silent_looks[number] > MOST_SILENT_LOOKS:
                log.error("worker is silent, and is killed", worker=number, seconds=MOST_SILENT_LOOKS * LOOK_SECONDS)
                self._processes[number].kill()

    def _release(self) -> None:
        """Release the metrics of workers that have ended, or try again later if somebody just reads them."""
        for pid, counted in list(self._unreleased.items()):
            try:
                release(Path(self._environment[SHARED_FOLDER_VARIABLE]), pid, counted=counted)
            except BlockingIOError:
                continue
            except Exception:  # whatever is wrong with a file, it ends no worker
                log.exception("metrics of an ended worker are not counted")
            del self._unreleased[pid]

    def _numbers(self, pid: int) -> list[int]:
        """Return the number of the worker of a process, or nothing if it has ended."""
        return [number for number, process in self._processes.items() if process.pid == pid]

    def _note_ready(self, pid: int) -> None:
        self._ready |= set(self._numbers(pid))
        if not self._stopping:
            self._start_at |= dict.fromkeys(self._held_back, 0.0)
            self._held_back = set()

    def _note_end(self, number: int) -> None:
        process, was_ready = self._processes.pop(number), number in self._ready
        self._ready.discard(number)
        self._silent_looks.pop(number, None)
        self._unreleased[process.pid] = was_ready
        self._release()
        for left in Path(self._environment[SHARED_FOLDER_VARIABLE]).glob(f"{COPIES_PREFIX}{process.pid}-*"):
            shutil.rmtree(left, ignore_errors=True)  # copies of artifacts, if it was killed while it loaded them
        # a signal is reported as a shell does
        status = process.returncode if process.returncode >= 0 else 128 - process.returncode
        if self._stopping:
            ended_unready = process.returncode == -signal.SIGTERM  # the signal came before it had its handler
            self._status = max(self._status, 0 if ended_unready else status)
        elif was_ready or self._ready:
            log.error("worker ended, and is started again", worker=number, status=status)
            self._start_at[number] = time.monotonic() + (0 if was_ready else RESTART_SECONDS)
        else:  # it has logged why, unless it was killed
            if process.returncode < 0:
                log.error("worker ended", worker=number, status=status)
            self._status = status
            self._stop(signal.SIGTERM)

    def _stop(self, number: int) -> None:
        self._stopping = True
        self._start_at = {}
        self._forward(number)

    def _forward(self, number: int, except_pid: int = 0) -> None:
        for process in self._processes.values():
            if process.pid != except_pid:
                process.send_signal(number)

    def _reap_orphans(self) -> None:
        """Wait for processes that workers left behind; in a container they become children of the first process."""
        workers = {process.pid for process in self._processes.values()}
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, options)) and ended.si_pid not in workers:
                os.waitpid(ended.si_pid, 0)
