"""Answers that clients do not take: their bytes have a bound, and the slowest reader gives way."""

import asyncio
from types import SimpleNamespace

import pytest
from prometheus_client import Counter
from starlette.responses import Response

from service.app import create_app
from service.http.exchange import Exchange
from service.http.unread_answers import SLICE_BYTES, SlicedAnswers, UnreadAnswers
from service.settings import Settings
from service.store import open_store
from tests.samples.raw_http_server import BIG, GET, LAST, read_all, running

GET_BIG = GET.replace(b"/x", b"/big")


class Answers(UnreadAnswers):
    """Answers that are named by letters, and those that gave way."""

    def __init__(self, limit):
        self.counter = Counter("gave_way", "-", registry=None)
        super().__init__(limit, self.counter)
        self.aborted = ""

    def exchange(self, name):
        def abort():
            self.aborted += name

        return Exchange(id=name, abort=abort)


@pytest.fixture
def answers():
    return Answers(100)


def test_the_answer_of_which_nothing_was_taken_for_longest_gives_way(answers):
    first, second, third = map(answers.exchange, "abc")
    answers.hold(first, 40)
    answers.hold(second, 40)
    answers.note_taken(first)
    answers.hold(third, 40)
    assert answers.aborted == "b"
    assert answers.held == 80
    assert second not in answers
    assert answers.counter._value.get() == 1


HELD = {  # what is held for each answer in turn, the answers that gave way, and what is left
    "as many answers give way as room is needed": ([*((one, 25) for one in "abcd"), ("e", 60)], "abc", 85),
    "one answer may be larger than the bound": ([("a", 1000), ("a", 1000)], "", 2000),
    "a slow reader whose stream grows gives way itself": ([("a", 60), ("b", 30), ("a", 20)], "a", 30),
}


@pytest.mark.parametrize(("given", "aborted", "left"), HELD.values(), ids=HELD)
def test_answers_give_way_to_what_is_held_later(answers, given, aborted, left):
    exchanges = {name: answers.exchange(name) for name, _ in given}
    for name, size in given:
        answers.hold(exchanges[name], size)
    assert (answers.aborted, answers.held) == (aborted, left)


def test_what_is_released_is_never_more_than_what_is_held(answers):
    one, other = map(answers.exchange, "ab")
    answers.hold(one, 30)
    answers.hold(other, 30)
    answers.release(one, 10)
    assert answers.held == 50
    answers.release(one, 40)
    assert answers.held == 30
    answers.release(one, 40)
    answers.forget(one)
    assert (answers.held, one in answers, other in answers) == (30, False, True)


async def sent(bodies, unread, method="GET"):
    """Return the messages that are sent of an answer with these bodies."""
    messages = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        for index, body in enumerate(bodies):
            await send({"type": "http.response.body", "body": body, "more_body": index < len(bodies) - 1})

    async def send(message):
        messages.append(message)

    await SlicedAnswers(app, unread)({"type": "http", "method": method}, None, send)
    assert messages.pop(0)["type"] == "http.response.start"
    long = [message for message in messages if len(message["body"]) == SLICE_BYTES]
    assert not [one for one in long if one["body"] not in bodies and not isinstance(one["body"], bytes)], "a view"
    assert unread.held == 0
    return [(message["body"], message["more_body"]) for message in messages]


