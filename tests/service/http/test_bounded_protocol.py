"""The socket, with raw bytes: a misuse is answered as a problem or closed, in time, and the next request is answered."""

import contextlib
import inspect
import socket
import struct
import time
from collections import Counter

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.http import body_limits, bounded_protocol
from service.settings import Settings
from service.telemetry.metrics import Metrics
from tests.samples.raw_http_server import BIG, CHUNKED, GET, LAST, POST, SOME, Running, problem, read_all, running


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_reaches_the_loop(server):
    yield
    assert not server.complaints


@pytest.mark.parametrize("sent", [b"G", b"GET /x HTTP/1.1\r\n", b"GET /x HTTP/1.1\r\nHost: x\r\nA", b"\r\n" * 3])
def test_a_head_that_does_not_end_is_refused_in_time(server, sent):
    answer, seconds = server.until_closed(sent)
    assert problem(answer) == (408, "head: at most 0.4 seconds, given up")
    assert 0.3 < seconds < 2


def test_a_head_that_arrives_a_byte_at_a_time_is_refused_in_time(server):
    with server.connect() as client:
        start = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in b"GET /x HTTP/1.1\r\nHost: x\r\nX-Long: " + bytes(100):
                client.sendall(bytes([byte]))
                time.sleep(0.05)
                assert time.monotonic() - start < 3
        assert problem(read_all(client))[0] == 408


def test_a_connection_that_sends_nothing_is_closed_without_an_answer(server):
    answer, seconds = server.until_closed()
    assert answer == b""
    assert 0.3 < seconds < 2


def test_an_idle_connection_is_closed_and_its_next_head_has_a_deadline_of_its_own(server):
    with server.connect() as client:
        client.sendall(GET)
        assert client.recv(4096)
        time.sleep(0.6)  # longer than a head may take: between requests another clock runs
        start = time.monotonic()
        client.sendall(GET)
        assert client.recv(4096)
        assert read_all(client) == b""
        assert 0.6 < time.monotonic() - start < 2
    with server.connect() as client:
        client.sendall(GET)
        assert client.recv(4096)
        client.sendall(b"\r\n")  # nothing of a request yet, and yet not nothing
        assert problem(read_all(client))[0] == 408


def test_a_request_may_take_longer_than_the_head_after_it(server):
    answer, _ = server.until_closed(GET.replace(b"/x", b"/slow"), b"GET /x", 0.1)
    first, _, second = answer.partition(b"\r\n\r\n0")
    assert first.startswith(b"HTTP/1.1 200")
    assert problem(second)[0] == 408


