"""Budgets: what may wait, for how long, and when a refused client should come again."""

import pytest

from service.batching.admission import WAITING_SHARE, Budget
from service.errors import Busy


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def work(budget, clock, cost, seconds, times=20):
    """Do work of a cost, each in so many seconds, until the budget knows its rate."""
    for _ in range(times):
        with budget.permit(cost):
            clock.now += seconds


def test_batch_work_leaves_room_for_what_is_interactive():
    budget = Budget("queue", 100)
    budget.take(45)
    with pytest.raises(Busy, match="queue: at most 50 may wait, given 10 more on top of 45"):
        budget.take(10, "batch")
    budget.take(55, "interactive")


def test_a_full_budget_refuses_and_says_when_to_come_again(clock):
    budget = Budget("queue", 100, clock=clock)
    work(budget, clock, 5, seconds=2.0)
    with budget.permit(90):
        with (
            pytest.raises(Busy, match="queue: at most 100 may wait, given 20 more on top of 90") as refused,
            budget.permit(20),
        ):
            pass
        assert refused.value.headers == {"Retry-After": "4"}  # 10 too many, of which 2.5 are done in a second
        with budget.permit(10):
            assert budget.held == 100
    assert budget.held == 0


def test_a_budget_is_given_back_when_the_work_fails():
    budget = Budget("queue", 100)
    with pytest.raises(ValueError, match="broken"), budget.permit(60):
        raise ValueError("broken")
    assert budget.held == 0


def test_work_that_would_wait_beyond_a_share_of_the_deadline_is_refused(clock):
    budget = Budget("queue", 1_000_000, deadline=10 / WAITING_SHARE, clock=clock)
    work(budget, clock, 100, seconds=2.0)  # 50 a second, so 500 wait for ten seconds
    budget.take(500)
    budget.take(1)
    with pytest.raises(Busy, match="queue: at most 10 seconds of work may wait, given 10") as refused:
        budget.take(1)
    assert refused.value.headers == {"Retry-After": "1"}
    with pytest.raises(Busy, match="at most 5 seconds of work may wait"):
        budget.take(1, "batch")
    assert budget.room == pytest.approx(500, abs=1)
    budget.give_back(300)
    budget.take(1)


def test_a_request_alone_is_admitted_however_long_it_takes(clock):
    budget = Budget("queue", 100, deadline=1.0, clock=clock)
    work(budget, clock, 1, seconds=10.0)
    with budget.permit(1000):
        pass


def test_nothing_is_refused_for_its_time_before_a_rate_is_known(clock):
    budget = Budget("queue", 1000, deadline=1.0, clock=clock)
    for _ in range(10):
        budget.take(100)
        clock.now += 100
    assert budget.room == 1000


def test_the_rate_follows_a_device_that_becomes_slower(clock):
    budget = Budget("queue", 1000, clock=clock)
    work(budget, clock, 10, seconds=0.1, times=1000)
    assert budget.seconds(100) == pytest.approx(1.0, rel=0.01)
    work(budget, clock, 10, seconds=1.0, times=80)
    assert budget.seconds(100) == pytest.approx(10.0, rel=0.05)


def test_time_without_work_does_not_count(clock):
    budget = Budget("queue", 1000, clock=clock)
    for _ in range(50):
        work(budget, clock, 10, seconds=0.1, times=1)
        clock.now += 1000
    assert budget.seconds(100) == pytest.approx(1.0, rel=0.01)


def test_what_is_given_back_unfinished_does_not_make_the_rate_look_higher(clock):
    budget = Budget("queue", 1000, clock=clock)
    work(budget, clock, 10, seconds=1.0, times=50)
    before = budget.seconds(100)
    for _ in range(5):
        with budget.reserve(500):
            pass
        with pytest.raises(ValueError, match="broken"), budget.permit(500):
            raise ValueError("broken")
    assert budget.seconds(100) == before


def test_a_cost_that_is_a_bound_is_learned_by_how_little_of_it_is_used(clock):
    """Requests that may take a hundred tokens and end after ten are done ten times as fast as their bound says."""
    budget = Budget("queue", 10_000, deadline=10 / WAITING_SHARE, clock=clock)
    work(budget, clock, 100, seconds=0.1)
    for _ in range(100):
        budget.take(100)
    with pytest.raises(Busy):
        budget.take(100)
