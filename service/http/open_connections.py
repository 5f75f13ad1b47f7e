"""The open connections of one port, bounded: one without a request gives way to a new one, before that is refused."""

from collections import OrderedDict
from itertools import chain
from typing import Protocol

from prometheus_client import Counter

MOST_REFUSED = 32
"""Refused connections that may read their refusal at the same time, beside those that are open."""


class Connection(Protocol):
    """One connection, as its table sees it."""

    def give_way(self) -> bool:
        """Close, unless it has a request or an answer; return whether it closes.

        One that discards always closes, and its client may lose the answer that it was given early.
        """

    def give_up(self) -> None:
        """Close at once."""


class OpenConnections:
    """All connections of one port; those that are idle, and those that discard, each in the order of their becoming so.

    A connection discards what its client still sends of a request that was answered early.
    """

    def __init__(self, most: int, gave_way: Counter) -> None:
        self.most = most
        self._gave_way = gave_way
        self.open: set[Connection] = set()
        """All connections but those that were refused."""
        # these are ordered dictionaries since the first item of a plain one takes long to find once many were removed
        self._idle: OrderedDict[Connection, None] = OrderedDict()
        self._discarding: OrderedDict[Connection, None] = OrderedDict()
        self._refused: OrderedDict[Connection, None] = OrderedDict()

    def admit(self, connection: Connection) -> bool:
        """Add a connection. One may have to give way: that which is idle for longest, or else discards for longest.

        If there is neither, the connection is refused: return False, and keep it until it has read its refusal.
        """
        if len(self.open) >= self.most and not self._make_room():
            self._refused[connection] = None
            if len(self._refused) > MOST_REFUSED:
                self._refused.popitem(last=False)[0].give_up()
            return False
        self.open.add(connection)
        return True

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self.open.discard(connection)
        self.note_busy(connection)
        self._refused.pop(connection, None)

    def note_idle(self, connection: Connection) -> None:
        """From now on this connection may have to give way."""
        self._discarding.pop(connection, None)
        if connection in self.open:
            self._idle[connection] = None

    def note_discarding(self, connection: Connection) -> None:
        """From now on this connection may have to give way, after those that are idle."""
        self._idle.pop(connection, None)
        if connection in self.open:
            self._discarding[connection] = None

    def note_busy(self, connection: Connection) -> None:
        """The connection has a request."""
        self._idle.pop(connection, None)
        self._discarding.pop(connection, None)

    def _make_room(self) -> bool:
        gone = next((one for one in chain(self._idle, self._discarding) if one.give_way()), None)
        if gone is None:
            return False
        self.remove(gone)  # it tells us later, in another turn of the loop
        self._gave_way.inc()
        return True
