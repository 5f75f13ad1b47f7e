"""TODO: what service/store/redis_store.py is."""

import asyncio
import contextlib
import math
import time

import structlog

from service.errors import NotReady
from service.store.stored_request import CLIENTS_ID, StoredRequest, _check, pack, unpack

log = structlog.get_logger()

QUIET_SECONDS = 10.0
"""Between two log lines about a server that fails."""


CONNECTIONS = 16
"""At most so many to Redis; a request waits for one."""


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

    async def put(self, id: str, kept: StoredRequest) -> None:  # noqa: A002 # the word of the API
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

    async def get(self, id: str) -> StoredRequest | None:  # noqa: A002 # the word of the API
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
