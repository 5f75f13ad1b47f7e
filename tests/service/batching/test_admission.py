"""Budgets: what may wait, and when a refused client should come again."""

import pytest

from service.batching.admission import Budget
from service.errors import Busy


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
