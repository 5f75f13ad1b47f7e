"""Requests begin a few at a time, so that hundreds that arrive at once hold up no probe and no answer of others."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable

MOST_IN_A_ROUND = 8
"""Requests that begin in one round of the event loop. Each takes about a millisecond until it first waits."""


class PacedStarts:
    """Begins requests in the order in which they came, MOST_IN_A_ROUND in each round of the event loop."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._begun = 0
        """How many have begun in this round."""
        self._context = contextvars.copy_context()
        """The server's own context variables, so that no request begins with those of another one."""

    def may_begin(self) -> bool:
        """True if one more request may begin in this round, and count it as begun; otherwise give it to `add`."""
        if self._begun >= MOST_IN_A_ROUND:
            return False
        if not self._begun:
            asyncio.get_running_loop().call_soon(self._next_round, context=self._context)
        self._begun += 1
        return True

    def add(self, begin: Callable[[], None]) -> None:
        """Call `begin` in a later round."""
        self._waiting.append(begin)

    def _next_round(self) -> None:
        self._begun = 0
        while self._waiting and self.may_begin():
            self._waiting.popleft()()
