"""Processes: what is asked of the kernel for a child, on Linux; elsewhere nothing is."""

import ctypes
import os
import signal
import sys

SET_PARENT_DEATH_SIGNAL, SET_NO_NEW_PRIVILEGES = 1, 38  # of prctl, as Linux numbers them


def end_with(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have this process sent a signal when its parent ends."""
    if sys.platform == "linux":
        control(SET_PARENT_DEATH_SIGNAL, number)
    if os.getppid() != parent:  # it ended before that
        sys.exit(1)


def control(option: int, value: int) -> None:
    """Call `prctl`. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
