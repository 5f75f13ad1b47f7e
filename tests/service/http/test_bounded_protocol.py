"""The socket, with raw bytes: a misuse is answered as a problem or closed, in time, and the next request is answered."""

import contextlib
import inspect
import json
import socket
import struct
import threading
import time
from types import SimpleNamespace

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.http import arrived_bytes, body_limits, bounded_protocol, lingering_protocol, open_connections
from service.http.exchange import exchange_of
from service.settings import Settings
from service.telemetry.metrics import Metrics
from tests.conftest import served
from tests.samples.raw_http_server import BIG, CHUNKED, GET, LAST, POST, SOME, ask, problem, read_all, running


@pytest.mark.parametrize("sent", [b"G", b"GET /x HTTP/1.1\r\n", b"GET /x HTTP/1.1\r\nHost: x\r\nA", b"\r\n" * 3])
def test_a_head_that_does_not_end_is_refused_in_time(server, sent):
    answer, seconds = server.until_closed(sent)
    assert problem(answer) == (408, "head: at most 0.4 seconds, given up")
    assert 0.3 < seconds < 20


def test_a_head_that_arrives_a_byte_at_a_time_is_refused_in_time(server):
    with server.connect() as client:
        start = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in b"GET /x HTTP/1.1\r\nHost: x\r\nX-Long: " + bytes(100):
                client.sendall(bytes([byte]))
                time.sleep(0.05)
                assert time.monotonic() - start < 20
        assert problem(read_all(client))[0] == 408


def test_a_connection_that_sends_nothing_is_closed_without_an_answer(server):
    answer, seconds = server.until_closed()
    assert answer == b""
    assert 0.3 < seconds < 20


def test_an_idle_connection_is_closed_and_its_next_head_has_a_deadline_of_its_own(server):
    with server.connect() as client:
        ask(client, GET)
        time.sleep(0.6)  # longer than a head may take: between requests another clock runs
        start = time.monotonic()
        ask(client, GET)
        assert read_all(client) == b""
        assert 0.3 < time.monotonic() - start < 10
    with server.connect() as client:
        ask(client, GET)
        client.sendall(b"\r\n")  # nothing of a request yet, and yet not nothing
        assert problem(read_all(client))[0] == 408


def test_a_request_may_take_longer_than_the_head_after_it(server):
    answer, _ = server.until_closed(GET.replace(b"/x", b"/slow"), b"GET /x", 0.1)
    first, _, second = answer.partition(b"\r\n\r\n0")
    assert first.startswith(b"HTTP/1.1 200")
    assert problem(second)[0] == 408


