"""The start of the service: the folder for temporary files, before all that serves is imported."""

import contextlib
import os
import tempfile

from service.child_processes import SHARED_COPIES
from service.process.early_stop import postponed
from service.process.memory_limit import warn_of_little_memory
from service.process.open_files import allow_open_files
from service.process.private_folder import cannot_write, private_folder
from service.process.workers import Worker
from service.settings import Settings
from service.telemetry.logs import OUTPUT


def run(settings: Settings, worker: Worker | None = None) -> int:
    """Serve until stopped; return the exit status."""
    first = worker is None or worker.number == 0
    if first:
        warn_of_little_memory()
    allow_open_files(settings, warns=first)
    with contextlib.ExitStack() as held:
        try:
            folder = worker.folder if worker else held.enter_context(private_folder())
            if worker:
                (folder / SHARED_COPIES).mkdir(exist_ok=True)
        except OSError as error:
            return cannot_write(error)
        tempfile.tempdir = str(folder)
        with postponed():
            from service.process.serving import load_and_serve

        status, at_once = load_and_serve(settings, worker)
    if at_once:
        OUTPUT.close(seconds=0.1)
        os._exit(status)  # an orderly stop would wait longer for who reads the last lines
    return status
