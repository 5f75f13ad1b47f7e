"""TODO: what service/store/shared_file_store.py is."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

from service.errors import NotReady
from service.store.stored_request import CLIENTS_ID, StoredRequest, _check, pack, unpack

log = structlog.get_logger()


class SharedFileStore:
    """Keeps in a file that the workers of one service share, bounded as MemoryStore is; not for other machines.

    What is held is added up as it comes and goes. A put that finds the file locked for too long keeps nothing. Raises
    ValueError for a file that cannot be had.
    """

    SCHEMA = """
        PRAGMA journal_mode = WAL;
        PRAGMA journal_size_limit = 4194304;
        PRAGMA synchronous = OFF;
        CREATE TABLE IF NOT EXISTS kept (id TEXT PRIMARY KEY, until REAL, size INTEGER, packed BLOB);
        CREATE INDEX IF NOT EXISTS oldest ON kept (until);
        CREATE TABLE IF NOT EXISTS held (one INTEGER PRIMARY KEY, count INTEGER, size INTEGER);
        INSERT OR IGNORE INTO held VALUES (1, 0, 0);
        CREATE TRIGGER IF NOT EXISTS came AFTER INSERT ON kept
            BEGIN UPDATE held SET count = count + 1, size = size + new.size; END;
        CREATE TRIGGER IF NOT EXISTS went AFTER DELETE ON kept
            BEGIN UPDATE held SET count = count - 1, size = size - old.size; END;
    """
    SECONDS = 0.5

    def __init__(
        self, file: Path | str, count: int, size: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._count = count
        self._limit = size
        self._seconds = seconds
        self._clock = clock  # all processes of a machine read the same
        try:
            self._file = sqlite3.connect(file, timeout=self.SECONDS, isolation_level=None, check_same_thread=False)
            self._file.executescript(self.SCHEMA)
        except sqlite3.Error as error:
            raise ValueError(f"TMPDIR: what workers share cannot be kept there: {error}") from error
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keep")

    async def put(self, id: str, kept: StoredRequest) -> None:  # noqa: A002 # the word of the API
        """Keep a request; a failure is logged. Raises ValueError for what is no id."""
        _check(id)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._put, id, kept)

    async def get(self, id: str) -> StoredRequest | None:  # noqa: A002 # the word of the API
        """Return a request, or None if it never was or is no longer kept. Raises NotReady for want of the file."""
        if not CLIENTS_ID.fullmatch(id):
            return None
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._get, id)

    async def close(self) -> None:
        """Let go of the file, which goes with the workers."""
        self._thread.shutdown()
        self._file.close()

    def _put(self, id: str, kept: StoredRequest) -> None:  # noqa: A002 # the word of the API
        packed = pack(kept)
        try:
            self._file.execute("BEGIN IMMEDIATE")
            with self._file:  # commits, or rolls back
                now = self._clock()
                self._file.execute("DELETE FROM kept WHERE id = ? OR until <= ?", (id, now))
                if not self._count or len(packed) > self._limit:
                    return
                while not self._has_room(len(packed)):
                    self._file.execute("DELETE FROM kept WHERE rowid = (SELECT rowid FROM kept ORDER BY until, rowid)")
                row = (id, now + self._seconds, len(packed), packed)
                self._file.execute("INSERT INTO kept VALUES (?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            log.warning("request is not kept", reason=str(error))

    def _get(self, id: str) -> StoredRequest | None:  # noqa: A002 # the word of the API
        try:
            select = "SELECT packed FROM kept WHERE id = ? AND until > ?"
            found = self._file.execute(select, (id, self._clock())).fetchone()
        except sqlite3.Error as error:
            log.warning("kept requests cannot be read", reason=str(error))
            raise NotReady("id: what it stands for is kept in a file that cannot be read", seconds=5) from None
        return unpack(found[0]) if found else None

    def _has_room(self, size: int) -> bool:
        count, held = self._file.execute("SELECT count, size FROM held").fetchone()
        return bool(count < self._count and held + size <= self._limit)
