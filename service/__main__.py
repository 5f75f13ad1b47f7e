"""`python -m service`: reads the settings, then serves in this process, or in several that this one supervises.

Exit status: 0 after a stop, 2 for settings, 3 for an artifact, 4 for the device, 5 if the port cannot be had, 6 if a
model cannot run.
"""

import contextlib
import gc
import os
import signal
import sys
from typing import NoReturn

from service.process import early_stop

LAST_LINES_SECONDS = 2.0
"""How long an end waits for somebody to read the last lines of the log."""


USAGE = """usage: python -m service

Serves until it is stopped. It takes no arguments: settings are environment variables, such as REGARD_PORT=8001, and
docs/settings.md lists them. `regard serve --port 8001` takes the usual ones as options."""

NOT_INSTALLED = """{} is not installed for {}. Where `make serve` has run, start the service with
.venv/bin/python -m service, or by `make serve`, which installs what it needs."""


def main() -> int:
    """Serve until stopped; return the exit status."""
    early_stop.expect()  # before the imports, since the kernel drops a signal that process 1 has no handler for
    try:
        with early_stop.postponed():
            from service.process.workers import current_worker, supervise
            from service.settings import SettingsError, read_settings
            from service.telemetry.logs import OUTPUT, configure
    except ModuleNotFoundError as error:
        print(NOT_INSTALLED.format(error.name, sys.executable), file=sys.stderr)  # noqa: T201 # there is no log yet
        return 2

    worker = current_worker()
    if worker is None and (words := sys.argv[1:]):
        wants_help = words[0] in ("-h", "--help")
        print(USAGE, file=sys.stdout if wants_help else sys.stderr)  # there is no log yet
        return 0 if wants_help else 2
    gc.disable()  # until all models are ready: almost all that is made until then stays
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy computes little here, and its idle threads spin
    if hasattr(signal, "SIGHUP"):  # it stays pending until the models are there, and then reloads them
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        settings = read_settings()
    except SettingsError as error:
        print(f"settings cannot be used:\n{error}", file=sys.stderr)  # noqa: T201 # there is no log yet
        return 2
    configure(settings)
    try:
        if settings.workers > 1 and worker is None:
            gc.enable()
            return supervise(settings)
        with early_stop.postponed():
            from service.process.start import run  # it imports all that serves, which a supervisor does not need

        return run(settings, worker)
    finally:
        OUTPUT.close(LAST_LINES_SECONDS)


def leave(status: int) -> NoReturn:
    """End the process at once: all that it held is given back by now.

    The interpreter's own end takes a while with large models, and a thread that comes back from the runtime meanwhile
    can abort the process.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    leave(main())
