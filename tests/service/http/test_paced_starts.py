"""Of requests that arrive at once, a few begin in each round of the event loop, in their order."""

import asyncio
from functools import partial

import pytest

from service.http import paced_starts
from service.http.paced_starts import MOST_IN_A_ROUND, PacedStarts
from tests.samples.raw_http_server import GET, ask, running

pytestmark = pytest.mark.anyio


async def test_a_few_begin_in_a_round_in_the_order_in_which_they_came():
    starts, begun, rounds = PacedStarts(), [], []
    for place in range(3 * MOST_IN_A_ROUND):
        if starts.may_begin():
            begun.append(place)
        else:
            starts.add(partial(begun.append, place))
    while len(begun) < 3 * MOST_IN_A_ROUND:
        rounds.append(len(begun))
        await asyncio.sleep(0)
    assert begun == sorted(begun)
    assert rounds == [MOST_IN_A_ROUND, 2 * MOST_IN_A_ROUND]
    await asyncio.sleep(0)
    assert starts.may_begin()


async def test_who_comes_later_begins_later():
    starts, begun = PacedStarts(), []
    for place in range(2 * MOST_IN_A_ROUND):
        if not starts.may_begin():
            starts.add(partial(begun.append, place))
    await asyncio.sleep(0)
    assert len(begun) == MOST_IN_A_ROUND
    assert not starts.may_begin()


def test_a_probe_waits_for_none_of_them(monkeypatch):
    with running() as server, server.connect() as waiting, server.connect() as probe:
        with monkeypatch.context() as none_begins:
            none_begins.setattr(paced_starts, "MOST_IN_A_ROUND", 0)
            waiting.sendall(GET)
            ask(probe, GET.replace(b"/x", b"/health/live"))
            waiting.settimeout(0.05)
            with pytest.raises(TimeoutError):
                waiting.recv(1000)
        waiting.settimeout(10)
        ask(probe, GET)  # begins a round
        assert waiting.recv(1000).startswith(b"HTTP/1.1 200")
