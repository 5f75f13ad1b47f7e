"""Fair queueing: who is served next, whatever each client brings."""

import random
from collections import Counter

import pytest

from service.batching import fair_queue
from service.batching.fair_queue import Caller, FairQueue


class Item:
    def __init__(self, client, cost=1):
        self.client, self.cost = client, cost


def bring(queue, client, count=1, cost=1, request=None, priority="interactive"):
    items = [Item(client, cost) for _ in range(count)]
    for item in items:
        queue.add(item, cost, Caller(client, request, priority))
    return items


def serve(queue, count):
    """Serve one item after the other; return the clients that they are of."""
    served = []
    for _ in range(count):
        item = next(iter(queue))
        queue.take([item])
        served.append(item.client)
    return served


def test_a_client_alone_is_served_in_the_order_in_which_it_asks():
    queue = FairQueue()
    items = bring(queue, "a", 5)
    assert list(queue) == items
    assert len(queue) == 5


def test_one_that_brings_little_is_next_whatever_another_has_brought():
    queue = FairQueue()
    bring(queue, "flood", 1000)
    assert serve(queue, 10) == ["flood"] * 10
    bring(queue, "other")
    assert "other" in serve(queue, 2)


def test_clients_are_served_as_much_by_cost_not_by_number():
    queue = FairQueue()
    bring(queue, "large", 100, cost=10)
    bring(queue, "small", 1000)
    served = Counter(serve(queue, 220))
    assert served == {"large": 20, "small": 200}


def test_what_is_batch_waits_behind_others_and_goes_on():
    queue = FairQueue()
    bring(queue, "a", 100, priority="batch")
    bring(queue, "b", 100)
    served = serve(queue, 110)
    assert served[:9] == ["b"] * 9, "an item of it takes ten times as long"
    assert served.count("a") == 10


def test_one_client_s_batch_does_not_hold_up_its_other_work():
    queue = FairQueue()
    bring(queue, "batch", 100, priority="batch")
    queue.take(list(queue)[:3])
    now = bring(queue, "batch")
    assert next(iter(queue)) is now[0]


def test_requests_of_a_client_take_turns():
    queue = FairQueue()
    large = bring(queue, "a", 4, request="large")
    first = serve(queue, 1)
    small = bring(queue, "a", 2, request="small")
    assert first == ["a"]
    assert list(queue) == [large[1], small[0], large[2], small[1], large[3]]
    queue.take([large[1]])
    assert next(iter(queue)) is small[0]


def test_nobody_saves_up_while_it_asks_nothing():
    queue = FairQueue()
    bring(queue, "busy", 1000)
    bring(queue, "sleeper")
    serve(queue, 500)
    bring(queue, "sleeper", 1000)
    served = serve(queue, 100)
    assert served.count("sleeper") == 50


def test_one_that_leaves_and_comes_again_does_not_begin_anew():
    """It asks for one large thing at a time, and is not served twice as much as one who asks for all at once."""
    queue, served = FairQueue(), Counter()
    bring(queue, "all at once", 1000, cost=5)
    for _ in range(200):
        if not any(item.client == "one at a time" for item in queue):
            bring(queue, "one at a time", cost=5)
        item = next(iter(queue))
        queue.take([item])
        served[item.client] += item.cost
    assert served["one at a time"] == pytest.approx(served["all at once"], rel=0.02)


@pytest.mark.parametrize("priority", ["interactive", "batch"])
def test_a_large_item_is_served_though_another_client_comes_each_time(priority):
    queue = FairQueue()
    (large,) = bring(queue, "large", cost=20, priority=priority)
    for number in range(500):
        bring(queue, number)
        serve(queue, 1)
        if large not in queue:
            break
    assert number <= 20 * 10
    assert len(queue._ahead) <= fair_queue.MOST_AHEAD + 1


def test_what_a_batch_takes_along_does_not_set_the_clock():
    """Its leader does: what comes then does not begin behind all that was taken with it."""
    queue = FairQueue()
    queue.take(bring(queue, "a", 50, cost=10)[:40])
    bring(queue, "b", 5, cost=10)
    (late,) = bring(queue, "c")
    assert next(iter(queue)) is late


def test_what_is_skipped_keeps_its_place():
    queue = FairQueue()
    first, second, third = (bring(queue, name)[0] for name in "abc")
    queue.take([first, third])
    assert list(queue) == [second]
    queue.remove(second)
    assert not queue
    assert second not in queue


def test_nothing_is_kept_of_clients_that_are_gone(monkeypatch):
    monkeypatch.setattr(fair_queue, "MOST_AHEAD", 10)
    queue = FairQueue()
    bring(queue, "busy", 10_000)
    for number in range(1000):
        bring(queue, number)
        serve(queue, 2)
    assert len(queue._ahead) <= 11
    serve(queue, len(queue))
    assert not queue._ahead
    assert not queue._waiting


def test_whatever_comes_and_leaves_all_is_served_once():
    chance, queue = random.Random(3), FairQueue()
    waiting, served = set(), []
    for _ in range(5000):
        act = chance.random()
        if act < 0.55:
            cost, request = chance.randrange(1, 50), chance.randrange(3)
            priority = chance.choice(["interactive", "batch"])
            waiting.update(bring(queue, chance.randrange(5), cost=cost, request=request, priority=priority))
        elif act < 0.9 and waiting:
            some = list(queue)[: chance.randrange(1, 4)]
            queue.take(some)
            waiting.difference_update(some)
            served += some
        elif waiting:
            gone = chance.choice(list(queue))
            queue.remove(gone)
            waiting.remove(gone)
        assert set(queue) == waiting
        assert len(queue) == len(waiting)
    assert len(set(served)) == len(served)
