"""The store in memory, for a service of one process."""

import time
from collections import OrderedDict
from collections.abc import Callable

from service.store.stored_request import ID_PATTERN, StoredRequest, entry_name, pack, unpack


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

    async def put(self, id: str, owner: str | None, request: StoredRequest) -> None:  # noqa: A002 # the word of the API
        """Store a request. Raises ValueError if the id is malformed."""
        name = entry_name(id, owner)
        self._purge()
        if name in self._entries:
            self._drop(name)
        packed = pack(request)
        if not self._count or len(packed) > self._limit:
            return
        while len(self._entries) >= self._count or self._size + len(packed) > self._limit:
            self._drop(next(iter(self._entries)))
        self._entries[name] = (self._clock() + self._seconds, packed)
        self._size += len(packed)

    async def get(self, id: str, owner: str | None) -> StoredRequest | None:  # noqa: A002 # the word of the API
        """Return a request, or None if this owner has none of this id, or no longer."""
        self._purge()
        entry = self._entries.get(entry_name(id, owner)) if ID_PATTERN.fullmatch(id) else None
        return unpack(entry[1]) if entry else None

    async def close(self) -> None:
        """Remove all requests."""
        self._entries.clear()
        self._size = 0

    def _purge(self) -> None:
        now = self._clock()
        while self._entries and (oldest := next(iter(self._entries.items())))[1][0] <= now:
            self._drop(oldest[0])

    def _drop(self, name: str) -> None:
        self._size -= len(self._entries.pop(name)[1])
