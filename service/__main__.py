"""`python -m service`: read the settings, then serve in this process, or in several that this one looks after.

Exit status: 0 after a stop, 2 for settings, 3 for an artifact, 4 for the device, 5 if the port cannot be had, 6 if a
model cannot run.
"""

import os
import signal
import sys

from service.process.workers import supervise, this
from service.settings import SettingsError, read_settings
from service.telemetry.logs import configure


def main() -> int:
    """Serve until stopped; return the exit status."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))  # until there is a server to stop, nothing is lost by it
    worker = this()
    if hasattr(signal, "SIGHUP") and worker is None:  # for a worker it waits
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        settings = read_settings()
    except SettingsError as error:
        print(f"settings cannot be used:\n{error}", file=sys.stderr)  # noqa: T201 # there is no log yet
        return 2
    configure(settings)
    if settings.workers > 1 and worker is None:
        return supervise(settings)
    from service.process.start import run  # imports all that serves, which who looks after workers does without

    return run(settings, worker)


if __name__ == "__main__":
    sys.exit(main())
