"""Keep: what an answered request was about, for a while, so that attention can be asked for by its id."""

import asyncio
import contextlib
import io
import math
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeAlias

import orjson
import structlog
from pydantic import BaseModel, ConfigDict, Field

from service.http.middleware import CLIENTS_ID
from service.errors import NotReady
from service.settings import Settings
from service.inputs.texts import Pair, Text

log = structlog.get_logger()

FORMAT: Literal[1] = 1
"""What is written and read; raise it with every change that another version of the service would misread."""
UTF8 = ("utf-8", "surrogatepass")
"""Texts are kept as they were read, whatever they hold."""
QUIET_SECONDS = 10.0
"""Between two log lines about a server that fails."""
CONNECTIONS = 16
"""At most so many to Redis; a request waits for one."""


@dataclass(frozen=True)
class Kept:
    """What an answered request was about: enough to run it again."""

    model: str
    version: str
    inputs: tuple[bytes | Text, ...]
    """Encoded images, or texts."""
    truncate: bool = False
    targets: tuple[tuple[int, ...], ...] | None = None
    """Tokens that were generated, one tuple an input."""


Length = Annotated[int, Field(ge=0)]
One: TypeAlias = tuple[Literal["image", "text"], Length]
Two: TypeAlias = tuple[Literal["pair"], Length, Length]


