"""How many tokens fit into what explains a score, counted from a manifest and from a run that was tried."""

import pytest

from service.repository.models.footprint import Footprint
from service.repository.models.reach import SURE, Reach
from tests.samples.attention_queries import continuer


def lengths(count):
    return {"target": count, "target_input": count}


@pytest.fixture
def footprint():
    return Footprint(continuer().model_copy(update={"width": 12}))


def run(footprint, count):
    return footprint.run(lengths(count), by_gradient=True)


def test_memory_alone_bounds_what_was_never_tried(footprint):
    reach = Reach(footprint, run(footprint, 37), 30)
    assert reach.takes("libra", lengths(1000), 100) == 0
    assert reach.most("libra", lengths, 500, 1) == reach.most("libra", lengths, 500, 18) == 37
    assert reach.most("libra", lengths, 20, 1) == 20
    assert Reach(footprint, 1, 30).most("libra", lengths, 20, 1) == 0


def test_a_run_of_few_tokens_says_how_many_fit_before_the_deadline(footprint):
    reach = Reach(footprint, 1 << 60, 30)
    seconds = SURE * 30 * run(footprint, 8) / run(footprint, 100)
    reach.tried("libra", lengths(8), seconds, 1.0)
    assert reach.takes("libra", lengths(8), 1) == pytest.approx(seconds)
    assert reach.takes("libra", lengths(8), 5) == pytest.approx(5 * seconds)
    assert abs(reach.most("libra", lengths, 500, 1) - 100) <= 1
    assert reach.most("libra", lengths, 500, 18) < 40
    assert reach.most("relevance", lengths, 500, 1) == 500  # nobody knows how long it takes


def test_what_a_busy_machine_took_longer_for_is_forgotten(footprint):
    reach = Reach(footprint, 1 << 60, 30)
    for seconds in (3.0, 2.0, 5.0):
        reach.tried("libra", lengths(8), seconds, 1.0)
        reach.tried("relevance", lengths(8), seconds)
    assert reach.takes("libra", lengths(8), 3) == reach.takes("relevance", lengths(8), 3) == pytest.approx(6)


def test_runs_that_leave_cores_to_others_go_side_by_side(footprint):
    reach = Reach(footprint, 1 << 60, 30)
    reach.tried("libra", lengths(8), 1.0, 0.5)
    assert [reach.takes("libra", lengths(8), runs) for runs in (1, 2, 6)] == pytest.approx([1, 1, 3])
