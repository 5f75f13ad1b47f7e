"""Budgets: what may wait, for how long, and when a refused client should come again."""

import time

import pytest

from service.batching.admission import MANY_INPUTS, WAITING_SHARE, Backlog, Bound, Budget, Rate
from service.batching.fair_queue import Caller
from service.errors import Busy, TooLarge

BATCH = Caller(priority="batch")


def backlog(seconds):
    """Return a backlog in which work may wait for so long."""
    return Backlog(seconds / WAITING_SHARE)


def test_batch_work_leaves_room_for_what_is_interactive():
    budget = Budget("queue", 100)
    budget.take(45)
    with pytest.raises(Busy, match="queue: at most 50 may wait, given 10 more on top of 45"):
        budget.take(10, BATCH)
    budget.take(55)


def test_a_full_budget_refuses_and_says_when_to_come_again():
    budget = Budget("queue", 100)
    budget.spent(5, seconds=2.0)  # 2.5 a second
    budget.take(45, caller=Caller("a", 1))
    budget.take(45, caller=Caller("a", 2))
    with pytest.raises(Busy, match="queue: at most 100 may wait, given 20 more on top of 90") as refused:
        budget.take(20, caller=Caller("a", 3))
    assert refused.value.headers == {"Retry-After": "4"}
    assert budget.held == 90
    with budget.permit(10):
        assert budget.held == 100
    assert budget.held == 90


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
        budget.take(100, BATCH)
    budget.take(1, BATCH)  # what is interactive is served ten times as much until then, and no more
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


def test_a_request_alone_is_admitted_whatever_it_costs_if_it_can_end_in_time():
    budget = Budget("queue", 100, Backlog(10), less="send less", even=True)
    with budget.permit(10_000):
        pass  # as long as nothing is known of the time
    budget.spent(1, seconds=0.5)
    budget.spent(10, seconds=0.1)  # the fastest run counts: what takes longer may have been small, or the machine busy
    with budget.permit(1000):
        pass
    with (
        pytest.raises(TooLarge, match="queue: at most 10 seconds of work, this takes about 11; send less"),
        budget.permit(1100),
    ):
        pass
    assert budget.held == 0


def test_many_inputs_of_one_request_fit_into_the_budget_together():
    budget = Budget("queue", 100, less="send fewer inputs")
    words = f"queue: at most 100 for {MANY_INPUTS + 1} inputs, these take 101; send fewer inputs"
    with pytest.raises(TooLarge, match=words), budget.permit(101, inputs=MANY_INPUTS + 1):
        pass
    assert budget.held == 0
    for cost, inputs in ((101, MANY_INPUTS), (100, MANY_INPUTS + 1)):
        with budget.permit(cost, inputs=inputs):
            assert budget.held == cost


def test_the_fastest_run_is_forgotten(monkeypatch):
    budget, now = Budget("queue", 100, Backlog(10), even=True), time.monotonic()
    budget.tried(1, seconds=1.0)
    with pytest.raises(TooLarge):
        budget.take(11)
    monkeypatch.setattr(time, "monotonic", lambda: now + 130)
    budget.take(11)


def test_what_short_texts_took_refuses_no_long_one():
    budget = Budget("queue", 10_000, Backlog(10))
    budget.spent(1, seconds=1.0)
    budget.take(1000)


def test_what_would_end_too_late_behind_others_is_refused():
    budget = Budget("queue", 10_000, Backlog(10), even=True)
    budget.spent(100, seconds=1.0)
    budget.take(300)
    with pytest.raises(Busy, match=r"queue: at most 10 seconds, this would end after 11, 3\.0 of which it waits"):
        budget.take(800)
    budget.take(600)


def test_one_that_holds_much_does_not_keep_others_out():
    budget = Budget("queue", 100)
    budget.take(45, caller=Caller("flood", 1))
    budget.take(45, caller=Caller("flood", 2))
    with pytest.raises(Busy):
        budget.take(20, caller=Caller("flood", 3))
    budget.take(40, caller=Caller("other"))
    budget.take(10, caller=Caller("other"))
    with pytest.raises(Busy, match="queue: at most 50 of one client of 2 may wait, given 10 more on top of 50"):
        budget.take(10, caller=Caller("other"))
    budget.take(500, caller=Caller("large"))  # one thing, however large
    with pytest.raises(Busy, match="33 of one client of 3"):
        budget.take(1, caller=Caller("large"))
    budget.give_back(45, caller=Caller("flood", 1))
    budget.give_back(45, caller=Caller("flood", 2))
    budget.give_back(50, caller=Caller("other"))
    budget.give_back(500, caller=Caller("large"))
    assert (budget.held, budget._flows) == (0, {})


def test_a_large_request_leaves_room_for_small_ones_of_its_client():
    """Its parts take turns with them, so that they wait for no more of it than they bring."""
    budget = Budget("queue", 100, backlog(10))
    budget.spent(10, seconds=1.0)
    budget.take(200, caller=Caller("a", "large"))
    for number in range(5):
        budget.take(10, caller=Caller("a", number))
    with pytest.raises(Busy, match="at most 100 may wait, given 10 more on top of 100"):
        budget.take(10, caller=Caller("a", "late"))


def test_a_client_alone_may_fill_the_whole_budget_and_leaves_it_when_others_come():
    bound = Bound("queue", 100)
    for _ in range(10):
        bound.take(10, caller=Caller("a"))
    bound.take(10, caller=Caller("b"))
    with pytest.raises(Busy):
        bound.take(10, caller=Caller("a"))
    for _ in range(6):
        bound.give_back(10, caller=Caller("a"))
    bound.take(10, caller=Caller("a"))


def test_the_wait_of_one_that_comes_is_what_is_served_before_it():
    """It waits for as much of each other client as it brings itself, not for all that they have brought."""
    budget = Budget("queue", 10_000, backlog(10))
    budget.spent(100, seconds=1.0)
    budget.take(950, caller=Caller("flood"))
    budget.take(100, caller=Caller("other"))
    with pytest.raises(Busy, match="given 10"):
        budget.take(950, caller=Caller("another"))
    budget.take(300, caller=Caller("another"))


def test_batch_work_does_not_keep_out_what_is_interactive():
    budget = Budget("queue", 10_000, backlog(10))
    budget.spent(100, seconds=1.0)
    budget.take(520, caller=Caller("flood", priority="batch"))
    with pytest.raises(Busy):
        budget.take(100, caller=Caller("flood", priority="batch"))
    for _ in range(90):
        budget.take(10, caller=Caller("other"))


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
    assert together.seconds(small, small.seconds) == pytest.approx(4.0)
    assert together.seconds(large, large.seconds) == pytest.approx(11.0)
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
