"""Admission: how much work may wait, and which work goes first."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from service.errors import Busy

Priority: TypeAlias = Literal["interactive", "batch"]

BATCH_DELAY_SECONDS = 2.0
"""Work of priority `batch` is sorted as if it had arrived so much later; interactive work of that time goes first."""
BUDGET_SHARE = {"interactive": 1.0, "batch": 0.5}
"""The share of a budget that work of each priority may fill, so that there is always room for interactive work."""
WAITING_SHARE = 0.4
"""The share of the deadline that a request may wait. The rest is for its own work, and for a rate that falls when other
queues fill too."""
RATE_SECONDS = 10.0
"""The rate is that of about so many of the last seconds in which there was work."""
MOST_RETRY_SECONDS = 60


def due(priority: Priority) -> float:
    """Return the time (monotonic) by which work queued now is sorted."""
    return time.monotonic() + (BATCH_DELAY_SECONDS if priority == "batch" else 0.0)


class Budget:
    """A bound on all work that was admitted and is not finished: on its cost, and on the time that it will take.

    The cost is in units of the caller's choice. The time is the cost that is held, divided by the rate: the cost of
    what was finished, per second of the clock in which anything was held. That includes whatever slows the work down,
    such as other queues on the same device; and where a cost is the most that something may take, as for generated
    tokens, also how little of it is used. Without a `deadline` (seconds) the time is not bounded.
    """

    def __init__(
        self,
        name: str,
        limit: int,
        deadline: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.limit = limit
        self.held = 0
        self._most_seconds = deadline * WAITING_SHARE
        self._clock = clock
        self._last = 0.0
        # the cost that was finished and the seconds in which anything was held, both fading within RATE_SECONDS
        self._finished = self._seconds = 0.0

    @contextlib.contextmanager
    def permit(self, cost: int, priority: Priority = "interactive") -> Iterator[None]:
        """Hold `cost` for the length of a block. Raises Busy as `take` does."""
        self.take(cost, priority)
        try:
            yield
        except BaseException:
            self.give_back(cost, finished=False)
            raise
        else:
            self.give_back(cost)

    @contextlib.contextmanager
    def reserve(self, cost: int, priority: Priority = "interactive") -> Iterator[None]:
        """Hold the probable `cost` of work while its true cost is found out. Raises Busy as `take` does."""
        self.take(cost, priority)
        try:
            yield
        finally:
            self.give_back(cost, finished=False)

    def take(self, cost: int, priority: Priority = "interactive") -> None:
        """Hold `cost` until it is given back. Raises Busy if there is no room for it beside what is held."""
        self.check(cost, priority)
        self.held += cost

    def give_back(self, cost: int, *, finished: bool = True) -> None:
        """Hold `cost` no longer. Work that failed or was given up says nothing of the rate: it is not `finished`."""
        self._pass_time()
        self.held -= cost
        if finished:
            self._finished += cost

    def check(self, cost: int, priority: Priority = "interactive") -> None:
        """Raise Busy if there is no room for `cost` beside what is held, or if it would wait for too long.

        A request alone is admitted whatever it costs: other limits bound the cost of one request.
        """
        self._pass_time()
        share = BUDGET_SHARE[priority]
        limit, most_seconds = int(self.limit * share), self._most_seconds * share
        if not self.held or not cost:
            return
        if self.held + cost > limit:
            over = self.seconds(self.held + cost - limit)
            raise Busy(f"{self.name}: at most {limit} may wait, given {cost} more on top of {self.held}", _retry(over))
        if (seconds := self.seconds(self.held)) > most_seconds:
            raise Busy(
                f"{self.name}: at most {most_seconds:g} seconds of work may wait, given {seconds:.1f}",
                _retry(seconds - most_seconds),
            )

    @property
    def room(self) -> int:
        """The cost that may be held: the limit, or as much as is done within the time that work may wait."""
        in_time = self._most_seconds / self.seconds(1) if self._finished else math.inf
        return int(min(self.limit, in_time))

    def seconds(self, cost: int) -> float:
        """Return how long work of such a cost will take at the rate of late; 0 if none was finished yet."""
        return cost * self._seconds / self._finished if self._finished else 0.0

    def _pass_time(self) -> None:
        """Count the time since the last call as one with work, if anything was held."""
        now = self._clock()
        if self.held:
            passed = now - self._last
            fading = math.exp(-passed / RATE_SECONDS)
            self._seconds = self._seconds * fading + passed
            self._finished *= fading
        self._last = now


def _retry(seconds: float) -> int:
    """Return a number of seconds for Retry-After."""
    return min(max(math.ceil(seconds), 1), MOST_RETRY_SECONDS)
