"""The work of a request ends at its deadline and when its client leaves, and only then."""

import asyncio

import pytest
from starlette.requests import Request
from starlette.responses import Response

from service.errors import Timeout, TooSlow
from service.http.answer_deadline import CLIENT_CLOSED_REQUEST, answer_in_time
from service.http.exchange import exchange_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def request_():
    request = Request({"type": "http", "headers": []})
    exchange_of(request.scope).body_arrived = True
    return request


class Work:
    """Work that goes on until it is cancelled."""

    cancelled = False

    async def run(self):
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return Response()


async def answered():
    await asyncio.sleep(0)
    return Response(status_code=207)


async def test_the_answer_is_that_of_the_work_and_nobody_is_told_of_leaving_any_more(request_):
    assert (await answer_in_time(request_, answered(), 1)).status_code == 207
    exchange_of(request_.scope).when_gone()
    await asyncio.sleep(0)
    assert not asyncio.current_task().cancelling()


async def test_at_its_deadline_work_is_cancelled(request_):
    work = Work()
    with pytest.raises(TooSlow):
        await answer_in_time(request_, work.run(), 0.02)
    assert work.cancelled
    assert not asyncio.current_task().cancelling()


async def test_a_body_that_has_not_arrived_at_the_deadline_is_the_clients_fault(request_):
    exchange_of(request_.scope).body_arrived = False
    exchange_of(request_.scope).bytes_received = 7
    with pytest.raises(Timeout, match=r"^body: at most 0.02 seconds, given up after 7 bytes$"):
        await answer_in_time(request_, Work().run(), 0.02)


@pytest.mark.parametrize("seconds", [1, 0])
async def test_work_is_cancelled_when_the_client_leaves_also_at_the_deadline(request_, seconds):
    work, exchange = Work(), exchange_of(request_.scope)
    task = asyncio.create_task(answer_in_time(request_, work.run(), seconds or 0.02))
    await asyncio.sleep(0.01)
    if not seconds:
        asyncio.get_running_loop().call_later(0.01, exchange.when_gone)
    else:
        exchange.when_gone()
        exchange.when_gone()  # it can be told twice
    try:
        assert (await task).status_code == CLIENT_CLOSED_REQUEST
    except TooSlow:
        assert not seconds  # the deadline came first
    assert work.cancelled


async def test_a_client_that_leaves_before_its_body_has_arrived_is_found_out_by_reading(request_):
    exchange_of(request_.scope).body_arrived = False
    task = asyncio.create_task(answer_in_time(request_, answered(), 1))
    await asyncio.sleep(0)
    exchange_of(request_.scope).when_gone()
    assert (await task).status_code == 207


async def test_another_cancellation_stays_one(request_):
    work = Work()
    task = asyncio.create_task(answer_in_time(request_, work.run(), 1))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.cancelled
