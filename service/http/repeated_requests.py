"""Requests that are sent again at once after they were refused for lack of room: refused by their head alone."""

import asyncio
import math
import time
from collections.abc import Hashable

from starlette.datastructures import Headers
from starlette.types import Scope

from service.errors import Busy

SECONDS = 1.0
"""How long the same request of a client is refused unread; then it is judged anew."""
HELD_SECONDS = 0.04
"""One who asks again at once has its answer after so long, since else it would ask as fast as it is refused."""
MOST = 1000
"""Refused requests that are remembered."""


class RepeatedRequests:
    """What was refused a moment ago, by client, path, query and length.

    A client that does not wait as it was told would have all of its bodies read and parsed, at the cost of others.
    """

    def __init__(self) -> None:
        self._refused: dict[Hashable, tuple[float, str]] = {}
        """Until when (monotonic) each is refused, and in which words."""

    async def check(self, client: Hashable, scope: Scope, headers: Headers) -> None:
        """Raise Busy for what was refused a moment ago, in the same words, after HELD_SECONDS."""
        if not self._refused:
            return
        until, detail = self._refused.get(_name(client, scope, headers), (0.0, ""))
        if time.monotonic() < until:
            await asyncio.sleep(HELD_SECONDS)
            raise Busy(detail, math.ceil(SECONDS))

    def note(self, client: Hashable, scope: Scope, headers: Headers, refusal: Busy) -> None:
        """Note that a request was refused, if its head tells it from others: it has a length, and its path a model."""
        if "content-length" not in headers or "/models/" not in scope["path"]:
            return
        now = time.monotonic()
        if len(self._refused) >= MOST:
            self._refused = {name: known for name, known in self._refused.items() if now < known[0]}
        if len(self._refused) < MOST:
            self._refused[_name(client, scope, headers)] = now + SECONDS, refusal.detail


def _name(client: Hashable, scope: Scope, headers: Headers) -> Hashable:
    return client, scope["method"], scope["path"], scope.get("query_string"), headers.get("content-length")
