"""Streams of events: they are produced at their own pace, and what is not taken has a bound."""

import asyncio
import contextlib
import json

import pytest
from prometheus_client import Counter

from service.errors import TooSlow, Unacceptable
from service.http.exchange import Exchange
from service.http.server_sent_events import EventStream, event
from service.http.unread_answers import SlicedAnswers, UnreadAnswers

pytestmark = pytest.mark.anyio
SCOPE = {"type": "http", "asgi": {"spec_version": "2.3"}}


def failed(status, detail):
    return event("error", {"status": status, "detail": detail})


def unread_answers(limit=10**6):
    return UnreadAnswers(limit, Counter("gave_way", "-", registry=None))


class Client:
    """Reads a stream once it is let."""

    def __init__(self):
        self.may_read, self.left = asyncio.Event(), asyncio.Event()
        self.read = b""
        self.exchange = Exchange()
        self.exchange.abort = self.left.set

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
    client, done, held, unread = Client(), asyncio.Event(), contextlib.ExitStack(), unread_answers()
    given_back, body_released = asyncio.Event(), asyncio.Event()
    held.callback(given_back.set)
    client.exchange.release_body = body_released.set
    stream = EventStream(numbers(100, done), failed, 60, held, client.exchange, unread)
    sending = asyncio.create_task(stream(SCOPE, client.receive, client.send))
    await done.wait()
    await given_back.wait()
    assert body_released.is_set()
    assert not client.read
    assert unread.held == sum(len(event("number", {"number": number})) for number in range(100))
    client.may_read.set()
    await sending
    assert client.events == [("number", {"number": number}) for number in range(100)]
    assert unread.held == 0


async def test_beyond_the_bound_the_stream_that_is_not_read_gives_way_to_those_that_are():
    slow, reader, unread = Client(), Client(), unread_answers(600)
    reader.may_read.set()
    given_back, held = asyncio.Event(), contextlib.ExitStack()
    held.callback(given_back.set)

    async def without_end(send):
        while True:
            send(event("number", {"number": 0}))
            await asyncio.sleep(0)

    sending = [
        asyncio.create_task(EventStream(produce, failed, 60, stack, one.exchange, unread)(SCOPE, one.receive, one.send))
        for produce, stack, one in ((without_end, held, slow), (numbers(100), contextlib.ExitStack(), reader))
    ]
    await asyncio.gather(*sending)
    await given_back.wait()
    assert slow.left.is_set()
    assert not reader.left.is_set()
    assert reader.events == [("number", {"number": number}) for number in range(100)]
    assert unread.held == 0


async def test_a_long_event_is_held_until_the_connection_has_taken_all_of_it():
    client, unread, slices = Client(), unread_answers(), asyncio.Semaphore(0)
    long = event("done", {"maps": "x" * 300_000})

    async def produce(send):
        send(long)

    async def send(message):
        if message.get("body"):
            await slices.acquire()
        client.read += message.get("body", b"")

    async def app(scope, receive, send):
        await EventStream(produce, failed, 60, contextlib.ExitStack(), client.exchange, unread)(scope, receive, send)

    scope = {**SCOPE, "method": "POST", "state": {"exchange": client.exchange}}
    sending = asyncio.create_task(SlicedAnswers(app, unread)(scope, client.receive, send))
    for taken in range(5):
        while len(client.read) < taken << 16:  # noqa: ASYNC110 # no event tells
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert len(client.read) == taken << 16
        assert unread.held == len(long)
        slices.release()
    await sending
    assert client.read == long
    assert unread.held == 0


@pytest.mark.parametrize(
    ("seconds", "left"), [(0.05, 60), (60, 0.05)], ids=["its own", "what is left of the request's"]
)
async def test_the_deadline_ends_a_stream_with_an_error_also_for_a_client_that_reads_later(seconds, left):
    async def produce(send):
        send(event("number", {"number": 0}))
        await asyncio.sleep(60)

    client = Client()
    client.exchange.ends_at = asyncio.get_running_loop().time() + left
    stream = EventStream(produce, failed, seconds, contextlib.ExitStack(), client.exchange, unread_answers())
    sending = asyncio.create_task(stream(SCOPE, client.receive, client.send))
    await asyncio.sleep(0.2)
    client.may_read.set()
    await sending
    expected = {"status": 504, "detail": TooSlow(seconds).args[0]}
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
    stream = EventStream(produce, failed, 60, contextlib.ExitStack(), client.exchange, unread_answers())
    await stream(SCOPE, client.receive, client.send)
    assert [(name, one.get("status")) for name, one in client.events] == [("number", None), ("error", status)]
    assert client.exchange.refused == ("unacceptable" if status == 422 else None)


async def test_a_client_that_leaves_ends_the_work():
    ended, given_back = asyncio.Event(), asyncio.Event()

    async def produce(send):
        try:
            send(event("number", {"number": 0}))
            await asyncio.sleep(60)
        finally:
            ended.set()

    client, held, unread = Client(), contextlib.ExitStack(), unread_answers()
    held.callback(given_back.set)
    client.may_read.set()
    sending = asyncio.create_task(
        EventStream(produce, failed, 60, held, client.exchange, unread)(SCOPE, client.receive, client.send)
    )
    await asyncio.sleep(0.01)
    client.left.set()
    await sending
    await ended.wait()
    await given_back.wait()
    assert unread.held == 0


async def test_a_stream_that_is_never_sent_gives_back_what_it_holds():
    given_back, held = asyncio.Event(), contextlib.ExitStack()
    held.callback(given_back.set)
    EventStream(numbers(3), failed, 60, held, Exchange(), unread_answers()).close()  # before its task has begun to run
    await given_back.wait()


@pytest.mark.parametrize("name", ["", "token"])
def test_no_line_of_an_event_ends_within_its_data_however_lines_are_split(name):
    text = "a\u0085b\u2028c\u2029d"
    sent = event(name, {"text": text}).decode()
    assert len(sent.splitlines()) == (3 if name else 2)
    assert json.loads(sent.split("data: ")[1]) == {"text": text}
