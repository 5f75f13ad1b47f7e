"""Answers to HTTP/1.0 have no chunks; who waits in vain for 100 (Continue) is told that the connection closes."""

import asyncio

import pytest

from service.http.answer_framing import AnswerTransport
from tests.samples.raw_http_server import BIG, GET, POST, ask, read_all

OLD = GET.replace(b"1.1", b"1.0")
KEPT = OLD.replace(b"Host", b"Connection: Keep-Alive\r\nHost")


@pytest.mark.parametrize("request_", [OLD, KEPT])
def test_an_answer_of_unknown_length_to_http_1_0_ends_with_the_connection_and_has_no_chunks(server, request_):
    answer, _ = server.until_closed(request_.replace(b"/x", b"/pieces"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"transfer-encoding" not in head.lower()
    assert b"\r\nconnection: close" in head.lower()
    assert body == bytes(BIG)


def test_an_answer_that_fails_in_the_middle_does_not_end_as_if_it_were_whole(server):
    with server.connect() as client:
        client.sendall(OLD.replace(b"/x", b"/fails"))
        with pytest.raises(ConnectionError):
            list(iter(lambda: client.recv(4096), b""))


def test_a_client_of_http_1_0_keeps_its_connection_if_it_asks_for_that(server):
    with server.connect() as client:
        for _ in range(3):
            client.sendall(KEPT)
            answer = client.recv(4096)
            assert b"\r\nconnection: keep-alive\r\n" in answer.lower()
            assert b"\r\ncontent-length: 1\r\n" in answer.lower()
        client.sendall(OLD)
        assert b"\r\nconnection: close\r\n" in read_all(client).lower()


def test_http_1_0_is_never_told_to_continue(server):
    with server.connect() as client:
        client.sendall(POST.replace(b"1.1", b"1.0") + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        client.sendall(b"abc")
        assert read_all(client).startswith(b"HTTP/1.1 200 ")


def test_a_client_is_told_to_continue_if_its_body_is_read(server):
    with server.connect() as client:
        client.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert client.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert b"\r\nconnection: close" not in ask(client, b"abc" + GET).lower()


@pytest.mark.parametrize("path", [b"/unread", b"//"])
def test_a_client_whose_body_is_not_read_is_not_told_to_continue_and_the_connection_closes(server, path):
    head = POST.replace(b"/x", path) + b"Expect: 100-continue\r\nContent-Length: 30\r\n\r\n"
    answer, _ = server.until_closed(head, GET, pause=0.2)  # a client that need not send its body, but asks again
    assert answer.count(b"HTTP/1.1") == 1
    assert b" 100 " not in answer
    assert b"\r\nconnection: close\r\n" in answer.lower()


def test_a_client_that_does_not_wait_for_100_keeps_its_connection(server):
    head = POST.replace(b"/x", b"/unread") + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    with server.connect() as client:
        client.sendall(head + b"abc")
        assert b"\r\nconnection: close" not in client.recv(4096).lower()
        ask(client, GET)


class Written:
    """A transport that records what is written, and what was closed."""

    def __init__(self):
        self.calls = []

    def write(self, data):
        self.calls.append(data)

    def is_closing(self):
        return False


@pytest.mark.anyio
async def test_a_head_is_written_with_its_body_or_soon():
    transport, closed = Written(), []
    answers = AnswerTransport(transport, asyncio.get_running_loop(), lambda: closed.append(list(transport.calls)))
    answers.write(b"HTTP/1.1 200 OK\r\n\r\n")
    answers.write(b"body")
    answers.write(b"more")
    assert transport.calls == [b"HTTP/1.1 200 OK\r\n\r\nbody", b"more"]
    answers.write(b"HTTP/1.1 200 OK\r\n\r\n")
    await asyncio.sleep(0)
    assert transport.calls[2:] == [b"HTTP/1.1 200 OK\r\n\r\n"]
    answers.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    answers.close()
    assert closed == [[*transport.calls]]
    assert transport.calls[3:] == [b"HTTP/1.1 204 No Content\r\n\r\n"]


@pytest.mark.anyio
async def test_a_head_is_not_written_to_a_connection_that_was_lost():
    transport = Written()
    answers = AnswerTransport(transport, asyncio.get_running_loop(), lambda: None)
    answers.write(b"HTTP/1.1 200 OK\r\n\r\n")
    transport.is_closing = lambda: True
    await asyncio.sleep(0)
    assert transport.calls == []
