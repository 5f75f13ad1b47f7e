"""The files in which workers count together: prometheus-client maps them into memory.

A file that is only as long as its map has no blocks on the disk yet. If the disk is full when a page of it is first
written, the kernel ends the process with SIGBUS. So the blocks are allocated before the map is used.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prometheus_client.values
import structlog
from prometheus_client.mmap_dict import MmapedDict

if sys.platform != "win32":
    import fcntl

SHARED_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that names, for prometheus-client, the folder in which several processes count together."""
PREFIXES = ("counter", "gauge_livesum", "gauge_livemax", "histogram")
"""How the names of a worker's files begin. A test compares them with what Metrics uses."""
FILE_BYTES = 1 << 20
"""Bytes of each file at the start. It has room for some thousand time series; a file that is full doubles."""
LOCK = "metrics.lock"
"""The file that is locked while the others are read, or change."""
ENDED = "ended"
"""Stands for a process's number in the names of the files that count for all that have ended."""
MOST_ENTRY_OVERHEAD = 32
"""Bytes of an entry besides its name: a length, padding, a value and a time."""
log = structlog.get_logger()


class AllocatedFile(MmapedDict):
    """A file of metrics whose blocks exist. Time series for which there is no room are not counted."""

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        if not read_mode:
            allocate(Path(filename))
        super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]
        self._told = False

    def read_value(self, key: str) -> Any:  # noqa: ANN401 # not typed there either
        """Return the value and the time of a time series, zeros if it is new."""
        return super().read_value(key) if self._has_room(key) else (0.0, 0.0)  # type: ignore[no-untyped-call]

    def write_value(self, key: str, value: float, timestamp: float) -> None:
        """Set the value and the time of a time series."""
        if self._has_room(key):
            super().write_value(key, value, timestamp)  # type: ignore[no-untyped-call]

    def _has_room(self, key: str) -> bool:
        """True if a time series is in the file, or fits into it once it has doubled."""
        if key in self._positions:
            return True
        needed, size = self._used + len(key.encode()) + MOST_ENTRY_OVERHEAD, self._capacity
        while size < needed:
            size *= 2
        try:
            if size > self._capacity:
                os.posix_fallocate(self._f.fileno(), 0, size)
        except OSError as error:
            if not self._told:
                log.error("metrics are not counted, there is no room for them", reason=error.strerror)
            self._told = True
            return False
        return True


def allocate(file: Path) -> None:
    """Make a file of FILE_BYTES whose blocks exist, unless it exists. Raises OSError if there is no room."""
    if file.exists():
        return
    new = file.with_suffix(".new")  # whoever reads all files must not find one without content
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, FILE_BYTES)
        new.rename(file)
    except OSError:
        new.unlink()
        raise
    finally:
        os.close(descriptor)


def allocate_all(folder: Path) -> None:
    """Make the files of this process, and let prometheus-client allocate whatever else it makes.

    Raises ValueError if there is no room.
    """
    prometheus_client.values.MmapedDict = AllocatedFile  # type: ignore[attr-defined] # it offers no other way
    try:
        for prefix in PREFIXES:
            allocate(folder / f"{prefix}_{os.getpid()}.db")
    except OSError as error:
        raise ValueError(f"TMPDIR: what workers share cannot be kept there: {error.strerror}") from error


def reading(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Keep the files as they are while they are read."""
    return _locked(folder, fcntl.LOCK_SH)


@contextlib.contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def release(folder: Path, pid: int, *, counted: bool) -> None:
    """Remove the files of a process that has ended; add what it has `counted` to the files of all that have ended.

    Raises BlockingIOError, and does nothing, while somebody reads the files.
    """
    with _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
        for file in folder.glob(f"*_{pid}.*"):
            if counted and file.suffix == ".db" and not file.name.startswith("gauge"):
                try:
                    _add(file, file.with_name(f"{file.name.partition('_')[0]}_{ENDED}.db"))
                except OSError as error:
                    log.error("metrics of an ended worker keep their file", reason=error.strerror)
                    continue
            file.unlink()


def _add(file: Path, total: Path) -> None:
    """Add the values of a file of counters or histograms to those of another. Raises OSError without room for that."""
    added = AllocatedFile(str(total))
    for key, value, *_ in MmapedDict.read_all_values_from_file(file):  # type: ignore[no-untyped-call]
        added.write_value(key, added.read_value(key)[0] + value, 0.0)
    added.close()  # type: ignore[no-untyped-call]
