"""The store on a Redis server, for several replicas of the service."""

import asyncio
import contextlib
import math
import time

import structlog

from service.errors import NotReady
from service.settings import SettingsError
from service.store.circuit_breaker import CircuitBreaker
from service.store.stored_request import ID_PATTERN, StoredRequest, entry_name, pack, unpack

log = structlog.get_logger()

QUIET_SECONDS = 10.0
"""The least time between two log lines about a server that fails."""
FAILURES_TO_OPEN = 5
"""Operations in a row that find no server, or no answer in time, before the server is left alone."""
OPEN_SECONDS = 5.0
"""How long it is left alone before one operation tries it again."""
MOST_CONNECTIONS = 16
"""Connections to Redis at most; further requests wait for one."""

TIMES_KEY = "regard:times"
"""A sorted set of the names of entries by the time of their put, in microseconds."""
SIZES_KEY = "regard:sizes"
"""A hash of the bytes of each entry, with their sum as `*`."""
ENTRY_KEY_PREFIX = "regard:kept:"
"""The key of a packed request is this and the name of its entry. Replicas share these keys: they must not change."""

# An entry expires by itself. The sorted set and the hash expire with the youngest entry; until then they also count
# entries that have expired. Those are the oldest and are removed first, so no younger entry is removed for them. If
# Redis evicts the sorted set for lack of memory, the sizes describe nothing and are removed too; so are both if one of
# them is something else, or holds what is no number.
#
# Redis asks whether there is memory only until a script has written, and DEL is always allowed. So the first write,
# which changes nothing, is one that a full server refuses.
PUT_SCRIPT = """
local times, sizes = KEYS[1], KEYS[2]
local entry, name, value, size = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local count, bytes, age = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local function drop(old)
  redis.call('DEL', entry .. old)
  redis.call('ZREM', times, old)
  redis.call('HINCRBY', sizes, '*', 0 - (tonumber(redis.call('HGET', sizes, old) or 0) or 0))
  redis.call('HDEL', sizes, old)
end

local function is(key, kind)
  local found = redis.call('TYPE', key).ok
  return found == kind or found == 'none'
end
if not (is(times, 'zset') and is(sizes, 'hash')) or not tonumber(redis.call('HGET', sizes, '*') or 0) then
  redis.call('DEL', times, sizes)
end

redis.call('HINCRBY', sizes, '*', 0)
drop(name)
if redis.call('ZCARD', times) == 0 then redis.call('DEL', sizes) end
if size > bytes then return end

while redis.call('ZCARD', times) >= count or (redis.call('HGET', sizes, '*') or 0) + size > bytes do
  drop(redis.call('ZRANGE', times, 0, 0)[1])
end
local clock = redis.call('TIME')
redis.call('SET', entry .. name, value, 'PX', age)
redis.call('ZADD', times, clock[1] * 1000000 + clock[2], name)
redis.call('HSET', sizes, name, size)
redis.call('HINCRBY', sizes, '*', size)
redis.call('PEXPIRE', times, age)
redis.call('PEXPIRE', sizes, age)
"""


UNREACHABLE = "id: what it stands for is kept on a server that cannot be reached"
DO = "see that REGARD_REDIS_URL names a server that runs, is reached and lets the service in; predictions go on"
DO_WHERE_IT_ANSWERS = (
    "see that the server has memory for what REGARD_KEEP_BYTES allows, and lets the service write; predictions go on"
)


