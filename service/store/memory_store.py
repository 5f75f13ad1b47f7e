"""TODO: what service/store/memory_store.py is."""

import time
from collections import OrderedDict
from collections.abc import Callable

from service.store.stored_request import StoredRequest, _check, pack, unpack


class MemoryStore:
    """Keeps in this process: at most `count` requests and `size` bytes, each for `seconds`."""

    def __init__(self, count: int, size: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._count = count
        self._limit = size
        self._seconds = seconds
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, bytes]] = OrderedDict()  # oldest first: until when, and packed
        self._held = 0

    async def put(self, id: str, kept: StoredRequest) -> None:  # noqa: A002 # the word of the API
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

    async def get(self, id: str) -> StoredRequest | None:  # noqa: A002 # the word of the API
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
