"""The table of open connections; what it means at a socket is in test_bounded_protocol.py."""

from prometheus_client import Counter

from service.http.open_connections import MOST_REFUSED, OpenConnections


class Fake:
    """A connection that gives way if nothing has arrived on it."""

    def __init__(self):
        self.arrived, self.closed = False, False

    def give_way(self):
        self.closed = not self.arrived
        return self.closed

    def give_up(self):
        self.closed = True


def table(most):
    return OpenConnections(most, Counter("gave_way", "-", registry=None))


def test_the_one_that_is_idle_for_longest_gives_way_unless_a_request_has_arrived():
    open_, (first, second, third, new) = table(3), (Fake() for _ in range(4))
    for connection in (first, second, third):
        assert open_.admit(connection)
        open_.note_idle(connection)
    open_.note_busy(first)
    open_.note_idle(first)  # now the youngest
    second.arrived = True
    assert open_.admit(new)
    assert (first.closed, second.closed, third.closed, new.closed) == (False, False, True, False)
    assert len(open_.open) == 3


def test_those_that_discard_give_way_after_those_that_are_idle_the_oldest_first():
    open_, (first, second, idle) = table(3), (Fake() for _ in range(3))
    for connection in (first, second, idle):
        assert open_.admit(connection)
        open_.note_idle(connection)
    open_.note_discarding(first)
    open_.note_discarding(second)
    closed = []
    for _ in range(3):
        assert open_.admit(Fake())
        closed.append([one.closed for one in (idle, first, second)])
    assert closed == [[True, False, False], [True, True, False], [True, True, True]]
    assert not open_.admit(Fake())


def test_what_was_discarding_is_idle_or_busy_after_that():
    open_, (first, second) = table(2), (Fake() for _ in range(2))
    for connection in (first, second):
        assert open_.admit(connection)
        open_.note_discarding(connection)
    open_.note_idle(second)
    open_.note_busy(first)
    assert open_.admit(Fake())
    assert (first.closed, second.closed) == (False, True)
    assert not open_.admit(Fake())


def test_without_an_idle_one_a_connection_is_refused_and_only_so_many_of_those_are_kept():
    open_, busy = table(1), Fake()
    assert open_.admit(busy)
    refused = [Fake() for _ in range(MOST_REFUSED + 3)]
    assert not any(open_.admit(one) for one in refused)
    assert [one.closed for one in refused] == [True] * 3 + [False] * MOST_REFUSED
    open_.note_idle(refused[-1])
    assert not open_.admit(Fake()), "a refused one is not open, so it makes no room"
    open_.remove(busy)
    assert open_.admit(Fake())