class RedisStore:
    """Holds requests on a Redis server (5 or newer) that replicas share; the limits are those of all of them together.

    An operation takes at most `timeout` seconds. A caller of `put` waits at most `patience` seconds of these, and the
    operation goes on in the background, so that answers do not wait for a server that hangs. After FAILURES_TO_OPEN
    failures in a row nothing is stored or read, without waiting, until an operation succeeds; one is tried every
    OPEN_SECONDS. Raises SettingsError without the extra, and ValueError for a URL that cannot be used.
    """

    def __init__(
        self, url: str, count: int, size: int, seconds: float, timeout: float = 0.5, patience: float = 0.1
    ) -> None:
        try:
            from redis import RedisError, ResponseError
            from redis.asyncio import BlockingConnectionPool, Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise SettingsError(
                "REGARD_REDIS_URL: keeping requests in Redis needs its client: pip install --editable '.[redis]'"
            ) from error

        self._count = count
        self._limit = size
        self._milliseconds = max(math.ceil(seconds * 1000), 1)
        self._timeout = timeout
        self._patience = patience
        self._putting: set[asyncio.Task[None]] = set()
        self._failures = (RedisError, OSError, ValueError, RecursionError)
        """The last two are of an answer that its client cannot read: a number of letters, lists in lists."""
        self._answered_error = ResponseError
        """The server answers, but with an error, such as one for a value of another type."""
        self._breaker = CircuitBreaker(FAILURES_TO_OPEN, OPEN_SECONDS)
        self._quiet_until = -math.inf
        try:
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=MOST_CONNECTIONS,
                timeout=timeout,
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                retry=Retry(NoBackoff(), 1),  # a connection may have been closed since it was last used
                protocol=2,  # is enough, and all servers support it
            )
            pool.connection_class(**pool.connection_kwargs)  # checks the options of the URL now
        except (ValueError, TypeError, RedisError):
            raise ValueError(
                "REGARD_REDIS_URL: must be redis://, rediss:// or unix:// with known options, such as "
                "redis://store:6379, given another"
            ) from None  # the cause may hold a part of the password
        self._redis = Redis.from_pool(pool)
        self._put = self._redis.register_script(PUT_SCRIPT)

    async def put(self, id: str, owner: str | None, request: StoredRequest) -> None:  # noqa: A002 # the word of the API
        """Store a request. A failure is logged. Raises ValueError if the id is malformed."""
        name = entry_name(id, owner)
        if not self._count or not self._breaker.allows():
            return
        task = asyncio.ensure_future(self._send(name, pack(request)))
        self._putting.add(task)
        task.add_done_callback(self._putting.discard)
        await asyncio.wait({task}, timeout=self._patience)

    async def _send(self, name: str, value: bytes) -> None:
        size = len(value)
        bounds = [self._count, self._limit, self._milliseconds]
        try:
            async with asyncio.timeout(self._timeout):
                await self._put(
                    keys=[TIMES_KEY, SIZES_KEY],
                    args=[ENTRY_KEY_PREFIX, name, value if size <= self._limit else b"", size, *bounds],
                )
        except self._failures as error:
            self._fail("put", error)
        else:
            self._succeed()

    async def get(self, id: str, owner: str | None) -> StoredRequest | None:  # noqa: A002 # the word of the API
        """Return a request, or None if this owner has none of this id, or no longer.

        A value that is no packed request is none. Raises NotReady if the server fails.
        """
        if not ID_PATTERN.fullmatch(id):
            return None
        if not self._breaker.allows():
            raise NotReady(UNREACHABLE, seconds=math.ceil(self._breaker.seconds_left))
        name = entry_name(id, owner)
        try:
            async with asyncio.timeout(self._timeout):
                value = await self._redis.get(ENTRY_KEY_PREFIX + name)
        except self._failures as error:
            if isinstance(error, self._answered_error) and str(error).startswith("WRONGTYPE"):
                self._succeed()
                return None
            self._fail("get", error)
            raise NotReady(UNREACHABLE, seconds=math.ceil(OPEN_SECONDS)) from None
        self._succeed()
        return unpack(value) if isinstance(value, bytes) else None

    async def close(self) -> None:
        """Cancel what is being stored, and close the connections."""
        for task in self._putting:
            task.cancel()
        with contextlib.suppress(*self._failures):
            async with asyncio.timeout(self._timeout):
                await self._redis.aclose()

    def _succeed(self) -> None:
        if self._breaker.succeed():
            log.info("redis answers again")

    def _fail(self, what: str, error: Exception) -> None:
        """Count a failure, and log it, unless one was logged within QUIET_SECONDS.

        Only its class is logged, since its message may hold what clients sent.
        """
        if answers := isinstance(error, self._answered_error):
            self._succeed()  # it answers in time, so there is no reason to leave it alone
        elif self._breaker.fail():
            log.warning("redis is left alone", failures=FAILURES_TO_OPEN, seconds=OPEN_SECONDS)
        if (now := time.monotonic()) >= self._quiet_until:
            self._quiet_until = now + QUIET_SECONDS
            do = DO_WHERE_IT_ANSWERS if answers else DO
            cause = error.__cause__ if isinstance(error.__cause__, self._failures) else error
            log.warning("redis failed", operation=what, error=type(cause).__name__, do=do)