@pytest.mark.anyio
@pytest.mark.parametrize("length", [0, 1, SLICE_BYTES - 1, SLICE_BYTES, SLICE_BYTES + 1, 3 * SLICE_BYTES, 200_000])
@pytest.mark.parametrize("kind", [bytes, memoryview])
async def test_the_slices_of_a_body_are_the_body(answers, length, kind):
    body = bytes(range(256)) * (length // 256) + bytes(range(length % 256))
    found = await sent([kind(body), b"end"], answers)
    assert b"".join(one for one, _ in found) == body + b"end"
    assert max(len(one) for one, _ in found) <= SLICE_BYTES
    assert [more for _, more in found] == [True] * (len(found) - 1) + [False]
    alone = await sent([body], answers)
    assert [more for _, more in alone] == [True] * (len(alone) - 1) + [False]


@pytest.mark.anyio
async def test_an_answer_to_head_is_not_cut_since_it_is_not_sent(answers):
    answers.hold(other := answers.exchange("a"), 90)
    messages = []

    async def app(scope, receive, send):
        await send({"type": "http.response.body", "body": bytes(10 * SLICE_BYTES)})

    async def send(message):
        messages.append(message)

    await SlicedAnswers(app, answers)({"type": "http", "method": "HEAD"}, None, send)
    assert len(messages) == 1
    assert other in answers


@pytest.mark.anyio
async def test_a_reader_that_takes_slices_gives_way_after_one_that_takes_none():
    answers = Answers(400_000)
    blocked = asyncio.Event()
    sending = []

    async def app(scope, receive, send):
        await send({"type": "http.response.body", "body": bytes(150_000)})

    def start(name, reads):
        async def send(message):
            if not reads:
                await blocked.wait()
            await asyncio.sleep(0)

        scope = {"type": "http", "method": "GET", "state": {"exchange": answers.exchange(name)}}
        sending.append(asyncio.create_task(SlicedAnswers(app, answers)(scope, None, send)))

    start("a", reads=True)
    start("b", reads=False)
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # `a` has taken a slice
    start("c", reads=False)
    await asyncio.sleep(0)
    assert answers.aborted == "b"
    blocked.set()
    await asyncio.gather(*sending)
    assert answers.held == 0


@pytest.mark.anyio
async def test_the_application_sends_its_long_answers_in_slices():
    settings = Settings()
    app, lengths = create_app(settings, {}, open_store(settings)), []
    app.add_route("/long", lambda request: Response(bytes(200_000)))

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        lengths.append(len(message.get("body", b"")))

    app.state.regard = SimpleNamespace(draining=False)
    await app(
        {"type": "http", "method": "GET", "path": "/long", "headers": [(b"host", b"x")], "query_string": b""},
        receive,
        send,
    )
    assert lengths == [0, *[SLICE_BYTES] * 3, 200_000 - 3 * SLICE_BYTES]


def in_memory(server):
    """Return the bytes that wait in the buffers of the connections, and those that wait before."""
    return sum(one.transport.get_write_buffer_size() for one in list(server.protocol.open.open)), server.unread.held


def test_slow_readers_hold_no_more_than_the_bound_and_an_honest_client_gets_its_answer():
    """Six answers of 16 MiB, of which there is room for two."""
    with running(1 << 16, unread_bytes=2 * BIG + SLICE_BYTES, write_seconds=60, keep_alive_seconds=60) as server:
        gave_way = server.protocol.metrics.answers_gave_way._value
        slow = []
        for index in range(6):
            slow.append(client := server.connect(1 << 12))
            client.sendall(GET_BIG)
            client.recv(100)
            server.wait_for(lambda count=index: gave_way.get() == max(0, count - 1))
            buffered, held = in_memory(server)
            assert held <= 2 * BIG
            assert buffered <= (index + 1) * 3 * SLICE_BYTES
        server.wait_until_closed(2)
        with server.connect() as honest:
            honest.sendall(LAST.replace(b"/x", b"/big"))
            assert len(read_all(honest)) > BIG
        assert gave_way.get() == 5
        server.wait_for(lambda: server.protocol.metrics.in_flight._value.get() == 1)  # of the slow reader that is left
        for client in slow:
            client.close()
        server.wait_until_closed()
        server.wait_for(lambda: server.unread.held == 0)


def test_a_body_is_counted_no_longer_when_its_answer_is_made():
    """A slow reader of a plain answer once held the budget of all bodies for as long as it read."""
    body = bytes(1 << 20)
    request = b"POST /big HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    settings = {"queue_body_bytes": 1_500_000, "write_seconds": 60, "body_seconds": 10}
    with running(1 << 16, **settings) as server, server.connect(1 << 12) as slow:
        slow.sendall(request)
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        closing = request.replace(b"/big", b"/x").replace(b"Host", b"Connection: close\r\nHost")
        assert server.until_closed(closing)[0].endswith(str(len(body)).encode())
        slow.close()
