"""The store in memory, for a service of one process."""

import time
from collections import OrderedDict
from collections.abc import Callable

from service.store.stored_request import StoredRequest, check_id, pack, unpack


class MemoryStore:
    """Holds requests in this process: at most `count` of them and `size` bytes, each for `seconds`."""

    def __init__(self, count: int, size: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._limit = size
        self._seconds = seconds
        self._clock = clock
        # oldest first: the time at which it expires, and the packed request
        self._entries: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._size = 0

    async def put(self, id: str, request: StoredRequest) -> None:  # noqa: A002 # the word of the API
        """Store a request. Raises ValueError if the id is malformed."""
        check_id(id)
        self._purge()
        if id in self._entries:
            self._drop(id)
        packed = pack(request)
        if not self._count or len(packed) > self._limit:
            return
        while len(self._entries) >= self._count or self._size + len(packed) > self._limit:
            self._drop(next(iter(self._entries)))
        self._entries[id] = (self._clock() + self._seconds, packed)
        self._size += len(packed)

    async def get(self, id: str) -> StoredRequest | None:  # noqa: A002 # the word of the API
        """Return a request, or None if it is not stored, or no longer."""
        self._purge()
        entry = self._entries.get(id)
        return unpack(entry[1]) if entry else None

    async def close(self) -> None:
        """Remove all requests."""
        self._entries.clear()
        self._size = 0

    def _purge(self) -> None:
        now = self._clock()
        while self._entries and (oldest := next(iter(self._entries.items())))[1][0] <= now:
            self._drop(oldest[0])

    def _drop(self, id: str) -> None:  # noqa: A002 # the word of the API
        self._size -= len(self._entries.pop(id)[1])
