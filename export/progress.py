"""What an export prints: every step and its seconds, and the largest memory. Steps give memory back to the system.

While a step runs, a thread shows what it does and for how long: on a terminal in a line that it rewrites each second,
elsewhere in a line of its own whenever the step was silent for a while.
"""

import contextlib
import ctypes
import gc
import os
import re
import resource
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

LARGE_BLOCK_BYTES = 1 << 20
"""Blocks of the heap of this size go back to the system when they are freed."""
TOP_BYTES = 32 << 20
"""So much may stay free at the end of the heap. Once the other bound is set, it is 128 KiB by default, and small
tensors would ask the system for the same pages again and again."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h

TICK_SECONDS = 1.0
"""A line on a terminal is rewritten this often."""
SILENT_SECONDS = 15.0
"""Elsewhere, a line tells that a step goes on this often."""
ERASE = "\r\x1b[K"
"""Begins the line of a terminal anew."""

received_signals: list[int] = []
"""Numbers of the signals received. A library may swallow an interrupt; it is then raised at the end of the step."""


verbose = False
"""True to print every comparison of a graph with its definition, and not only the worst."""

_write_lock = threading.Lock()


@dataclass
class Step:
    """A step that runs: its name, what it has found, what it is doing, since when, and where that is shown."""

    line: str
    details: list[str] = field(default_factory=list)
    activity: str = ""
    start: float = field(default_factory=time.perf_counter)
    output: TextIO = field(default_factory=lambda: sys.stdout)
    """As it was at the start: what torch prints while it traces goes elsewhere."""

    def doing(self, what: str) -> None:
        """Say what is being done, such as which shape of how many is verified."""
        self.activity = what

    @property
    def seconds(self) -> float:
        """Seconds since its start."""
        return time.perf_counter() - self.start


@contextlib.contextmanager
def timed_step(line: str) -> Iterator[Step]:
    """Show a step while it runs, and print a line at its end: the details that were appended to it, and its seconds."""
    with _shown(Step(line)) as step:
        yield step
    _write(f"{line:<20} {' '.join(step.details):<46}{step.seconds:>6.1f} s\n")
    trim_heap()


@contextlib.contextmanager
def waiting(line: str) -> Iterator[Step]:
    """Show a step while it runs, but print nothing at its end."""
    with _shown(Step(line)) as step:
        yield step


@contextlib.contextmanager
def _shown(step: Step) -> Iterator[Step]:
    """Show a step while it runs; if it fails, its name stays. Raises KeyboardInterrupt if a signal was swallowed."""
    on_terminal = step.output.isatty() and os.environ.get("TERM") != "dumb"
    ended = threading.Event()
    ticker = threading.Thread(target=_tick, args=(step, ended, on_terminal), name="progress", daemon=True)
    if on_terminal:
        _write(_on_one_line(step.line), step.output)
    ticker.start()
    left = f"{step.line}\n"
    try:
        yield step
        if received_signals:
            raise KeyboardInterrupt
        left = ""
    finally:
        ended.set()
        ticker.join()
        _write((ERASE if on_terminal else "") + left, step.output)


def _tick(step: Step, ended: threading.Event, on_terminal: bool) -> None:
    """Show what a step is doing, until it has ended."""
    while not ended.wait(TICK_SECONDS if on_terminal else SILENT_SECONDS):
        said = f"{step.line:<20} {step.activity:<46}{step.seconds:>4.0f} s"
        with contextlib.suppress(OSError, ValueError):  # nobody reads any more
            _write(_on_one_line(said) if on_terminal else f"{said} so far\n", step.output)


def _on_one_line(text: str) -> str:
    """Return what writes a text over the line of a terminal; a line that wraps could not be rewritten."""
    return ERASE + text[: shutil.get_terminal_size().columns - 1]


def _write(text: str, output: TextIO | None = None) -> None:
    """Write whole, whichever thread writes."""
    output = output or sys.stdout
    with _write_lock:
        output.write(text)
        output.flush()


CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that a terminal obeys; lines may end, and have tabs."""


def harmless(words: str) -> str:
    """Return words that may be of a checkpoint's files, with the characters that a terminal would obey as `\\x1b`."""
    return CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", words)


def say(line: str, since: float | None = None) -> None:
    """Print a line and, if a start is given, the seconds since it."""
    line = harmless(line)
    _write(f"{line}\n" if since is None else f"{line:<67}{time.perf_counter() - since:>6.1f} s\n")


def return_large_blocks() -> None:
    """Tell glibc to take large blocks from the system one by one; no effect on another C library.

    By default it raises this threshold as blocks are freed, and keeps tensors of different sizes in a heap with gaps,
    which takes half as much memory again as the tensors of a run.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, TOP_BYTES)


@contextlib.contextmanager
def collecting_only_new_objects() -> Iterator[None]:
    """Keep the garbage collector from objects that exist already, such as those of torch's modules.

    Tracing makes many objects, so it runs often.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def return_memory() -> None:
    """Free what nothing refers to any more, such as what torch traced, which refers to itself. It takes a while."""
    gc.collect()
    trim_heap()


def trim_heap() -> None:
    """Give free memory back to the system if the C library is glibc."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def peak_bytes() -> int:
    """Return the largest memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
