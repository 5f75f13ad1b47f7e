"""A queue that is full for a client."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from service.batching.admission import Budget
from service.batching.fair_queue import Caller

HTTP = "testclient"
"""The address of Starlette's client."""
PARTS = 4
"""One request counts for no more than half of a budget."""


@contextmanager
def queue_filled(budget: Budget, room: int = 0, client: str | None = HTTP) -> Iterator[None]:
    """Hold all of a budget but `room`, as several requests of a client do, however long they may take."""
    cost = budget.limit - room
    parts = [cost // PARTS] * (PARTS - 1) + [cost - (PARTS - 1) * (cost // PARTS)]
    callers = [Caller(client, number) for number in range(PARTS)]
    with mock.patch.object(budget, "_check"):
        for part, caller in zip(parts, callers, strict=True):
            budget.take(part, caller=caller)
    try:
        yield
    finally:
        for part, caller in zip(parts, callers, strict=True):
            budget.give_back(part, caller=caller)
