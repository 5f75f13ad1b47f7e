"""What an export prints: every step and its seconds, and the largest memory. Steps give memory back to the system."""

import contextlib
import ctypes
import gc
import resource
import sys
import time
from collections.abc import Iterator

LARGE_BLOCK_BYTES = 4 << 20
"""Blocks of the heap of this size go back to the system when they are freed."""
TOP_BYTES = 32 << 20
"""So much may stay free at the end of the heap. Once the other bound is set, it is 128 KiB by default, and small
tensors would ask the system for the same pages again and again."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h

received_signals: list[int] = []
"""Numbers of the signals received. A library may swallow an interrupt; it is then raised at the end of the step."""


@contextlib.contextmanager
def timed_step(line: str) -> Iterator[list[str]]:
    """Print a line when a step begins, and at its end the details that were appended to the list, and its seconds."""
    start = time.perf_counter()
    print(f"{line:<20}", end=" ", flush=True)
    details: list[str] = []
    try:
        yield details
        if received_signals:
            raise KeyboardInterrupt
    except BaseException:
        print(flush=True)
        raise
    print(f"{' '.join(details):<46}{time.perf_counter() - start:>6.1f} s", flush=True)
    _trim_heap()


def say(line: str, since: float | None = None) -> None:
    """Print a line and, if a start is given, the seconds since it."""
    print(line if since is None else f"{line:<67}{time.perf_counter() - since:>6.1f} s", flush=True)


def return_large_blocks() -> None:
    """Tell glibc to take large blocks from the system one by one; no effect on another C library.

    By default it raises this threshold as blocks are freed, and keeps tensors of different sizes in a heap with gaps,
    which takes half as much memory again as the tensors of a run.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, TOP_BYTES)


def return_memory() -> None:
    """Free what nothing refers to any more, such as what torch traced, which refers to itself. It takes a while."""
    gc.collect()
    _trim_heap()


def _trim_heap() -> None:
    """Give free memory back to the system if the C library is glibc."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def peak_bytes() -> int:
    """Return the largest memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