UPGRADING = POST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
TUNNEL = "method: CONNECT is for proxies, which this service is not"
CASES = {
    "5000 headers": (b"GET /x HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 5000 + b"\r\n", 431, "headers: at most 100, given more"),
    "101 headers": (b"GET /x HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 100 + b"\r\n", 431, "headers: at most 100, given more"),
    "a long header": (b"GET /x HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 17_000 + b"\r\n\r\n", 431, "headers: at most 16384 bytes, given more"),
    "a header without end": (b"GET /x HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 1_000_000, 431, "head: at most 25600 bytes, given more"),
    "a header's name without end": (b"GET /x HTTP/1.1\r\nHost: x\r\n" + b"a" * 1_000_000, 431, "head: at most 25600 bytes, given more"),
    "empty lines without end": (b"\r\n" * 500_000, 431, "head: at most 25600 bytes, given more"),
    "a URL of a megabyte": (b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "URL: at most 8192 bytes, given more"),
    "no Host": (b"GET /x HTTP/1.1\r\n\r\n", 400, "Host: must be given once, given 0 times"),
    "two Hosts in 1.0": (b"GET /x HTTP/1.0\r\nHost: x\r\nhost: x\r\n\r\n", 400, "Host: must be given once, given 2 times"),
    "two Hosts": (b"GET /x HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n", 400, "Host: must be given once, given 2 times"),
    "CL and TE": (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, ""),
    "two CL": (POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400, ""),
    "another TE": (POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400, "Transfer-Encoding: must be chunked, given another"),
    "two TE": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, "Transfer-Encoding: must be chunked, given another"),
    "two headers of TE": (POST + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "Transfer-Encoding: must be chunked, given another"),
    "two TE with an upgrade": (UPGRADING + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, "Transfer-Encoding: must be chunked, given another"),
    "chunked twice": (POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400, ""),
    "TE in 1.0": (CHUNKED.replace(b"1.1", b"1.0") + b"0\r\n\r\n", 400, "Transfer-Encoding: must not be given in HTTP/1.0"),
    "another version": (GET.replace(b"1.1", b"2.0"), 400, "version: must be HTTP/1.0 or HTTP/1.1, given another"),
    "a version without Host": (GET.replace(b"1.1", b"0.9"), 400, "version: must be HTTP/1.0 or HTTP/1.1, given another"),
    "a CL below zero": (POST + b"Content-Length: -1\r\n\r\n", 400, ""),
    "a CL of twenty digits": (POST + b"Content-Length: 99999999999999999999\r\n\r\n", 400, ""),
    "bare LF": (b"GET /x HTTP/1.1\nHost: x\n\n", 400, ""),
    "obs-fold": (b"GET /x HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400, ""),
    "a space before the colon": (b"GET /x HTTP/1.1\r\nHost : x\r\n\r\n", 400, ""),
    "NUL in the path": (b"GET /x\0 HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""),
    "NUL in a header": (b"GET /x HTTP/1.1\r\nHost: x\r\nA: \0\r\n\r\n", 400, ""),
    "bytes above ASCII in the path": (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""),
    "an unknown method": (b"HACK /x HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""),
    "a tunnel": (b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n" + GET, 400, TUNNEL),
    "a tunnel to a URL": (b"CONNECT http://x/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde" + GET, 400, TUNNEL),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, ""),
    "an upgrade with a length and chunks": (UPGRADING + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, ""),
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
    assert seconds < 20
    assert server.until_closed(LAST)[0].endswith(b"0")


def test_an_upgrade_is_ignored(server):
    upgrade = b"Connection: upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: YQ==\r\nHost"
    assert server.until_closed(GET.replace(b"Host", upgrade))[0].startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("pause", [0, 0.05])
@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: %d\r\n\r\n" % len(GET) + GET,
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(GET) + GET + b"\r\n0\r\n\r\n",
    ],
    ids=["length", "chunks"],
)
def test_the_body_of_a_request_that_asks_for_an_upgrade_is_its_body_and_no_other_request(server, body, pause):
    for sent in ((UPGRADING + body + LAST,), (UPGRADING, body + LAST), (UPGRADING + body[:30], body[30:], LAST)):
        with server.connect() as client:
            for piece in sent:
                client.sendall(piece)
                time.sleep(pause)
            answer = read_all(client)
        assert answer.count(b"HTTP/1.1 200 OK") == 2
        assert answer.partition(b"\r\n\r\n")[2].startswith(b"%dHTTP/1.1" % len(GET))


def test_what_follows_an_upgrade_that_is_ignored_is_answered_unless_it_closes(server):
    for upgrading in (UPGRADING.replace(b"POST", b"GET"), UPGRADING):
        answer, _ = server.until_closed((upgrading + b"\r\n") * 300 + LAST)
        assert answer.count(b"HTTP/1.1 200 OK") == 301
        answer, _ = server.until_closed(upgrading.replace(b"Upgrade,", b"close, Upgrade,") + b"\r\n" + GET)
        assert answer.count(b"HTTP/1.1 200 OK") == 1


@pytest.mark.parametrize("rest", [b"G", b"GET /x HTTP/1.1\r\n", b"POST /x HTTP/1.1\r\nHost: x\r\nA: b"])
@pytest.mark.parametrize("path", [b"/x", b"/slow"])
def test_a_head_that_begins_in_the_segment_of_a_request_has_the_deadline_of_a_head(path, rest):
    with running(keep_alive_seconds=30) as server:
        answer, seconds = server.until_closed(GET.replace(b"/x", path) + rest)
        first, _, second = answer.rpartition(b"HTTP/1.1 ")
        assert first.startswith(b"HTTP/1.1 200 ")
        assert second.startswith(b"408 ")
        assert 0.3 < seconds < 20, "an idle connection has 30 seconds"


def test_a_request_exactly_at_its_limits_is_answered(server):
    headers = b"a: b\r\n" * 98
    path = b"/" + b"a" * 8191
    answer, _ = server.until_closed(LAST.replace(b"/x", path).replace(b"Host", headers + b"Host"))
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_many_requests_in_one_piece_are_all_answered(server):
    answer, _ = server.until_closed(GET * 1500 + LAST)  # as many bytes as would be too long a head
    assert answer.count(b"HTTP/1.1 200 OK") == 1501


@pytest.mark.parametrize("following", [b"nonsense\r\n\r\n", CHUNKED + b"zz\r\n"])
def test_what_follows_a_request_does_not_take_its_answer(server, following):
    answer, _ = server.until_closed(GET.replace(b"/x", b"/slow") + following)
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
        ask(client, POST.replace(b"/x", b"/unread") + b"Content-Length: 9000\r\n\r\n")
        client.sendall(b"a" * 9000 + following)
        assert not following or client.recv(4096).startswith(b"HTTP/1.1 200 ")
        start = time.monotonic()
        assert read_all(client) == b""
        assert 0.3 < time.monotonic() - start < 10, "an idle connection is closed, and not before its time"


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
    monkeypatch.setattr(server.protocol, "settings", server.settings.model_copy(update={"body_seconds": 30}))
    monkeypatch.setattr(body_limits, "GRACE_SECONDS", 30)
    with server.connect() as client:
        client.sendall(CHUNKED.replace(b"/x", b"/told") + b"3\r\nabc\r\n")
        time.sleep(0.2)
        client.sendall(b"zz\r\n")
        assert problem(read_all(client))[0] == 400
        server.wait_for(lambda: "/told" in server.left, 5)


@pytest.mark.parametrize("path", [b"/big", b"/pieces"])
def test_a_client_that_does_not_read_is_cut_off(server, path):
    with server.connect(buffer=4096) as client:
        client.sendall(GET.replace(b"/x", path))
        assert client.recv(100)
        server.wait_until_closed()
        assert len(read_all(client)) < BIG


def test_an_application_that_aborts_its_answer_is_told_at_once_that_the_client_is_gone(caplog):
    heard = []

    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        await send({"type": "http.response.body", "body": b"begins", "more_body": True})
        exchange_of(scope).abort()
        heard.append(await receive())

    with running() as server:
        usual, server.application = server.application, application
        with server.connect() as client:
            client.sendall(GET)
            read_all(client)
        server.application = usual
        server.wait_until_closed()
    assert heard == [{"type": "http.disconnect"}]
    assert not [record for record in caplog.records if record.name == "uvicorn.error" and record.levelname == "ERROR"]


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
        deadline = time.monotonic() + 30
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


BUSY = POST + b"Content-Length: 9\r\n\r\na"


def test_a_connection_too_many_takes_the_place_of_the_one_that_was_idle_for_longest():
    with running(max_connections=5, keep_alive_seconds=60, header_seconds=60, body_seconds=60) as server:
        server.wait_until_closed()
        with contextlib.ExitStack() as stack:
            busy, asked, silent, fourth, fifth = (stack.enter_context(server.connect()) for _ in range(5))
            server.wait_for(lambda: server.open == 5)
            for client in (asked, busy, fourth, fifth):  # from now on `silent` is the one
                client.sendall(BUSY if client is busy else GET)
                assert client is busy or client.recv(4096).startswith(b"HTTP/1.1 200 ")
            for gone in (silent, asked, fourth):
                client = stack.enter_context(server.connect())
                assert read_all(gone) in (b"", b"0"), "closed, perhaps behind the body of its answer"
                ask(client, GET)
            busy.sendall(b"a" * 8)
            assert busy.recv(4096).endswith(b"9")
            assert server.open == 5
        assert server.protocol.metrics.gave_way._value.get() == 3


@pytest.mark.parametrize("busy", [BUSY, GET[:9], b"\r\n"])
def test_one_connection_too_many_is_refused_if_none_is_idle_and_the_others_are_answered(busy):
    long = {"keep_alive_seconds": 20, "header_seconds": 20, "body_seconds": 20}
    with running(max_connections=5, **long) as server, contextlib.ExitStack() as stack:
        server.wait_until_closed()
        clients = [stack.enter_context(server.connect()) for _ in range(5)]
        for client in clients:
            client.sendall(busy)
        time.sleep(0.3)
        for sent in (b"", GET, POST + b"Content-Length: 1000000\r\n\r\n" + bytes(1_000_000)):
            answer, seconds = server.until_closed(sent)
            assert problem(answer) == (503, "connections: at most 5, given one more")
            assert b"\r\nretry-after: 1\r\n" in answer.lower()
            assert seconds < 20
        assert server.protocol.metrics.requests.labels("other", "other", "503")._value.get() == 3
        waiting = [stack.enter_context(server.connect()) for _ in range(open_connections.MOST_REFUSED + 8)]
        assert problem(read_all(waiting[-1]))[0] == 503
        time.sleep(0.2)
        kept = sum(client.send(b"a") and not reset(client) for client in waiting)
        assert kept <= open_connections.MOST_REFUSED, "no more may go on sending"
        clients.pop().close()
        server.wait_until_closed(4)
        assert server.until_closed(LAST)[0].startswith(b"HTTP/1.1 200 ")


def reset(client):
    """Return whether a connection was reset, once what was written has arrived."""
    time.sleep(0.01)
    return client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0 or not writable(client)


def writable(client):
    try:
        return bool(client.send(b"a"))
    except ConnectionError:
        return False


def test_a_connection_too_many_is_closed_in_time_although_it_goes_on_sending():
    with running(max_connections=1, header_seconds=60, body_seconds=60) as server, server.connect() as busy:
        busy.sendall(BUSY)
        time.sleep(0.2)
        with server.connect() as client:
            client.sendall(GET)
            assert problem(read_all(client))[0] == 503
            start = time.monotonic()
            while writable(client):
                assert time.monotonic() < start + 30, "one of 60 seconds is for bodies"
                time.sleep(0.1)


def test_a_client_that_still_sends_keeps_its_early_answer_while_another_connection_is_idle():
    long = {"keep_alive_seconds": 60, "header_seconds": 60, "body_seconds": 60}
    with running(max_connections=2, **long) as server, contextlib.ExitStack() as stack:
        server.wait_until_closed()
        sending, idle = (stack.enter_context(server.connect()) for _ in range(2))
        ask(sending, POST.replace(b"/x", b"/unread") + b"Content-Length: 9000\r\n\r\n")
        ask(idle, GET)
        new = stack.enter_context(server.connect())
        assert idle.recv(1) == b""
        ask(sending, bytes(9000) + GET)
        ask(new, GET)


def test_a_request_that_follows_a_discarded_body_in_one_piece_gives_way_to_nobody():
    with running(max_connections=1, body_seconds=20) as server:
        server.wait_until_closed()
        with server.connect() as client:
            ask(client, POST.replace(b"/x", b"/unread") + b"Content-Length: 9000\r\n\r\n")
            client.sendall(b"a" * 9000 + LAST.replace(b"/x", b"/slow"))
            time.sleep(0.2)
            assert problem(server.until_closed(GET)[0])[0] == 503
            assert read_all(client).startswith(b"HTTP/1.1 200 ")
        server.wait_until_closed()


def test_every_server_counts_the_connections_of_its_own():
    first, second = (bounded_protocol.bounded_protocol(Settings(), Metrics()) for _ in range(2))
    assert first.open is not second.open


EARLY = {
    "an answer that needs no body": (b"/unread", b"", b"200"),
    "and closes": (b"/unread", b"Connection: close\r\n", b"200"),
    "a refusal by the path": (b"//", b"", b"404"),
    "and that closes": (b"//", b"Connection: close\r\n", b"404"),
    "by the head": (b"/x", b"A: b\r\n" * 200, b"431"),
}


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("framing", [b"Content-Length: %d\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n%x\r\n"])
@pytest.mark.parametrize("early", EARLY)
def test_an_answer_before_the_body_has_arrived_reaches_a_client_that_sends_all_before_it_reads(
    server, early, framing, version
):
    path, headers, status = EARLY[early]
    if b"chunked" in framing and version == b"1.0":
        status = {b"431": b"431"}.get(status, b"400")
    head = POST.replace(b"/x", path).replace(b"1.1", version) + headers + framing % (10 << 20)
    for _ in range(3):
        with server.connect() as client:
            client.sendall(head)
            time.sleep(0.02)
            client.sendall(bytes(10 << 20) + b"\r\n0\r\n\r\n" * (b"chunked" in framing))  # fails if it is reset
            assert client.recv(4096).startswith(b"HTTP/1.1 " + status)


def test_what_is_discarded_after_an_answer_is_bounded_in_bytes():
    with running(discard_bytes=1 << 20, body_seconds=30) as server:
        for close in (b"", b"Connection: close\r\n"):
            with server.connect() as client:
                ask(client, POST.replace(b"/x", b"/unread") + close + b"Content-Length: 16000000\r\n\r\n")
                with pytest.raises(ConnectionError):
                    client.sendall(bytes(16_000_000))


def test_a_client_that_pauses_after_its_answer_is_closed(monkeypatch):
    monkeypatch.setattr(lingering_protocol, "DISCARD_IDLE_SECONDS", 0.3)
    with running(body_seconds=30) as server, server.connect() as client:
        ask(client, POST.replace(b"/x", b"/unread") + b"Content-Length: 9000\r\n\r\n")
        for _ in range(10):
            time.sleep(0.1)
            client.sendall(b"a")
        assert read_all(client) == b""
        server.wait_until_closed()


def test_the_rest_of_a_body_that_breaks_after_its_answer_is_not_answered_again(server):
    with server.connect() as client:
        ask(client, CHUNKED.replace(b"/x", b"/unread"))
        client.sendall(b"zz\r\n" + GET)
        assert read_all(client) == b""


def test_a_server_that_stops_lets_a_client_send_the_rest_and_read_its_answer():
    for close in (b"", b"Connection: close\r\n"):
        with running(body_seconds=30) as server:
            with server.connect() as client:
                client.sendall(POST.replace(b"/x", b"/unread") + close + b"Content-Length: 10000000\r\n\r\n")
                time.sleep(0.1)
                stopping = threading.Thread(target=server.stop)
                stopping.start()
                time.sleep(0.5)
                client.sendall(bytes(10_000_000))
                assert read_all(client).startswith(b"HTTP/1.1 200 ")
            stopping.join(10)


@pytest.fixture
def waiting(server, monkeypatch):
    """How many requests, and bytes that may hold more, waited at the end of each answer."""
    found, whole = [], server.protocol.on_response_complete

    def noted(protocol):
        whole(protocol)
        found.append((len(protocol.pipeline), len(protocol._unparsed)))

    monkeypatch.setattr(server.protocol, "on_response_complete", noted)
    return found


def test_of_many_requests_that_come_at_once_few_wait(server, waiting):
    answers, _ = server.until_closed(GET * 1000 + LAST)
    assert answers.count(b"HTTP/1.1 200 ") == 1001
    most = arrived_bytes.MOST_PIPELINED + arrived_bytes.PIECE_BYTES // len(GET)
    assert arrived_bytes.MOST_PIPELINED <= max(count for count, _ in waiting) <= most
    assert max(left for _, left in waiting) <= 1 << 18, "no more is read meanwhile"


def test_no_more_is_read_while_requests_wait_though_each_asks_for_its_body(server, waiting):
    """uvicorn reads on for each of them, 256 KiB at a time."""
    with server.connect() as client:
        client.setblocking(False)
        request = POST.replace(b"/x", b"/later") + b"Content-Length: 0\r\n\r\n"
        left = memoryview(request * ((4 << 20) // len(request)))
        while len(waiting) < 300:
            with contextlib.suppress(BlockingIOError):
                left = left[client.send(left) :]
            with contextlib.suppress(BlockingIOError):
                client.recv(1 << 16)
            time.sleep(0.001)
    assert 0 < max(left for _, left in waiting) <= 1 << 18


def test_a_body_that_looks_like_many_heads_is_one_body(server):
    body = b"\r\n\r\n" * 50_000
    head = LAST.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: %d\r\n\r\n" % len(body))
    answers, _ = server.until_closed(GET + head + body)
    assert answers.count(b"HTTP/1.1 200 ") == 2
    assert answers.endswith(b"200000")


@pytest.mark.parametrize("how", ["closed", "reset"])
def test_a_client_that_leaves_behind_a_pipelined_request_is_noticed(server, monkeypatch, how):
    """Nothing is read while a second request waits, so its end is not read either, and all its work was done."""
    monkeypatch.setattr(arrived_bytes, "LOOK_SECONDS", 0.05)
    server.left.discard("/slow")
    with server.connect() as client:
        client.sendall(GET.replace(b"/x", b"/slow"))
        time.sleep(0.1)
        client.sendall(GET)
        time.sleep(0.1)
        if how == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    server.wait_for(lambda: "/slow" in server.left, 5)


@pytest.mark.parametrize("left", [100, 0])
def test_the_last_bytes_of_an_answer_are_watched_though_the_client_has_read_most(left):
    calls = []
    protocol = object.__new__(bounded_protocol.BoundedHttpProtocol)
    protocol.cycle, protocol.flow = None, SimpleNamespace(resume_writing=lambda: None)
    protocol.transport = SimpleNamespace(get_write_buffer_size=lambda: left)
    protocol._reading = SimpleNamespace(stop=lambda: calls.append("stop"), watch=lambda: calls.append("watch"))
    protocol.resume_writing()
    assert calls == (["stop", "watch"] if left else ["stop"])


def test_uvicorn_still_has_the_undocumented_names_that_the_protocol_uses():
    """Names that `service/http/bounded_protocol.py` uses of uvicorn without their being documented."""
    for name in ("connection_made", "connection_lost", "data_received", "on_url", "on_header", "on_headers_complete",
                 "on_body", "on_message_complete", "on_response_complete", "pause_writing", "resume_writing",
                 "timeout_keep_alive_handler", "_unset_keepalive_if_required", "shutdown", "on_message_begin",
                 "_start_asgi_task"):  # fmt: skip
        assert callable(getattr(HttpToolsProtocol, name)), name
    assert list(inspect.signature(HttpToolsProtocol.__init__).parameters) == [
        "self", "config", "server_state", "app_state", "_loop",
    ]  # fmt: skip
    source = inspect.getsource(HttpToolsProtocol)
    for attribute in ("timeout_keep_alive", "ws_protocol_class", "parser", "cycle", "pipeline", "scope", "server",
                      "transport", "loop", "headers", "url", "timeout_keep_alive_task"):  # fmt: skip
        assert f"self.{attribute}" in source, attribute
    for attribute in ("disconnected", "message_event", "keep_alive", "more_body", "response_started", "response_complete",
                      "transport", "scope", "body", "waiting_for_100_continue", "chunked_encoding",
                      "expected_content_length"):  # fmt: skip
        assert f"self.{attribute}" in inspect.getsource(RequestResponseCycle.__init__), attribute
    assert "if not self.keep_alive:\n                    self.transport.close()" in inspect.getsource(
        RequestResponseCycle.send
    )


def test_a_client_that_leaves_behind_a_pipelined_request_is_no_failure(light):
    document = json.dumps({"inputs": ["the twenty-third of March 2021"] * 8, "num_beams": 4}).encode()
    head = b"POST /v1/models/dates/generate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    request = head + b"Content-Length: %d\r\n\r\n" % len(document) + document
    with served(light) as client:
        for _ in range(5):
            with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it is reset
                connection.sendall(request + request)
                time.sleep(0.02)
        time.sleep(1)
        lines = [json.loads(line) for line in client.lines()]
    assert [one for one in lines if one["level"] == "error"] == []


@pytest.mark.parametrize("together", [True, False])
def test_a_body_that_breaks_while_its_client_is_told_to_continue_is_refused_once(server, together):
    head = CHUNKED.replace(b"Host", b"Expect: 100-continue\r\nHost")
    for pause in range(0, 1000, 50):
        with server.connect() as client:
            client.sendall(head + b"ZZ\r\n" if together else head)
            if not together:
                time.sleep(pause * 1e-6)
                client.sendall(b"ZZ\r\n")
            assert read_all(client).count(b"HTTP/1.1 400") == 1