CASES = {
    "5000 headers": (b"GET /x HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 5000 + b"\r\n", 431, "headers: at most 100, given more"),
    "101 headers": (b"GET /x HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 100 + b"\r\n", 431, "headers: at most 100, given more"),
    "a long header": (b"GET /x HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 17_000 + b"\r\n\r\n", 431, "headers: at most 16384 bytes, given more"),
    "a header without end": (b"GET /x HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 1_000_000, 431, "head: at most 25600 bytes, given more"),
    "a header's name without end": (b"GET /x HTTP/1.1\r\nHost: x\r\n" + b"a" * 1_000_000, 431, "head: at most 25600 bytes, given more"),
    "empty lines without end": (b"\r\n" * 500_000, 431, "head: at most 25600 bytes, given more"),
    "a URL of a megabyte": (b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "URL: at most 8192 bytes, given more"),
    "no Host": (b"GET /x HTTP/1.1\r\n\r\n", 400, "Host: must be given once, given 0 times"),
    "no Host in 1.0": (b"GET /x HTTP/1.0\r\n\r\n", 400, "Host: must be given once, given 0 times"),
    "two Hosts": (b"GET /x HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n", 400, "Host: must be given once, given 2 times"),
    "CL and TE": (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, ""),
    "two CL": (POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400, ""),
    "another TE": (POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400, ""),
    "a CL below zero": (POST + b"Content-Length: -1\r\n\r\n", 400, ""),
    "a CL of twenty digits": (POST + b"Content-Length: 99999999999999999999\r\n\r\n", 400, ""),
    "bare LF": (b"GET /x HTTP/1.1\nHost: x\n\n", 400, ""),
    "obs-fold": (b"GET /x HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400, ""),
    "a space before the colon": (b"GET /x HTTP/1.1\r\nHost : x\r\n\r\n", 400, ""),
    "NUL in the path": (b"GET /x\0 HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""),
    "NUL in a header": (b"GET /x HTTP/1.1\r\nHost: x\r\nA: \0\r\n\r\n", 400, ""),
    "bytes above ASCII in the path": (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""),
    "an unknown method": (b"HACK /x HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""),
    "a tunnel": (b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, ""),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), 400, ""),
    "a broken chunk": (CHUNKED + b"zz\r\nab\r\n", 400, ""),
    "a trailer without end": (CHUNKED + b"1\r\na\r\n0\r\nA: " + b"a" * 1_000_000, 431, "head: at most 25600 bytes, given more"),
    "5000 trailers": (CHUNKED + b"1\r\na\r\n0\r\n" + b"a: b\r\n" * 5000 + b"\r\n", 431, "headers: at most 100, given more"),
    "a chunk's extension without end": (CHUNKED + b"1;a=" + b"a" * 1_000_000, 431, "head: at most 25600 bytes, given more"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bytes_that_are_no_request_are_answered_with_a_problem_and_the_connection_closed(server, name):
    sent, status, detail = CASES[name]
    answer, seconds = server.until_closed(sent)
    assert problem(answer) == (status, detail or "request: must be well-formed HTTP/1.1")
    assert b"\r\nconnection: close\r\n" in answer.lower()
    assert seconds < 1
    assert server.until_closed(LAST)[0].endswith(b"0")


def test_an_upgrade_is_ignored(server):
    upgrade = b"Connection: upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: YQ==\r\nHost"
    assert server.until_closed(GET.replace(b"Host", upgrade))[0].startswith(b"HTTP/1.1 200 ")


def test_a_request_exactly_at_its_limits_is_answered(server):
    headers = b"a: b\r\n" * 98
    path = b"/" + b"a" * 8191
    answer, _ = server.until_closed(LAST.replace(b"/x", path).replace(b"Host", headers + b"Host"))
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_many_requests_in_one_piece_are_all_answered(server):
    answer, _ = server.until_closed(GET * 1500 + LAST)  # as many bytes as would be too long a head
    assert answer.count(b"HTTP/1.1 200 OK") == 1501


def test_what_follows_a_request_does_not_take_its_answer(server):
    answer, _ = server.until_closed(GET.replace(b"/x", b"/slow") + b"nonsense\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1") == 1


def test_a_body_that_nobody_reads_any_more_does_not_hold_the_connection(server):
    with server.connect() as client:
        client.sendall(POST.replace(b"/x", b"/unread") + b"Content-Length: 9000\r\n\r\n")
        start = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - start < 5:
                client.sendall(b"a")
                time.sleep(0.05)
        assert 0.5 < time.monotonic() - start < 3


@pytest.mark.parametrize("following", [b"", GET])
def test_a_body_that_arrives_after_its_answer_leaves_the_connection_to_the_next_request(server, following):
    with server.connect() as client:
        client.sendall(POST.replace(b"/x", b"/unread") + b"Content-Length: 9000\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        client.sendall(b"a" * 9000 + following)
        assert not following or client.recv(4096).startswith(b"HTTP/1.1 200 ")
        start = time.monotonic()
        assert read_all(client) == b""
        assert 0.6 < time.monotonic() - start < 3, "an idle connection is closed, and not before its time"


def test_trailers_of_a_body_do_not_become_headers(server):
    head = CHUNKED.replace(b"Host", b"Connection: close\r\nHost")
    answer, _ = server.until_closed(head + b"1\r\na\r\n0\r\nHost: y\r\nX-Request-Id: forged\r\n\r\n")
    assert answer.endswith(b"1")
    assert b"forged" not in answer


@pytest.mark.parametrize("sent", [b"", b"GET /x", GET.replace(b"/x", b"/slow"), POST + b"Content-Length: 9\r\n\r\nabc"])
def test_a_client_that_breaks_off_leaves_nothing_behind(server, sent):
    for _ in range(20):
        client = server.connect()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(sent)
        time.sleep(0.01)
        client.close()  # resets
    server.wait_until_closed()


def test_what_breaks_in_a_body_tells_the_application_that_the_client_is_gone(server, monkeypatch):
    monkeypatch.setattr(bounded_protocol, "LINGER_SECONDS", 30)
    monkeypatch.setattr(body_limits, "GRACE_SECONDS", 30)
    with server.connect() as client:
        client.sendall(CHUNKED.replace(b"/x", b"/told") + b"3\r\nabc\r\n")
        time.sleep(0.2)
        client.sendall(b"zz\r\n")
        assert problem(read_all(client))[0] == 400
        deadline = time.monotonic() + 5
        while "/told" not in Running.left:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.parametrize("path", [b"/big", b"/pieces"])
def test_a_client_that_does_not_read_is_cut_off(server, path):
    with server.connect(buffer=4096) as client:
        client.sendall(GET.replace(b"/x", path))
        assert client.recv(100)
        server.wait_until_closed()
        assert len(read_all(client)) < BIG


def test_a_client_that_does_not_read_a_small_answer_is_cut_off():
    """Nothing pauses for it, and closing an idle connection would wait for it for ever."""
    with running(kernel_bytes=4096) as server, server.connect(buffer=4096) as client:
        client.sendall(GET.replace(b"/x", b"/some"))
        assert client.recv(100)
        server.wait_until_closed()
        assert len(read_all(client)) < SOME


def test_a_client_that_reads_too_slowly_is_cut_off():
    with running(body_bytes_a_second=1_000_000) as server, server.connect(buffer=4096) as client:
        client.sendall(GET.replace(b"/x", b"/big"))
        assert client.recv(1000)
        deadline = time.monotonic() + 5
        while server.open:
            assert time.monotonic() < deadline
            with contextlib.suppress(ConnectionError):
                client.recv(1000)
            time.sleep(0.01)


def test_a_client_that_reads_slowly_enough_gets_the_whole_answer(server):
    with server.connect(buffer=1 << 16) as client:
        client.sendall(LAST.replace(b"/x", b"/big"))
        start, length = time.monotonic(), 0
        while more := client.recv(1 << 17):
            length += len(more)
            time.sleep(0.004)
        assert length > BIG
        assert time.monotonic() - start > server.settings.write_seconds, "or it was not slow"


def test_one_connection_too_many_is_refused_and_the_others_are_answered():
    with running(max_connections=5, keep_alive_seconds=20, header_seconds=20) as server:
        server.wait_until_closed()
        clients = [server.connect() for _ in range(5)]
        while server.open < 5:
            time.sleep(0.01)
        for sent in (b"", GET):
            answer, seconds = server.until_closed(sent)
            assert problem(answer) == (503, "connections: at most 5, given one more")
            assert b"\r\nretry-after: 1\r\n" in answer.lower()
            assert seconds < 1
        clients[0].sendall(GET)
        assert clients[0].recv(4096).startswith(b"HTTP/1.1 200 ")
        clients.pop().close()
        server.wait_until_closed(4)
        assert server.until_closed(LAST)[0].startswith(b"HTTP/1.1 200 ")
        for client in clients:
            client.close()


def test_connections_are_counted_by_the_port_they_came_to():
    first, second = (
        bounded_protocol.bounded_protocol(Settings(), Metrics()),
        bounded_protocol.bounded_protocol(Settings(), Metrics()),
    )
    assert first.open is not second.open
    assert isinstance(first.open, Counter)


def test_uvicorn_still_has_the_undocumented_names_that_the_protocol_uses():
    """Names that `service/http/bounded_protocol.py` uses of uvicorn without their being documented."""
    for name in ("connection_made", "connection_lost", "data_received", "on_url", "on_header", "on_headers_complete",
                 "on_body", "on_message_complete", "on_response_complete", "pause_writing", "resume_writing",
                 "timeout_keep_alive_handler", "_unset_keepalive_if_required"):  # fmt: skip
        assert callable(getattr(HttpToolsProtocol, name)), name
    assert list(inspect.signature(HttpToolsProtocol.__init__).parameters) == [
        "self", "config", "server_state", "app_state", "_loop",
    ]  # fmt: skip
    source = inspect.getsource(HttpToolsProtocol)
    for attribute in ("timeout_keep_alive", "ws_protocol_class", "parser", "cycle", "pipeline", "scope", "server",
                      "transport", "loop", "headers", "url", "timeout_keep_alive_task"):  # fmt: skip
        assert f"self.{attribute}" in source, attribute
    for attribute in ("disconnected", "message_event", "keep_alive", "more_body", "response_started", "response_complete"):  # fmt: skip
        assert f"self.{attribute}" in inspect.getsource(RequestResponseCycle.__init__), attribute
    assert "if not self.keep_alive:\n                    self.transport.close()" in inspect.getsource(
        RequestResponseCycle.send
    )
