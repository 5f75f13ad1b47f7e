"""Writing lines to standard output without ever waiting for whoever reads it.

A pipe that nobody reads is full after 64 KiB, and a write to it waits for ever: it would stop the event loop, and with
it health and SIGTERM. So standard output does not block. What cannot be written yet waits in a bounded backlog; lines
beyond it are dropped and counted. There is no thread, since processes of the service fork.
"""

import contextlib
import os
import select
import stat
import threading
import time
from collections import deque
from collections.abc import Callable

MOST_WAITING_BYTES = 1 << 20
"""Bytes of lines that wait until they can be written; further lines are dropped."""
STANDARD_OUTPUT, STANDARD_ERROR = 1, 2


class LogOutput:
    """Lines on a file descriptor that does not block.

    When a line can be written again after others were dropped, `describe_dropped` makes a line that says how many. If
    nobody can ever read the output (it is closed, its disk is full), lines are dropped too; nothing fails.
    """

    def __init__(self, descriptor: int, describe_dropped: Callable[[int], str] = "{} lines dropped\n".format) -> None:
        self._descriptor = descriptor
        self.describe_dropped = describe_dropped
        self._waiting: deque[tuple[bytes, int]] = deque()
        """Lines, oldest first; with each, the number of dropped lines that it tells of."""
        self._waiting_bytes = 0
        self._untold = 0
        """Lines dropped since the last line that told of them."""
        self.dropped = 0
        """Lines dropped so far."""
        self._lock = threading.RLock()
        self._writing = False
        """True while a thread holds the lock and writes; only that thread can see it."""
        self._interrupting: deque[bytes] = deque()
        """Lines of that thread that came while it wrote, such as from the garbage collector or a signal handler."""
        os.register_at_fork(after_in_child=self._forget)

    def write(self, text: str) -> None:
        """Write whole lines, now or later, or drop them."""
        lines = text.encode("utf-8", "backslashreplace")
        with self._lock:
            if self._writing:
                self._interrupting.append(lines)
                return
            self._writing = True
            try:
                self._send()
                self._add(lines)
                while self._interrupting:
                    self._add(self._interrupting.popleft())
            finally:
                self._writing = False

    def flush(self) -> None:
        """Write what waits, as far as that is possible now."""
        if self._waiting or self._untold or self._interrupting:
            self.write("")

    def close(self, seconds: float) -> None:
        """Write what waits, for at most some seconds."""
        give_up = time.monotonic() + seconds
        self.flush()
        while self._waiting and (left := give_up - time.monotonic()) > 0:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLOUT)
            poll.poll(left * 1000)
            self.flush()

    def _add(self, lines: bytes) -> None:
        if self._untold and not self._waiting:
            told, self._untold = self._untold, 0
            self._append(self.describe_dropped(told).encode(), told)
        if not lines:
            return
        if self._untold or self._waiting_bytes + len(lines) > MOST_WAITING_BYTES:
            self.dropped += 1
            self._untold += 1
        else:
            self._append(lines)

    def _append(self, lines: bytes, told: int = 0) -> None:
        self._waiting.append((lines, told))
        self._waiting_bytes += len(lines)
        self._send()

    def _send(self) -> None:
        """Write as much as can be written now. A line that was begun stays the first until its last byte is written."""
        while self._waiting:
            lines, told = self._waiting[0]
            try:
                written = os.write(self._descriptor, lines)
            except BlockingIOError:
                return
            except OSError:  # nobody can read it, or the disk is full
                written = len(lines)
                self.dropped += not told
                self._untold += told or 1
            self._waiting_bytes -= written
            if written < len(lines):
                self._waiting[0] = lines[written:], told
            else:
                self._waiting.popleft()

    def _forget(self) -> None:
        """Leave to the parent process what waits there."""
        self._lock, self._writing = threading.RLock(), False
        self._waiting, self._waiting_bytes, self._untold = deque(), 0, 0


def never_block(descriptor: int) -> None:
    """Make a descriptor of a pipe, a terminal or a socket one that does not block; regular files never block for long.

    Others may share what it refers to, such as the shell that owns the terminal. So a pipe or terminal is opened once
    more where the system allows it (Linux). Otherwise the mode of a pipe or socket is changed for all who share it, and
    a terminal is left as it is. A descriptor that is closed becomes one of /dev/null, so that no other file gets its
    number.
    """
    try:
        kind = os.fstat(descriptor).st_mode
    except OSError:
        while (null := os.open(os.devnull, os.O_RDWR)) < descriptor:  # the lowest that is closed, until it is this one
            os.set_inheritable(null, True)
        os.set_inheritable(null, True)
        return
    terminal = os.isatty(descriptor)
    pipe = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
    if not (terminal or pipe) or not os.get_blocking(descriptor):
        return
    with contextlib.suppress(OSError):  # a socket cannot be opened, nor can what another user owns
        mode = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
        again = os.open(f"/proc/self/fd/{descriptor}", mode)
        os.dup2(again, descriptor)
        os.close(again)
        return
    if pipe:
        os.set_blocking(descriptor, False)
