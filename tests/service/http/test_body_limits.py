"""The limits of bodies: their size, pieces and speed."""

import contextlib
import time

import pytest
from starlette.datastructures import Headers

from service.batching.admission import Bodies
from service.errors import TooLarge
from service.http import body_limits
from service.http.body_limits import BodyLimits
from service.http.exchange import exchange_of
from service.settings import Settings
from tests.samples.raw_http_server import CHUNKED, POST, problem, read_all, running


def test_a_body_that_does_not_end_is_refused_in_time(server):
    for head in (POST + b"Content-Length: 9\r\n\r\nabc", CHUNKED + b"3\r\nabc\r\n"):
        answer, seconds = server.until_closed(head)
        assert problem(answer) == (
            408,
            "body: at most 0.6 seconds and at least 1000 bytes a second, given up after 0.6 seconds and 3 bytes",
        )
        assert b"\r\nconnection: close\r\n" in answer.lower()
        assert 0.5 < seconds < 20


def test_a_body_that_arrives_too_slowly_is_refused_before_its_deadline(monkeypatch):
    monkeypatch.setattr(body_limits, "GRACE_SECONDS", 0.3)
    with running(body_seconds=60) as server, server.connect() as client:
        start = time.monotonic()
        client.sendall(POST + b"Content-Length: 9000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                client.sendall(b"a" * 10)
                time.sleep(0.02)  # 500 bytes a second
        assert problem(read_all(client))[0] == 408
        assert 0.3 < time.monotonic() - start < 30
        rate = POST + b"Content-Length: 9000\r\nConnection: close\r\n\r\n"
        with server.connect() as client:
            client.sendall(rate)
            for _ in range(9):
                time.sleep(0.1)
                client.sendall(b"a" * 1000)
            assert read_all(client).endswith(b"9000")


def test_a_body_that_is_announced_too_large_is_refused_before_it_is_read(server):
    for path in (b"/x", b"/unread"):
        head = POST.replace(b"/x", path) + b"Expect: 100-continue\r\nContent-Length: 99999999999999\r\n\r\n"
        answer, seconds = server.until_closed(head)
        assert problem(answer) == (413, "body: at most 16777216 bytes, given 99999999999999")
        assert seconds < 20


def test_a_hundred_thousand_chunks_of_a_byte_are_refused(server):
    answer, seconds = server.until_closed(CHUNKED + b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n")
    assert problem(answer) == (413, "body: at most 65536 pieces, given more")
    assert seconds < 60
    head = CHUNKED.replace(b"Host", b"Connection: close\r\nHost")
    answer, _ = server.until_closed(head + b"1\r\na\r\n" * 60_000 + b"0\r\n\r\n")
    assert answer.endswith(b"60000")


def test_bodies_that_hold_the_whole_budget_and_do_not_end_leave_room_for_small_ones():
    """A quarter of 1,000,000 bytes is divided among 50 connections; all bodies share the rest."""
    small = POST + b"Connection: close\r\nContent-Length: 5000\r\n\r\n" + bytes(5000)
    large = POST + b"Content-Length: 300000\r\n\r\n"
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running(queue_body_bytes=1_000_000, max_connections=50, body_seconds=60))
        for _ in range(3):
            holding = stack.enter_context(server.connect())
            holding.sendall(large + bytes(200_000))
        time.sleep(0.5)
        answer, _ = server.until_closed(large.replace(b"Host", b"Connection: close\r\nHost") + bytes(300_000))
        status, words = problem(answer)
        assert (status, words.partition(",")[0]) == (429, "bodies: at most 750000 may wait")
        for _ in range(3):
            assert server.until_closed(small)[0].endswith(b"5000")


def test_what_unfinished_bodies_held_is_given_back():
    with running(queue_body_bytes=1_000_000, max_connections=50) as server:
        for _ in range(5):
            with server.connect() as leaving:
                leaving.sendall(POST + b"Content-Length: 700000\r\n\r\n" + bytes(600_000))
            server.wait_until_closed()
        whole = POST + b"Connection: close\r\nContent-Length: 700000\r\n\r\n" + bytes(700_000)
        answers = (server.until_closed(whole)[0] for _ in range(100))  # the server may notice the close a little later
        assert any(answer.endswith(b"700000") for answer in answers)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.anyio
async def test_a_body_is_held_until_its_answer_says_that_nothing_is_left_of_it(early):
    budget = Bodies(1 << 20)
    seen = []

    async def app(scope, receive, send):
        await receive()
        seen.append(budget.held)
        if early:
            exchange_of(scope).release_body()
            seen.append(budget.held)
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await send({"type": "http.response.body", "body": b"b"})

    async def receive():
        return {"type": "http.request", "body": bytes(100_000)}

    async def send(message):
        seen.append(budget.held)

    settings = Settings(queue_body_bytes=1 << 20)
    await BodyLimits(app, settings, budget)({"type": "http"}, receive, send)
    held = 100_000 - body_limits.reserved_bytes(settings)
    assert seen == ([held, 0, 0, 0] if early else [held, held, 0])


def test_the_reserved_and_the_shared_bytes_are_the_budget():
    settings = Settings()
    assert body_limits.reserved_bytes(settings) == 32 << 10
    assert body_limits.shared_bytes(settings) == 96 << 20


@pytest.mark.parametrize(
    ("given", "said"), [("0" * 5000 + "11", 11), ("9" * 5000, int("9" * 20)), ("0" * 30 + "10", None), ("0", None)]
)
def test_a_content_length_of_thousands_of_digits_is_a_number_like_any_other(given, said):
    if said is None:
        body_limits.check_announced(Headers({"content-length": given}), 10)
        return
    with pytest.raises(TooLarge, match=f"body: at most 10 bytes, given {said}"):
        body_limits.check_announced(Headers({"content-length": given}), 10)
