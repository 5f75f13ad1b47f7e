"""The queue for decoders: requests whose images wait take turns, one image each."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeAlias, TypeVar

from service.batching.admission import Priority, due

T = TypeVar("T")
Ring: TypeAlias = "OrderedDict[Hashable, deque[tuple[float, asyncio.Future[T]]]]"
"""What waits, by request; the request at the front has the next turn. A waiter is the time that it is sorted by, and
its future."""


class TurnQueue(Generic[T]):
    """Items that are idle, or else those who wait for one.

    An item goes to the request whose turn it is, and that request then goes to the end. So a request of one image waits
    for one image of each other request, not for all images of those before it. What is of priority `batch` waits behind
    what is interactive, and has its turn as if it had come later (`due`).
    """

    def __init__(self) -> None:
        self._idle: list[T] = []
        self._rings: dict[Priority, Ring[T]] = {"interactive": OrderedDict(), "batch": OrderedDict()}

    async def get(self, request: Hashable, priority: Priority = "interactive") -> T:
        """Return the item that was put back last, or wait for one in turn with other requests."""
        if self._idle:
            return self._idle.pop()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        ring, waiter = self._rings[priority], (due(priority), future)
        ring.setdefault(request, deque()).append(waiter)
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled():  # it was given an item meanwhile
                self.put(future.result())
            elif waiter in (waiting := ring.get(request, deque())):  # else `put` has passed it over
                waiting.remove(waiter)
                if not waiting:
                    del ring[request]
            raise

    def put(self, item: T) -> None:
        """Give an item to the request that has the next turn; keep it if nobody waits."""
        while rings := [ring for ring in self._rings.values() if ring]:
            ring = min(rings, key=lambda ring: next(iter(ring.values()))[0][0])
            request, waiting = next(iter(ring.items()))
            _, future = waiting.popleft()
            ring.move_to_end(request)
            if not waiting:
                del ring[request]
            if not future.done():  # it is done if nobody waits for it any more
                future.set_result(item)
                return
        self._idle.append(item)

    def take_idle(self) -> list[T]:
        """Remove all idle items and return them."""
        idle, self._idle = self._idle, []
        return idle
