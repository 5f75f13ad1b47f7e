"""The store in a file, for several workers on one machine."""

import asyncio
import math
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

from service.errors import NotReady
from service.store.stored_request import ID_PATTERN, StoredRequest, entry_name, pack, unpack

QUIET_SECONDS = 10.0
"""The least time between two log lines about the same failure."""
log = structlog.get_logger()


class SharedFileStore:
    """Holds requests in an SQLite file that the workers of one service share, with the limits of MemoryStore.

    Triggers count the requests and add up their bytes. A put stores nothing if it finds the file locked for longer than
    LOCK_SECONDS, or the disk full. Its caller waits for LOCK_SECONDS at most, also where others go first; once one has
    waited in vain, puts are left out until all that wait have ended. (SQLite maps the index of its log, `-shm`, but
    writes every page of it before: a full disk is an error and no SIGBUS.) Raises ValueError if the file cannot be
    used.
    """

    SCHEMA = """
        PRAGMA journal_mode = WAL;
        PRAGMA journal_size_limit = 4194304;
        PRAGMA synchronous = OFF;
        CREATE TABLE IF NOT EXISTS requests (name TEXT PRIMARY KEY, until REAL, size INTEGER, packed BLOB);
        CREATE INDEX IF NOT EXISTS oldest ON requests (until);
        CREATE TABLE IF NOT EXISTS totals (one INTEGER PRIMARY KEY, count INTEGER, size INTEGER);
        INSERT OR IGNORE INTO totals VALUES (1, 0, 0);
        CREATE TRIGGER IF NOT EXISTS inserted AFTER INSERT ON requests
            BEGIN UPDATE totals SET count = count + 1, size = size + new.size; END;
        CREATE TRIGGER IF NOT EXISTS deleted AFTER DELETE ON requests
            BEGIN UPDATE totals SET count = count - 1, size = size - old.size; END;
    """
    LOCK_SECONDS = 0.5

    def __init__(
        self, file: Path | str, count: int, size: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._count = count
        self._limit = size
        self._seconds = seconds
        self._quiet_until: dict[str, float] = {}
        self._clock = clock  # the monotonic clock is the same in all processes of a machine
        try:
            self._file = sqlite3.connect(file, timeout=self.LOCK_SECONDS, isolation_level=None, check_same_thread=False)
            self._file.executescript(self.SCHEMA)
        except sqlite3.Error as error:
            raise ValueError(f"TMPDIR: what workers share cannot be kept there: {error}") from error
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._puts: set[asyncio.Future[None]] = set()
        """The puts that have not ended."""
        self._late = False
        """True from the moment a caller waited in vain until no put is left."""

    async def put(self, id: str, owner: str | None, request: StoredRequest) -> None:  # noqa: A002 # the word of the API
        """Store a request. A failure is logged. Raises ValueError if the id is malformed."""
        name = entry_name(id, owner)
        self._late = self._late and bool(self._puts)
        if self._late:  # another worker holds the file: this one answers all the same
            self._warn("request is not kept", "the file is busy")
            return
        put = asyncio.get_running_loop().run_in_executor(self._thread, self._put, name, request)
        self._puts.add(put)
        put.add_done_callback(self._puts.discard)
        done, _ = await asyncio.wait({put}, timeout=self.LOCK_SECONDS)
        if done:
            put.result()
        else:
            self._late = True

    async def get(self, id: str, owner: str | None) -> StoredRequest | None:  # noqa: A002 # the word of the API
        """Return a request, or None if this owner has none of this id, or no longer.

        Raises NotReady if the file cannot be read.
        """
        if not ID_PATTERN.fullmatch(id):
            return None
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._get, entry_name(id, owner))

    async def close(self) -> None:
        """Close the file. The supervisor removes it after the workers have ended."""
        self._thread.shutdown()
        self._file.close()

    def _put(self, name: str, request: StoredRequest) -> None:
        packed = pack(request)
        try:
            self._file.execute("BEGIN IMMEDIATE")
            with self._file:  # commits, or rolls back
                now = self._clock()
                self._file.execute("DELETE FROM requests WHERE name = ? OR until <= ?", (name, now))
                if not self._count or len(packed) > self._limit:
                    return
                while not self._has_room(len(packed)):
                    self._file.execute(
                        "DELETE FROM requests WHERE rowid = (SELECT rowid FROM requests ORDER BY until, rowid)"
                    )
                row = (name, now + self._seconds, len(packed), packed)
                self._file.execute("INSERT INTO requests VALUES (?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            self._warn("request is not kept", str(error))

    def _get(self, name: str) -> StoredRequest | None:
        try:
            select = "SELECT packed FROM requests WHERE name = ? AND until > ?"
            found = self._file.execute(select, (name, self._clock())).fetchone()
        except sqlite3.Error as error:
            self._warn("kept requests cannot be read", str(error))
            raise NotReady("id: what it stands for is kept in a file that cannot be read", seconds=5) from None
        return unpack(found[0]) if found else None

    def _warn(self, event: str, reason: str) -> None:
        """Log a failure, unless one like it was logged of late: a full disk fails every request."""
        now = time.monotonic()
        if now >= self._quiet_until.get(event, -math.inf):
            self._quiet_until[event] = now + QUIET_SECONDS
            log.warning(event, reason=reason)

    def _has_room(self, size: int) -> bool:
        count, total = self._file.execute("SELECT count, size FROM totals").fetchone()
        return bool(count < self._count and total + size <= self._limit)
