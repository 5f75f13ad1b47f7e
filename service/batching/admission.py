"""TODO: what service/batching/admission.py is."""

import contextlib
import math
import time
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Literal, TypeAlias

from service.errors import Busy

Priority: TypeAlias = Literal["interactive", "batch"]


PRIORITY: ContextVar[Priority] = ContextVar("priority", default="interactive")
"""Of the request that is being served."""


PATIENCE = 2.0
"""Seconds for which work of priority `batch` lets what is interactive go first; after that it is as good as any."""


SHARE = {"interactive": 1.0, "batch": 0.5}
"""Of a budget, what work of that priority may fill: for what is interactive there is always room."""


def due() -> float:
    """Return the time by which queued work of the current priority stands in order."""
    return time.monotonic() + (PATIENCE if PRIORITY.get() == "batch" else 0.0)


class Budget:
    """A bound on the cost of all that was admitted and is not finished, in units of the caller's choice."""

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit
        self.held = 0
        self._rate = 0.0  # cost a second, a moving average

    @contextlib.contextmanager
    def permit(self, cost: int) -> Iterator[None]:
        """Hold `cost` for the length of a block. Raises Busy as `take` does."""
        self.take(cost)
        try:
            yield
        finally:
            self.give_back(cost)

    def take(self, cost: int) -> None:
        """Hold `cost` until it is given back. Raises Busy if it does not fit beside what is held.

        Alone, a request is admitted whatever it costs: what one request may cost is limited elsewhere.
        """
        limit = int(self.limit * SHARE[PRIORITY.get()])
        if self.held and self.held + cost > limit:
            seconds = math.ceil((self.held + cost - limit) / self._rate) if self._rate else 1
            raise Busy(
                f"{self.name}: at most {limit} may wait, given {cost} more on top of {self.held}",
                seconds=min(max(seconds, 1), 60),
            )
        self.held += cost

    def give_back(self, cost: int) -> None:
        """End holding `cost`."""
        self.held -= cost

    def spent(self, cost: int, seconds: float) -> None:
        """Learn the rate from a finished batch."""
        rate = cost / max(seconds, 1e-6)
        self._rate = rate if not self._rate else 0.8 * self._rate + 0.2 * rate
