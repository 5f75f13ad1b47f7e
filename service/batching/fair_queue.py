"""Fair queueing: clients share what serves them, and the requests of each client take turns."""

import heapq
import itertools
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")
Priority: TypeAlias = Literal["interactive", "batch"]

WEIGHT = {"interactive": 1, "batch": 10}
"""How many times the cost of work of each priority counts: what is `batch` is served a tenth as much as others."""
MOST_AHEAD = 100
"""Clients that left with more than others, from which on those are looked for that need not be remembered."""


class Flow(NamedTuple):
    """What shares with others: the work of one priority of one client."""

    client: Hashable
    priority: Priority

    @property
    def weight(self) -> int:
        """How many times its cost counts."""
        return WEIGHT[self.priority]


class Caller(NamedTuple):
    """Whose work something is."""

    client: Hashable = None
    """Who shares with others: by the name of its key, else by its address."""
    request: Hashable = None
    priority: Priority = "interactive"

    @property
    def flow(self) -> Flow:
        """What it is a part of."""
        return Flow(self.client, self.priority)


NOBODY = Caller()
"""Whose work that is which nobody asked for."""


@dataclass(eq=False)
class _Waiting(Generic[T]):
    """What waits of one flow, by request. The request at the front has the next turn."""

    weight: int
    served: float
    """The virtual time until which it was served."""
    number: int
    requests: "OrderedDict[Hashable, deque[T]]" = field(default_factory=OrderedDict)

    def in_turn(self) -> Iterator[T]:
        """Yield one item of each request in turn."""
        turns = deque(iter(items) for items in self.requests.values())
        while turns:
            items = turns.popleft()
            for item in items:
                yield item
                turns.append(items)
                break


class FairQueue(Generic[T]):
    """Items in the order in which they are served: fair queueing by virtual time (after Golestani 1994).

    Each client is served as much as every other of which something waits, by the cost of its items, however many it
    brings; of one client each request has one item in turn. In virtual time all clients are served at once, and next is
    the item that ends first there. A client that comes begins at the time at which the last item served ends, so that
    nobody saves up while nothing of it waits, and nobody waits for ever for those that come.
    """

    def __init__(self) -> None:
        self._waiting: dict[Flow, _Waiting[T]] = {}
        self._places: dict[T, tuple[Flow, Hashable, float]] = {}
        """Of each item its flow and request, and how long it takes in virtual time."""
        self._ahead: dict[Flow, float] = {}
        """Until when flows were served of which nothing waits, if that is later than now."""
        self._now = 0.0
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, item: T) -> bool:
        return item in self._places

    def add(self, item: T, cost: float, caller: Caller) -> None:
        """Put an item at the end of what waits of its request."""
        flow = caller.flow
        if flow not in self._waiting:
            served = max(self._now, self._ahead.pop(flow, 0.0))
            self._waiting[flow] = _Waiting(flow.weight, served, next(self._numbers))
        self._waiting[flow].requests.setdefault(caller.request, deque()).append(item)
        self._places[item] = flow, caller.request, cost * flow.weight

    def __iter__(self) -> Iterator[T]:
        """Yield what waits in the order in which it is served. Nothing may be added or removed meanwhile."""
        if len(self._waiting) == 1:
            (only,) = self._waiting.values()
            yield from only.in_turn()
            return
        turns = [(one, one.in_turn()) for one in self._waiting.values()]
        heap = [self._next(one, one.served, items, next(items)) for one, items in turns]
        heapq.heapify(heap)
        while heap:
            ends, *_, item, items, waiting = heap[0]
            yield item
            if (following := next(items, None)) is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, self._next(waiting, ends, items, following))

    def _next(self, waiting: _Waiting[T], begins: float, items: Iterator[T], item: T) -> "_Entry[T]":
        """Return when the next item of a flow ends, whose others follow it.

        Of two that end at once, what is interactive goes first, then the flow that came first.
        """
        return begins + self._places[item][2], waiting.weight, waiting.number, item, items, waiting

    def take(self, items: Iterable[T]) -> None:
        """Remove items that are served now, together, led by the first."""
        leads = True
        for item in items:
            flow, request, cost = self._places[item]
            waiting = self._waiting[flow]
            waiting.served += cost
            if leads:
                self._now, leads = max(self._now, waiting.served), False
            waiting.requests.move_to_end(request)
            self.remove(item)
        if len(self._ahead) > MOST_AHEAD:
            self._ahead = {flow: served for flow, served in self._ahead.items() if served > self._now}

    def remove(self, item: T) -> None:
        """Remove an item that is not served."""
        flow, request, _ = self._places.pop(item)
        waiting = self._waiting[flow]
        waiting.requests[request].remove(item)
        if not waiting.requests[request]:
            del waiting.requests[request]
        if not waiting.requests:
            del self._waiting[flow]
            if waiting.served > self._now:
                self._ahead[flow] = waiting.served
        if not self._places:  # nobody is ahead of anybody who waits
            self._now = 0.0
            self._ahead.clear()


_Entry: TypeAlias = "tuple[float, int, int, T, Iterator[T], _Waiting[T]]"
"""The next item of a flow: when it ends, the weight and number of the flow, the item, those after it, and the flow."""
