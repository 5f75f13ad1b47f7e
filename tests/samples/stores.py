"""Stores of requests for tests: in memory, in a file, in Redis."""

import asyncio
from contextlib import asynccontextmanager

from service.store.memory_store import MemoryStore
from service.store.redis_store import RedisStore
from service.store.shared_file_store import SharedFileStore
from service.store.stored_request import StoredRequest, pack


class InMemory:
    """Makes stores in memory, whose clock is set."""

    def __init__(self):
        self.now = 0.0

    def store(self, count=100, size=1_000_000, seconds=60.0):
        return MemoryStore(count, size, seconds, clock=lambda: self.now)

    async def wait(self, seconds):
        self.now += seconds


class InFile(InMemory):
    """Makes stores in one file, as workers do; their clock is set too."""

    def __init__(self, file=":memory:"):
        super().__init__()
        self.file = file

    def store(self, count=100, size=1_000_000, seconds=60.0):
        return SharedFileStore(self.file, count, size, seconds, clock=lambda: self.now)


class InRedis:
    """Makes stores on a server; time passes as it does."""

    def __init__(self, server):
        self.server = server

    def store(self, count=100, size=1_000_000, seconds=60.0, url=None):
        return RedisStore(url or self.server.url, count, size, seconds, patience=1.0)

    async def wait(self, seconds):
        await asyncio.sleep(seconds)


@asynccontextmanager
async def closing(*stores):
    """Give the stores, or the only one, and close them when the block ends."""
    try:
        yield stores[0] if len(stores) == 1 else stores
    finally:
        for store in stores:
            await store.close()


def of_size(size, fill=b"x"):
    """Return a request that counts for this number of bytes."""
    kept = StoredRequest("m" * (size - len(pack(StoredRequest("", "1", (fill,))))), "1", (fill,))
    assert len(pack(kept)) == size
    return kept


async def there(store, ids):
    """Return those of the ids that are stored."""
    return "".join([id_ for id_ in ids if await store.get(id_, None)])
