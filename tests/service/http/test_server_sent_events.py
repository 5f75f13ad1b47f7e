"""Streams of events: they are produced at their own pace, and what is not read has a bound."""

import asyncio
import contextlib
import json

import pytest

from service.batching.admission import Budget
from service.errors import Unacceptable
from service.http.server_sent_events import EventStream, event

pytestmark = pytest.mark.anyio
SCOPE = {"type": "http", "asgi": {"spec_version": "2.3"}}


class Client:
    """Reads a stream once it is let."""

    def __init__(self):
        self.may_read, self.left = asyncio.Event(), asyncio.Event()
        self.read = b""

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        await self.may_read.wait()
        self.read += message.get("body", b"")

    @property
    def events(self):
        """The names and documents of what was read."""
        found = [one.split("\n") for one in self.read.decode().split("\n\n") if one]
        return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in found]


def numbers(count, done=None):
    async def produce(send):
        for number in range(count):
            send(event("number", {"number": number}))
            await asyncio.sleep(0)
        if done:
            done.set()

    return produce


async def test_what_is_held_is_given_back_when_all_is_produced_though_nothing_is_read():
    client, done, held, unread = Client(), asyncio.Event(), contextlib.ExitStack(), Budget("unread", 10**6)
    given_back = asyncio.Event()
    held.callback(given_back.set)
    stream = EventStream(numbers(100, done), 60, held, unread)
    sending = asyncio.create_task(stream(SCOPE, client.receive, client.send))
    await done.wait()
    await given_back.wait()
    assert not client.read
    assert unread.held == sum(len(event("number", {"number": number})) for number in range(100))
    client.may_read.set()
    await sending
    assert client.events == [("number", {"number": number}) for number in range(100)]
    assert unread.held == 0


async def test_a_stream_beyond_the_bound_of_unread_bytes_ends_with_an_error():
    client, unread = Client(), Budget("unread", 300)
    sending = asyncio.create_task(
        EventStream(numbers(100), 60, contextlib.ExitStack(), unread)(SCOPE, client.receive, client.send)
    )
    await asyncio.sleep(0.05)
    client.may_read.set()
    await sending
    *read, (name, last) = client.events
    assert 0 < len(read) < 100
    assert [one["number"] for _, one in read] == list(range(len(read)))
    assert (name, last["status"]) == ("error", 429)
    assert last["detail"].startswith("unread: at most 300 may wait")
    assert unread.held == 0


async def test_the_deadline_ends_a_stream_with_an_error_also_for_a_client_that_reads_later():
    async def produce(send):
        send(event("number", {"number": 0}))
        await asyncio.sleep(60)

    client = Client()
    stream = EventStream(produce, 0.05, contextlib.ExitStack(), Budget("unread", 10**6))
    sending = asyncio.create_task(stream(SCOPE, client.receive, client.send))
    await asyncio.sleep(0.2)
    client.may_read.set()
    await sending
    expected = {"status": 504, "detail": "request: at most 0.05 seconds, given up"}
    assert client.events == [("number", {"number": 0}), ("error", expected)]


class Panic(BaseException):
    """What a tokenizer may raise."""


@pytest.mark.parametrize(
    ("failure", "status"),
    [(Unacceptable("input: must be one, given another"), 422), (ValueError(), 500), (Panic(), 500)],
)
async def test_a_failure_ends_a_stream_with_an_error(failure, status):
    async def produce(send):
        send(event("number", {"number": 0}))
        raise failure

    client = Client()
    client.may_read.set()
    await EventStream(produce, 60, contextlib.ExitStack(), Budget("unread", 10**6))(SCOPE, client.receive, client.send)
    assert [(name, one.get("status")) for name, one in client.events] == [("number", None), ("error", status)]


async def test_a_client_that_leaves_ends_the_work():
    ended, given_back = asyncio.Event(), asyncio.Event()

    async def produce(send):
        try:
            send(event("number", {"number": 0}))
            await asyncio.sleep(60)
        finally:
            ended.set()

    client, held, unread = Client(), contextlib.ExitStack(), Budget("unread", 10**6)
    held.callback(given_back.set)
    client.may_read.set()
    sending = asyncio.create_task(EventStream(produce, 60, held, unread)(SCOPE, client.receive, client.send))
    await asyncio.sleep(0.01)
    client.left.set()
    await sending
    await ended.wait()
    await given_back.wait()
    assert unread.held == 0


async def test_a_stream_that_is_never_sent_gives_back_what_it_holds():
    given_back, held = asyncio.Event(), contextlib.ExitStack()
    held.callback(given_back.set)
    EventStream(numbers(3), 60, held, Budget("unread", 10**6)).close()  # before its task has begun to run
    await given_back.wait()
