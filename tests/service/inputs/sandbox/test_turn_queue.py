"""Decoders go to requests in turn."""

import asyncio

import pytest

from service.batching.fair_queue import Caller
from service.inputs.sandbox.turn_queue import TurnQueue

pytestmark = pytest.mark.anyio


class Waiters:
    """Those who wait in a queue of one item, and the order in which they were given it."""

    def __init__(self):
        self.queue, self.served, self.tasks = TurnQueue(), [], {}

    async def join(self, request, name, priority="interactive", client=None):
        async def wait():
            item = await self.queue.get(1, Caller(client, request, priority))
            self.served.append(name)
            await asyncio.sleep(0)
            self.queue.put(item)

        self.tasks[name] = asyncio.ensure_future(wait())
        await asyncio.sleep(0)

    async def done(self):
        self.queue.put("decoder")
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        assert self.queue.take_idle() == ["decoder"], "whoever waited or left, it is there again"
        return self.served


async def test_requests_take_turns():
    waiters = Waiters()
    for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
        await waiters.join(name[0], name)
    assert await waiters.done() == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_a_request_that_comes_later_has_its_turn_in_the_first_round():
    queue, served = TurnQueue(), []

    async def wait(name):
        await queue.get(1, Caller(None, name[0]))
        served.append(name)

    tasks = []
    for names in (["a0", "a1", "a2", "a3"], ["b0"], [], [], []):
        tasks += [asyncio.ensure_future(wait(name)) for name in names]
        await asyncio.sleep(0)
        queue.put("decoder")
        await asyncio.sleep(0)
    assert served == ["a0", "a1", "b0", "a2", "a3"]


async def test_a_client_that_brings_many_does_not_hold_up_another():
    waiters = Waiters()
    for number in range(5):
        await waiters.join("a", f"a{number}", client="flood")
    await waiters.join("b", "b", client="other")
    assert (await waiters.done()).index("b") <= 1


async def test_batch_goes_behind_what_is_interactive():
    waiters = Waiters()
    await waiters.join("a", "batch", priority="batch")
    await waiters.join("b", "b1")
    await waiters.join("b", "b2")
    assert await waiters.done() == ["b1", "b2", "batch"]


async def test_those_who_leave_are_passed_over_and_take_nothing_along():
    waiters = Waiters()
    for name in ("a1", "b1", "b2", "c1"):
        await waiters.join(name[0], name)
    waiters.tasks["a1"].cancel()
    waiters.tasks["b2"].cancel()
    assert await waiters.done() == ["b1", "c1"]


async def test_one_who_leaves_as_it_is_given_a_decoder_gives_it_back():
    waiters = Waiters()
    for name in ("a1", "b1"):
        await waiters.join(name[0], name)
    waiters.queue.put("decoder")  # a1 has it, and has not run since
    waiters.tasks["a1"].cancel()
    await asyncio.gather(*waiters.tasks.values(), return_exceptions=True)
    assert waiters.served == ["b1"]
    assert waiters.queue.take_idle() == ["decoder"]


async def test_the_item_put_back_last_is_taken_first():
    queue = TurnQueue()
    queue.put(1)
    queue.put(2)
    assert [await queue.get(1), await queue.get(1)] == [2, 1]
