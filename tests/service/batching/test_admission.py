"""Budgets: what may wait, for how long, and when a refused client should come again."""

import time

import pytest

from service.batching.admission import WAITING_SHARE, Backlog, Budget, Rate
from service.errors import Busy


def backlog(seconds):
    """Return a backlog in which work may wait for so long."""
    return Backlog(seconds / WAITING_SHARE)


def test_batch_work_leaves_room_for_what_is_interactive():
    budget = Budget("queue", 100)
    budget.take(45)
    with pytest.raises(Busy, match="queue: at most 50 may wait, given 10 more on top of 45"):
        budget.take(10, "batch")
    budget.take(55, "interactive")


def test_a_full_budget_refuses_and_says_when_to_come_again():
    budget = Budget("queue", 100)
    budget.spent(5, seconds=2.0)  # 2.5 a second
    with budget.permit(90):
        with (
            pytest.raises(Busy, match="queue: at most 100 may wait, given 20 more on top of 90") as refused,
            budget.permit(20),
        ):
            pass
        assert refused.value.headers == {"Retry-After": "4"}
        with budget.permit(10):
            assert budget.held == 100
    assert budget.held == 0


def test_a_budget_is_given_back_when_the_work_fails():
    budget = Budget("queue", 100)
    with pytest.raises(ValueError, match="broken"), budget.permit(60):
        raise ValueError("broken")
    assert budget.held == 0


def test_work_that_would_wait_beyond_a_share_of_the_deadline_is_refused():
    budget = Budget("queue", 1_000_000, backlog(10))
    budget.spent(100, seconds=2.0)  # 50 a second, so 500 wait for ten seconds
    budget.take(500)
    budget.take(5)
    with pytest.raises(Busy, match=r"queue: at most 10 seconds of work may wait, given 10\.1") as refused:
        budget.take(1)
    assert refused.value.headers == {"Retry-After": "1"}
    assert budget.room == 500
    budget.give_back(300)
    budget.take(1)


def test_work_of_priority_batch_may_wait_for_half_of_the_time():
    budget = Budget("queue", 1_000_000, backlog(10))
    budget.spent(100, seconds=2.0)
    budget.take(300)
    with pytest.raises(Busy, match="at most 5 seconds of work may wait, given 6"):
        budget.take(1, "batch")
    budget.take(1)


def test_what_is_done_together_does_not_wait():
    """A burst that one batch can take is admitted, though one after another its requests would take for ever."""
    budget = Budget("queue", 1_000_000, backlog(10), at_once=640)
    budget.spent(10, seconds=1.0)
    for _ in range(64):
        budget.take(10)
    assert budget.seconds == 0
    for _ in range(11):
        budget.take(10)
    with pytest.raises(Busy, match="given 11"):
        budget.take(10)
    assert budget.room == 640 + 100


def test_a_request_alone_is_admitted_however_long_it_takes():
    budget = Budget("queue", 100, backlog(1))
    budget.spent(1, seconds=10.0)
    with budget.permit(1000):
        pass


def test_nothing_is_refused_for_its_time_before_a_rate_is_known():
    budget = Budget("queue", 1000, backlog(1))
    for _ in range(10):
        budget.take(100)
    assert budget.room == 1000


def test_the_rate_follows_a_device_that_becomes_slower():
    budget = Budget("queue", 1000)
    budget.take(100)
    for _ in range(1000):
        budget.spent(10, seconds=0.1)
    assert budget.seconds == pytest.approx(1.0, rel=0.01)
    for _ in range(80):
        budget.spent(10, seconds=1.0)
    assert budget.seconds == pytest.approx(10.0, rel=0.05)


def test_work_beside_the_device_counts():
    budget = Budget("queue", 1000)
    budget.take(100)
    for _ in range(100):
        budget.spent(10, seconds=0.1)
        budget.spent(0, seconds=0.3)
    assert budget.seconds == pytest.approx(4.0, rel=0.05)


def test_a_cost_that_is_a_bound_is_learned_by_how_little_of_it_is_used():
    """Requests that may take a hundred tokens and end after ten are done ten times as fast as their bound says."""
    budget = Budget("queue", 100_000, backlog(10))
    budget.spent(10, seconds=0.1)
    for _ in range(20):
        budget.used(10, admitted=100)
    for _ in range(100):
        budget.take(100)
    assert budget.seconds == pytest.approx(10.0)


def test_clients_that_leave_or_send_what_is_refused_do_not_make_the_rate_look_lower():
    budget = Budget("queue", 1000, backlog(10))
    budget.spent(10, seconds=0.1)
    for _ in range(50):
        with pytest.raises(ValueError, match="broken"), budget.permit(500):
            raise ValueError("broken")
    budget.take(100)
    assert budget.seconds == pytest.approx(1.0)


def test_queues_of_one_device_wait_for_each_other_in_turns():
    together = backlog(10)
    large, small = Budget("large", 10_000, together), Budget("small", 10_000, together)
    large.spent(10, seconds=1.0)
    small.spent(10, seconds=1.0)
    large.take(90)
    small.take(20)  # 2 seconds of its own, and as much of the other
    assert together.seconds(small) == pytest.approx(4.0)
    assert together.seconds(large) == pytest.approx(11.0)
    with pytest.raises(Busy, match="large: at most 10 seconds"):
        large.take(1)
    small.take(1)
    small.give_back(21)
    large.take(1)


def test_how_long_work_takes_is_known_for_a_while_after_some_was_done(monkeypatch):
    rate = Rate()
    assert rate.seconds_for(100) == 0
    rate.spent(5, seconds=2.0)
    assert rate.seconds_for(100) == pytest.approx(40)
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert rate.seconds_for(100) == 0, "it is tried again, since a machine may have been busy"
