"""When a server that fails is left alone, and when it is tried again."""

import pytest

from service.store.circuit_breaker import CircuitBreaker


@pytest.fixture
def now():
    return [100.0]


@pytest.fixture
def breaker(now):
    return CircuitBreaker(3, 5.0, clock=lambda: now[0])


def test_it_opens_after_so_many_failures_in_a_row_and_says_so_once(breaker):
    assert [breaker.fail(), breaker.fail(), breaker.succeed()] == [False, False, False]
    assert [breaker.fail() for _ in range(5)] == [False, False, True, False, False]
    assert breaker.open
    assert not breaker.allows()
    assert breaker.seconds_left == 5


def test_while_it_is_open_it_allows_one_probe_at_a_time(breaker, now):
    for _ in range(3):
        breaker.fail()
    now[0] += 4.9
    assert not breaker.allows()
    now[0] += 0.1
    assert [breaker.allows() for _ in range(4)] == [True, False, False, False]
    now[0] += 5.0  # the probe never said what became of it
    assert [breaker.allows() for _ in range(2)] == [True, False]
    breaker.fail()
    now[0] += 4.9
    assert not breaker.allows()


def test_one_success_closes_it(breaker, now):
    for _ in range(3):
        breaker.fail()
    now[0] += 5
    assert breaker.allows()
    assert [breaker.succeed(), breaker.succeed()] == [True, False]
    assert not breaker.open
    assert all(breaker.allows() for _ in range(10))
    assert breaker.seconds_left == 0
