"""The open connections of one port, bounded: an idle one gives way to a new one, before a new one is refused."""

from collections import OrderedDict
from collections.abc import Sized
from typing import Protocol

from prometheus_client import Counter

MOST_REFUSED = 32
"""Refused connections that may read their refusal at the same time, beside those that are open."""


class Connection(Protocol):
    """One connection, as its table sees it."""

    def give_way(self) -> bool:
        """Close, unless something would be lost; return whether it closes."""

    def give_up(self) -> None:
        """Close at once."""


class OpenConnections(Sized):
    """All connections of one port, those that are idle in the order in which they became so."""

    def __init__(self, most: int, gave_way: Counter) -> None:
        self.most = most
        self._gave_way = gave_way
        self._open: set[Connection] = set()
        # these are ordered dictionaries since the first item of a plain one takes long to find once many were removed
        self._idle: OrderedDict[Connection, None] = OrderedDict()
        self._refused: OrderedDict[Connection, None] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of open connections, without those that were refused."""
        return len(self._open)

    def admit(self, connection: Connection) -> bool:
        """Add a connection, for which the one that has been idle for longest may have to give way.

        If none is idle, the connection is refused: return False, and keep it until it has read its refusal.
        """
        if len(self._open) >= self.most and not self._make_room():
            self._refused[connection] = None
            if len(self._refused) > MOST_REFUSED:
                self._refused.popitem(last=False)[0].give_up()
            return False
        self._open.add(connection)
        return True

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._refused.pop(connection, None)

    def note_idle(self, connection: Connection) -> None:
        """From now on this connection may have to give way."""
        if connection in self._open:
            self._idle[connection] = None

    def note_busy(self, connection: Connection) -> None:
        """The connection has a request."""
        self._idle.pop(connection, None)

    def _make_room(self) -> bool:
        idle = next((one for one in self._idle if one.give_way()), None)
        if idle is None:
            return False
        self.remove(idle)  # it tells us later, in another turn of the loop
        self._gave_way.inc()
        return True
