"""Admission: how much work may wait, and which work goes first."""

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Literal, TypeAlias

from service.errors import Busy

Priority: TypeAlias = Literal["interactive", "batch"]

BATCH_DELAY_SECONDS = 2.0
"""Work of priority `batch` is sorted as if it had arrived so much later; interactive work of that time goes first."""
BUDGET_SHARE = {"interactive": 1.0, "batch": 0.5}
"""The share of a budget that work of each priority may fill, so that there is always room for interactive work."""


def due(priority: Priority) -> float:
    """Return the time (monotonic) by which work queued now is sorted."""
    return time.monotonic() + (BATCH_DELAY_SECONDS if priority == "batch" else 0.0)


class Budget:
    """A bound on the cost of all work that was admitted and is not finished, in units of the caller's choice."""

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit
        self.held = 0
        self._rate = 0.0  # cost per second, a moving average

    @contextlib.contextmanager
    def permit(self, cost: int, priority: Priority = "interactive") -> Iterator[None]:
        """Hold `cost` for the length of a block. Raises Busy as `take` does."""
        self.take(cost, priority)
        try:
            yield
        finally:
            self.give_back(cost)

    def take(self, cost: int, priority: Priority = "interactive") -> None:
        """Hold `cost` until it is given back. Raises Busy if it does not fit beside what is held.

        A request alone is admitted whatever it costs: other limits bound the cost of one request.
        """
        limit = int(self.limit * BUDGET_SHARE[priority])
        if self.held and self.held + cost > limit:
            seconds = math.ceil((self.held + cost - limit) / self._rate) if self._rate else 1
            raise Busy(
                f"{self.name}: at most {limit} may wait, given {cost} more on top of {self.held}",
                seconds=min(max(seconds, 1), 60),
            )
        self.held += cost

    def give_back(self, cost: int) -> None:
        """Hold `cost` no longer."""
        self.held -= cost

    def spent(self, cost: int, seconds: float) -> None:
        """Learn the rate from a finished batch."""
        rate = cost / max(seconds, 1e-6)
        self._rate = rate if not self._rate else 0.8 * self._rate + 0.2 * rate
