"""A stop that is asked for before there is a server to stop: the process ends with status 0, and removes what it wrote.

Python drops what a signal's handler raises if the signal comes while a callback of a fork runs, and prints it. An
extension module that is being imported makes an ImportError of it. So a stop waits until either has ended.
"""

import contextlib
import signal
import sys
from collections.abc import Iterator

_asked = False
_waits = False
"""True while a stop is only noted."""


def expect() -> None:
    """Let SIGTERM and SIGINT end this process."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)


@contextlib.contextmanager
def postponed() -> Iterator[None]:
    """Let a stop wait until the block, which imports or forks, has ended."""
    global _waits
    _waits = True
    try:
        yield
    finally:
        _waits = False
    end_if_asked()


def end_if_asked() -> None:
    """Raise SystemExit if a stop was asked for."""
    if _asked:
        sys.exit(0)


def _end(*_: object) -> None:
    global _asked
    _asked = True
    if not _waits:
        sys.exit(0)
