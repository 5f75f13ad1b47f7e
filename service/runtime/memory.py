"""Memory that the process holds and does not use: when it has grown, and how the heap gives it back to the system."""

import contextlib
import ctypes
import os
import sys
import time
from pathlib import Path

GROWTH_BYTES = 32 << 20
"""Memory is given back once so much more is resident than after the last time. Light runs need less."""
PAUSE_SECONDS = 5.0
"""The least time between two givings back: the kernel must clear memory again before the process gets it back."""
LARGE_BLOCK_BYTES = 4 << 20
"""Blocks of the heap of this size go back to the system when they are freed."""
M_MMAP_THRESHOLD = -3  # malloc.h


def return_large_blocks() -> None:
    """Tell glibc to take large blocks from the system one by one; no effect on another C library.

    By default glibc raises this threshold, up to 32 MiB, after blocks of that size were freed. Pillow's blocks of 16
    MiB would then stay in the heap, hundreds of MiB of them.
    """
    if mallopt := getattr(_libc(), "mallopt", None):
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def trim_heap() -> None:
    """Give the free memory of the heap back to the system; no effect on a C library other than glibc."""
    if trim := getattr(_libc(), "malloc_trim", None):
        trim(0)


def resident_bytes() -> int:
    """Return the bytes of memory that this process holds; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class Growth:
    """Tells when memory has grown so much that some should be given back."""

    def __init__(self) -> None:
        self._before = resident_bytes()
        self._since = time.monotonic()

    @property
    def is_large(self) -> bool:
        """True if GROWTH_BYTES more are held than after the last time, and the last try was PAUSE_SECONDS ago."""
        return time.monotonic() - self._since >= PAUSE_SECONDS and resident_bytes() - self._before >= GROWTH_BYTES

    def reset(self) -> None:
        """Compare with what is held now from now on: memory was given back, and the rest is in use."""
        self._before = resident_bytes()
        self.pause()

    def pause(self) -> None:
        """Do not call growth large for PAUSE_SECONDS."""
        self._since = time.monotonic()


def _libc() -> ctypes.CDLL | None:
    with contextlib.suppress(OSError):
        return ctypes.CDLL("libc.so.6") if sys.platform == "linux" else None
    return None
