"""Settings that a child process asks the Linux kernel for. On other systems nothing is set."""

import ctypes
import os
import signal
import sys

COPIES_PREFIX = "regard-copies-"
"""The beginning of the names of folders with copies of artifacts, before the pid of the process that made them."""
SHARED_COPIES = "models"
"""The folder, inside the one for temporary files, in which workers share copies. Without it nothing is shared."""
SET_PARENT_DEATH_SIGNAL, SET_DUMPABLE, SET_NO_NEW_PRIVILEGES = 1, 4, 38  # options of prctl, by their numbers on Linux


def end_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Ask for a signal to this process when its parent ends; exit with status 1 if the parent has ended already."""
    if sys.platform == "linux":
        prctl(SET_PARENT_DEATH_SIGNAL, number)
    if os.getppid() != parent:  # the parent ended before the signal was asked for
        sys.exit(1)


def forbid_inspection() -> None:
    """Keep other processes of the same user from reading this one's memory; it leaves no core either (prctl(2))."""
    if sys.platform == "linux":
        prctl(SET_DUMPABLE, 0)


def prctl(option: int, value: int, argument: int = 0) -> None:
    """Call `prctl`. Raises OSError."""
    function = ctypes.CDLL(None, use_errno=True).prctl
    function.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    if function(option, value, argument, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
