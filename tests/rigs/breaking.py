"""`python -m service` that breaks when told: SIGUSR1 ends the device's thread, after SIGUSR2 the next run panics."""

import ctypes
import signal
import sys
import threading
from typing import Any

from service import __main__ as service
from service.runtime.session import Session


class Panic(BaseException):
    """What a library in Rust raises: no Exception."""


def breakable() -> None:
    """Let signals break things."""
    run, panics = Session.run, threading.Event()

    def panicking(session: Session, *given: Any) -> Any:
        if panics.is_set():
            panics.clear()
            raise Panic
        return run(session, *given)

    def end_thread(*_: object) -> None:
        for thread in threading.enumerate():
            if thread.name.startswith("device") and thread.ident:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))

    Session.run = panicking  # type: ignore[method-assign] # that is the point
    signal.signal(signal.SIGUSR1, end_thread)
    signal.signal(signal.SIGUSR2, lambda *_: panics.set())


if __name__ == "__main__":
    breakable()
    sys.exit(service.main())