class Header(BaseModel):
    """The first line of a packed request: what each input is, and how many of the bytes that follow are its."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: Literal[1]
    model: str
    version: str
    truncate: bool
    targets: tuple[tuple[int, ...], ...] | None
    inputs: tuple[One | Two, ...]


def pack(kept: Kept) -> bytes:
    """Return a request as bytes: a line of JSON, then its inputs."""
    inputs: list[tuple[str | int, ...]] = []
    pieces: list[bytes] = []
    for given in kept.inputs:
        if isinstance(given, bytes):
            kind, parts = "image", [given]
        elif isinstance(given, Pair):
            kind, parts = "pair", [given.text.encode(*UTF8), given.text_pair.encode(*UTF8)]
        else:
            kind, parts = "text", [given.encode(*UTF8)]
        inputs.append((kind, *map(len, parts)))
        pieces += parts
    header = {
        "format": FORMAT,
        "model": kept.model,
        "version": kept.version,
        "truncate": kept.truncate,
        "targets": kept.targets,
        "inputs": inputs,
    }
    return b"".join((orjson.dumps(header, option=orjson.OPT_APPEND_NEWLINE), *pieces))


def unpack(data: bytes) -> Kept | None:
    """Return what was packed, or None for anything else, such as what another version of the service packed."""
    stream = io.BytesIO(data)
    try:
        header = Header.model_validate_json(line := stream.readline())
        length = sum(sum(lengths) for _, *lengths in header.inputs)
        if not line.endswith(b"\n") or len(line) + length != len(data):
            return None
        inputs: list[bytes | Text] = []
        for kind, *lengths in header.inputs:
            parts = [stream.read(length) for length in lengths]
            texts = [] if kind == "image" else [part.decode(*UTF8) for part in parts]
            inputs.append(Pair(*texts) if kind == "pair" else texts[0] if texts else parts[0])
    except ValueError:
        return None
    return Kept(header.model, header.version, tuple(inputs), header.truncate, header.targets)


class Store(Protocol):
    """Requests by their ids, bounded by count, bytes and age; the oldest go first.

    What is larger than all bytes is not kept. An id that is put again stands for what was put last.
    """

    async def put(self, id: str, kept: Kept) -> None:  # noqa: A002 # the word of the API
        """Keep a request. A server that cannot be reached is logged; raises ValueError for what is no id."""

    async def get(self, id: str) -> Kept | None:  # noqa: A002 # the word of the API
        """Return a request, or None if it never was or is no longer kept. Raises NotReady for want of the server."""

    async def close(self) -> None:
        """Let go of what is held."""


class MemoryStore:
    """Keeps in this process: at most `count` requests and `size` bytes, each for `seconds`."""

    def __init__(self, count: int, size: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._limit = size
        self._seconds = seconds
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, bytes]] = OrderedDict()  # oldest first: until when, and packed
        self._held = 0

    async def put(self, id: str, kept: Kept) -> None:  # noqa: A002 # the word of the API
        """Keep a request. Raises ValueError for what is no id."""
        _check(id)
        self._purge()
        if id in self._entries:
            self._drop(id)
        packed = pack(kept)
        if not self._count or len(packed) > self._limit:
            return
        while len(self._entries) >= self._count or self._held + len(packed) > self._limit:
            self._drop(next(iter(self._entries)))
        self._entries[id] = (self._clock() + self._seconds, packed)
        self._held += len(packed)

    async def get(self, id: str) -> Kept | None:  # noqa: A002 # the word of the API
        """Return a request, or None if it never was or is no longer kept."""
        self._purge()
        entry = self._entries.get(id)
        return unpack(entry[1]) if entry else None

    async def close(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._held = 0

    def _purge(self) -> None:
        now = self._clock()
        while self._entries and (oldest := next(iter(self._entries.items())))[1][0] <= now:
            self._drop(oldest[0])

    def _drop(self, id: str) -> None:  # noqa: A002 # the word of the API
        self._held -= len(self._entries.pop(id)[1])


class WorkersStore:
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

    async def put(self, id: str, kept: Kept) -> None:  # noqa: A002 # the word of the API
        """Keep a request; a failure is logged. Raises ValueError for what is no id."""
        _check(id)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._put, id, kept)

    async def get(self, id: str) -> Kept | None:  # noqa: A002 # the word of the API
        """Return a request, or None if it never was or is no longer kept. Raises NotReady for want of the file."""
        if not CLIENTS_ID.fullmatch(id):
            return None
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._get, id)

    async def close(self) -> None:
        """Let go of the file, which goes with the workers."""
        self._thread.shutdown()
        self._file.close()

    def _put(self, id: str, kept: Kept) -> None:  # noqa: A002 # the word of the API
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

    def _get(self, id: str) -> Kept | None:  # noqa: A002 # the word of the API
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


TIMES = "regard:times"
SIZES = "regard:sizes"
ENTRY = "regard:kept:"
"""Keys: a sorted set of ids by microsecond, a hash of their bytes with the sum as `*`, and an entry for each id."""

# An entry expires by itself. Until the index expires, with the youngest, it counts those past their age too; they are
# the oldest and give way first, so none that is younger goes for them. Should Redis evict the sorted set for want of
# memory, the sizes are of nothing and go too.
PUT = """
local times, sizes = KEYS[1], KEYS[2]
local entry, id, value, size = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local count, bytes, age = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local function drop(old)
  redis.call('DEL', entry .. old)
  redis.call('ZREM', times, old)
  redis.call('HINCRBY', sizes, '*', 0 - (redis.call('HGET', sizes, old) or 0))
  redis.call('HDEL', sizes, old)
end

drop(id)
if redis.call('ZCARD', times) == 0 then redis.call('DEL', sizes) end
if size > bytes then return end

while redis.call('ZCARD', times) >= count or (redis.call('HGET', sizes, '*') or 0) + size > bytes do
  drop(redis.call('ZRANGE', times, 0, 0)[1])
