"""A stop that is asked for before there is a server to stop: the process ends with status 0, and removes what it wrote.

Python drops what a signal's handler raises if the signal comes while a callback of a fork runs, so the stop is noted
too, and `end_if_asked` is called where a process has forked.
"""

import signal
import sys

_asked = False


def expect() -> None:
    """Let SIGTERM and SIGINT end this process."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)


def end_if_asked() -> None:
    """Raise SystemExit if a stop was asked for."""
    if _asked:
        sys.exit(0)


def _end(*_: object) -> None:
    global _asked
    _asked = True
    sys.exit(0)
