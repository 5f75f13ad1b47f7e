"""Admission: how much work may wait, and which work goes first."""

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Literal, TypeAlias

from service.errors import Busy

Priority: TypeAlias = Literal["interactive", "batch"]

BATCH_DELAY_SECONDS = 2.0
"""Work of priority `batch` is sorted as if it had arrived this much later; interactive work of that time goes first."""
BUDGET_SHARE = {"interactive": 1.0, "batch": 0.5}
"""The share of a budget that work of each priority may fill, so that there is always room for interactive work."""
WAITING_SHARE = 0.4
"""The share of the deadline that a request may wait. The rest is for its own work, and for what is judged wrongly."""
RATE_SECONDS = 10.0
"""The rate is that of about this number of the last seconds of work."""
MOST_RETRY_SECONDS = 60
KNOWN_SECONDS = 60.0
"""For so long after the last work its rate says how long other work takes; then it is tried."""


def due(priority: Priority) -> float:
    """Return the time (monotonic) by which work queued now is sorted."""
    return time.monotonic() + (BATCH_DELAY_SECONDS if priority == "batch" else 0.0)


class Backlog:
    """The budgets of queues whose work takes turns on one resource, such as a device, and how long work may wait there.

    Without a `deadline` (seconds of a request) it may wait for any time.
    """

    def __init__(self, deadline: float = math.inf) -> None:
        self.deadline = deadline
        self.most_seconds = deadline * WAITING_SHARE
        self._holding: set[Budget] = set()

    def note(self, budget: "Budget") -> None:
        """Note whether a budget holds anything."""
        (self._holding.add if budget.held else self._holding.discard)(budget)

    def seconds(self, budget: "Budget") -> float:
        """Return how long work that comes to a queue now will wait.

        Queues take turns, so it waits for what its own queue holds, and for as much of every other at most.
        """
        own = budget.seconds
        return own + sum(min(own, other.seconds) for other in self._holding if other is not budget)


class Budget:
    """A bound on all work that was admitted and is not finished: on its cost, and on the time that it will take.

    The cost is in units of the caller's choice. `at_once` of it runs together and does not wait. The time is the rest
    of the cost, divided by the recent rate of work (`spent`). Where the cost is the most that something may take, as
    for generated tokens, it is first multiplied by the share that was used recently (`used`).
    """

    def __init__(self, name: str, limit: int, backlog: Backlog | None = None, at_once: int = 0) -> None:
        self.name = name
        self.limit = limit
        self.held = 0
        self.backlog = backlog or Backlog()
        """The backlog of the resource that does the work."""
        self._at_once = at_once
        self._done, self._seconds = _Fading(), _Fading()
        self._admitted, self._used = _Fading(), _Fading()

    @contextlib.contextmanager
    def permit(self, cost: int, priority: Priority = "interactive") -> Iterator[None]:
        """Hold `cost` for the length of a block. Raises Busy as `take` does."""
        self.take(cost, priority)
        try:
            yield
        finally:
            self.give_back(cost)

    def take(self, cost: int, priority: Priority = "interactive") -> None:
        """Hold `cost` until it is given back. Raises Busy if there is no room for it, or if it would wait too long.

        A request alone in its queue is admitted whatever it costs: other limits bound the cost of one request.
        """
        share = BUDGET_SHARE[priority]
        limit, most_seconds = int(self.limit * share), self.backlog.most_seconds * share
        if self.held and cost:
            if self.held + cost > limit:
                over = (self.held + cost - limit) * self._seconds_per_cost
                raise Busy(
                    f"{self.name}: at most {limit} may wait, given {cost} more on top of {self.held}", _retry(over)
                )
            if (seconds := self.backlog.seconds(self)) > most_seconds:
                raise Busy(
                    f"{self.name}: at most {most_seconds:g} seconds of work may wait, given {seconds:.1f}",
                    _retry(seconds - most_seconds),
                )
        self.held += cost
        self.backlog.note(self)

    def give_back(self, cost: int) -> None:
        """Hold `cost` no longer."""
        self.held -= cost
        self.backlog.note(self)

    def spent(self, cost: int, seconds: float) -> None:
        """Learn the rate: so much work took so long, with what else was done for it meanwhile (`cost` 0)."""
        fading = math.exp(-seconds / RATE_SECONDS)
        self._done.add(cost, fading)
        self._seconds.add(seconds, fading)

    def used(self, cost: int, admitted: int) -> None:
        """Learn which share of an admitted cost is used."""
        fading = math.exp(-admitted / max(self.limit, 1))
        self._used.add(cost, fading)
        self._admitted.add(admitted, fading)

    @property
    def deadline(self) -> float:
        """Seconds that a request may take."""
        return self.backlog.deadline

    @property
    def seconds(self) -> float:
        """How long the work that waits will take; 0 as long as the rate is not known."""
        return max(0, self.held - self._at_once) * self._seconds_per_cost

    @property
    def room(self) -> int:
        """The cost that may be held: the limit, or what is done within the time that work may wait."""
        each = self._seconds_per_cost
        return int(min(self.limit, self._at_once + self.backlog.most_seconds / each)) if each else self.limit

    @property
    def _seconds_per_cost(self) -> float:
        share = self._used.sum / self._admitted.sum if self._admitted.sum else 1.0
        return share * self._seconds.sum / self._done.sum if self._done.sum else 0.0


class Rate:
    """How long work of one sort takes, by its last runs."""

    def __init__(self) -> None:
        self._done, self._seconds = _Fading(), _Fading()
        self._measured = -math.inf

    def spent(self, cost: int, seconds: float) -> None:
        """Learn that work of this cost took so long."""
        fading = math.exp(-seconds / RATE_SECONDS)
        self._done.add(cost, fading)
        self._seconds.add(seconds, fading)
        self._measured = time.monotonic()

    def seconds_for(self, cost: int) -> float:
        """Return how long work of a cost takes; 0 if none was done lately, since a machine may have been busy then."""
        lately = time.monotonic() - self._measured < KNOWN_SECONDS
        return cost * self._seconds.sum / self._done.sum if lately and self._done.sum else 0.0


class _Fading:
    """A sum whose older parts count for less."""

    def __init__(self) -> None:
        self.sum = 0.0

    def add(self, value: float, fading: float) -> None:
        """Multiply what there is by `fading`, and add to it."""
        self.sum = self.sum * fading + value


def _retry(seconds: float) -> int:
    """Return a number of seconds for Retry-After."""
    return max(math.ceil(min(seconds, MOST_RETRY_SECONDS)), 1)