end
local clock = redis.call('TIME')
redis.call('SET', entry .. id, value, 'PX', age)
redis.call('ZADD', times, clock[1] * 1000000 + clock[2], id)
redis.call('HSET', sizes, id, size)
redis.call('HINCRBY', sizes, '*', size)
redis.call('PEXPIRE', times, age)
redis.call('PEXPIRE', sizes, age)
"""


class RedisStore:
    """Keeps on a Redis server (5 or newer) that replicas share: the bounds are those of all of them together.

    An operation takes `timeout` seconds at most; whoever puts waits `patience` of them, and what takes longer goes on
    by itself, so that answers do not wait for a server that hangs. Raises ImportError without the extra, ValueError for
    a URL that cannot be used.
    """

    def __init__(
        self, url: str, count: int, size: int, seconds: float, timeout: float = 0.5, patience: float = 0.1
    ) -> None:
        try:
            from redis import RedisError
            from redis.asyncio import BlockingConnectionPool, Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise ImportError(
                "REGARD_REDIS_URL: keeping requests in Redis needs its client: pip install regard[redis]"
            ) from error

        self._count = count
        self._limit = size
        self._milliseconds = max(math.ceil(seconds * 1000), 1)
        self._timeout = timeout
        self._patience = patience
        self._putting: set[asyncio.Task[None]] = set()
        self._failures = (RedisError, OSError)
        self._quiet_until = -math.inf
        try:
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=CONNECTIONS,
                timeout=timeout,
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                retry=Retry(NoBackoff(), 1),  # a connection may have been closed since it was last used
                protocol=2,  # is enough, and every server speaks it
            )
            pool.connection_class(**pool.connection_kwargs)  # its options are not looked at before
        except (ValueError, TypeError, RedisError):
            raise ValueError(
                "REGARD_REDIS_URL: must be redis://, rediss:// or unix:// with known options, given another"
            ) from None  # the cause may hold a part of the password
        self._redis = Redis.from_pool(pool)
        self._put = self._redis.register_script(PUT)

    async def put(self, id: str, kept: Kept) -> None:  # noqa: A002 # the word of the API
        """Keep a request; a failure is logged. Raises ValueError for what is no id."""
        _check(id)
        if not self._count:
            return
        task = asyncio.ensure_future(self._send(id, pack(kept)))
        self._putting.add(task)
        task.add_done_callback(self._putting.discard)
        await asyncio.wait({task}, timeout=self._patience)

    async def _send(self, id: str, value: bytes) -> None:  # noqa: A002 # the word of the API
        size = len(value)
        bounds = [self._count, self._limit, self._milliseconds]
        try:
            async with asyncio.timeout(self._timeout):
                await self._put(
                    keys=[TIMES, SIZES], args=[ENTRY, id, value if size <= self._limit else b"", size, *bounds]
                )
        except self._failures as error:
            self._report("put", error)

    async def get(self, id: str) -> Kept | None:  # noqa: A002 # the word of the API
        """Return a request, or None if it never was or is no longer kept. Raises NotReady for want of the server."""
        if not CLIENTS_ID.fullmatch(id):
            return None
        try:
            async with asyncio.timeout(self._timeout):
                value = await self._redis.get(ENTRY + id)
        except self._failures as error:
            self._report("get", error)
            raise NotReady("id: what it stands for is kept on a server that cannot be reached", seconds=5) from None
        return unpack(value) if isinstance(value, bytes) else None

    async def close(self) -> None:
        """End the connections."""
        for task in self._putting:
            task.cancel()
        with contextlib.suppress(*self._failures):
            async with asyncio.timeout(self._timeout):
                await self._redis.aclose()

    def _report(self, what: str, error: Exception) -> None:
        """Log a failure, unless one was logged of late; its words may hold what clients sent, so only its class."""
        if (now := time.monotonic()) >= self._quiet_until:
            self._quiet_until = now + QUIET_SECONDS
            cause = error.__cause__ if isinstance(error.__cause__, self._failures) else error
            log.warning("redis failed", operation=what, error=type(cause).__name__)


def open_store(settings: Settings, shared: Path | None = None) -> Store:
    """Return a store on the Redis server of the settings, in the folder that workers share, or in memory.

    Raises as RedisStore and WorkersStore do.
    """
    bounds = settings.keep_count, settings.keep_bytes, settings.keep_seconds
    if (url := settings.redis_url) is not None:
        return RedisStore(url.get_secret_value(), *bounds)
    if shared and settings.keep_count:
        return WorkersStore(shared / "kept.sqlite", *bounds)
    return MemoryStore(*bounds)


def _check(id: str) -> None:  # noqa: A002 # the word of the API
    if not CLIENTS_ID.fullmatch(id):
        raise ValueError(f"id: must match {CLIENTS_ID.pattern}, given another")
