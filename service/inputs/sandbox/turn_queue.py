"""The queue for decoders: clients share them, and the requests of a client take turns, one image each."""

import asyncio
from typing import Generic, TypeVar

from service.batching.fair_queue import NOBODY, Caller, FairQueue

T = TypeVar("T")


class TurnQueue(Generic[T]):
    """Items that are idle, or else those who wait for one, in a fair queue."""

    def __init__(self) -> None:
        self._idle: list[T] = []
        self._waiting: FairQueue[asyncio.Future[T]] = FairQueue()

    async def get(self, cost: float, caller: Caller = NOBODY) -> T:
        """Return the item that was put back last, or wait for one in turn with others, for work of a cost."""
        if self._idle:
            return self._idle.pop()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.add(future, cost, caller)
        try:
            return await future
        except asyncio.CancelledError:
            if future in self._waiting:
                self._waiting.remove(future)
            elif not future.cancelled():  # it was given an item meanwhile
                self.put(future.result())
            raise

    def put(self, item: T) -> None:
        """Give an item to the one that is first; keep it if nobody waits."""
        while first := next(iter(self._waiting), None):
            self._waiting.take([first])
            if not first.done():  # it is done if nobody waits for it any more
                first.set_result(item)
                return
        self._idle.append(item)

    def take_idle(self) -> list[T]:
        """Remove all idle items and return them."""
        idle, self._idle = self._idle, []
        return idle
