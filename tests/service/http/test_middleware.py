"""The outermost layers: origins, hosts, paths, and the size and speed of bodies."""

import contextlib
import time

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.http import middleware
from service.settings import Settings
from service.store import open_store
from tests.samples.api_keys import bearer
from tests.samples.http_requests import GENERATE
from tests.samples.raw_http_server import CHUNKED, LAST, POST, problem, read_all, running


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_reaches_the_loop(server):
    yield
    assert not server.complaints


def test_pages_of_listed_origins_may_ask_and_others_may_not(models, file):
    settings = Settings(api_keys=file, cors_origins="https://a.example, https://b.example")
    asking = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    with TestClient(create_app(settings, models, open_store(settings))) as client:
        for origin in ("https://a.example", "https://b.example"):
            allowed = client.options(GENERATE, headers={"Origin": origin, **asking})  # carries no key, as browsers do
            assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, origin)
            answer = client.post(GENERATE, json={}, headers={"Origin": origin})
            assert answer.status_code == 401
            assert answer.headers["access-control-allow-origin"] == origin, "or the page could not read the refusal"
            assert answer.headers["access-control-expose-headers"] == "X-Request-Id, Retry-After"
            assert "access-control-allow-credentials" not in answer.headers
        for origin in ("https://a.example.evil", "http://a.example", "null", "*"):
            denied = client.options(GENERATE, headers={"Origin": origin, **asking})
            assert denied.status_code == 400
            assert "access-control-allow-origin" not in denied.headers
            answer = client.get("/v1/models", headers={"Origin": origin, **bearer("p")})
            assert "access-control-allow-origin" not in answer.headers
        assert client.options(GENERATE).status_code == 401


def test_without_listed_origins_no_page_of_another_may_ask(client):
    answer = client.get("/v1/models", headers={"Origin": "https://a.example", **bearer("p")})
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (b"/x%00", 404), (b"/x%0a", 404), (b"/x%1b[2J", 404), (b"/%c2%85", 404), (b"/%ff", 404), (b"//x", 404),
        (b"/x/../x", 404), (b"/x/%2e%2e/x", 404), (b"/..%2fx", 404), (b"/./x", 404), (b"/x%5cy", 404), (b"/a%20b", 404),
        (b"*", 404), (b"/...", 200), (b"/..x", 200), (b"/x..", 200), (b"/a.b/c_d-e~f", 200), (b"/", 200),
        (b"http://elsewhere/x", 200),
    ],
)  # fmt: skip
def test_a_path_of_odd_characters_is_not_found(server, path, status):
    answer, _ = server.until_closed(LAST.replace(b"/x", path).replace(b"GET", b"OPTIONS"))
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize("host", [b"", b"a/health?", b"a@b", b"a b", b"a:b", b"[::1", b"a\\b", b"a:123456"])
def test_an_invalid_host_is_refused(server, host):
    answer, _ = server.until_closed(LAST.replace(b"Host: x", b"Host: " + host))
    assert problem(answer) == (400, "Host: must be a host name or address, given another")


@pytest.mark.parametrize("host", [b"x", b"a.b-c_d.example:8000", b"127.0.0.1", b"[::1]:8000"])
def test_a_valid_host_is_answered(server, host):
    assert server.until_closed(LAST.replace(b"Host: x", b"Host: " + host))[0].startswith(b"HTTP/1.1 200 ")


def test_hosts_that_are_not_listed_are_refused_except_for_health_checks():
    with running(allowed_hosts="x, api.example,127.0.0.1") as server:
        for host, path, status in (
            (b"API.example:80", b"/x", 200),
            (b"evil.example", b"/x", 400),
            (b"10.0.0.1:8000", b"/x", 400),
            (b"10.0.0.1:8000", b"/health/live", 200),
            (b"10.0.0.1:8000", b"/health/live/", 400),
        ):
            answer, _ = server.until_closed(LAST.replace(b"Host: x", b"Host: " + host).replace(b"/x", path))
            assert answer.startswith(f"HTTP/1.1 {status} ".encode()), (host, path)


def test_a_body_that_does_not_end_is_refused_in_time(server):
    for head in (POST + b"Content-Length: 9\r\n\r\nabc", CHUNKED + b"3\r\nabc\r\n"):
        answer, seconds = server.until_closed(head)
        assert problem(answer) == (
            408,
            "body: at most 0.6 seconds and at least 1000 bytes a second, given up after 0.6 seconds and 3 bytes",
        )
        assert b"\r\nconnection: close\r\n" in answer.lower()
        assert 0.5 < seconds < 2


def test_a_body_that_arrives_too_slowly_is_refused_before_its_deadline(monkeypatch):
    monkeypatch.setattr(middleware, "FIRST_SECONDS", 0.3)
    with running(body_seconds=60) as server, server.connect() as client:
        start = time.monotonic()
        client.sendall(POST + b"Content-Length: 9000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                client.sendall(b"a" * 10)
                time.sleep(0.02)  # 500 bytes a second
        assert problem(read_all(client))[0] == 408
        assert 0.3 < time.monotonic() - start < 5
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
        assert seconds < 3


def test_a_hundred_thousand_chunks_of_a_byte_are_refused(server):
    answer, seconds = server.until_closed(CHUNKED + b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n")
    assert problem(answer) == (413, "body: at most 65536 pieces, given more")
    assert seconds < 8
    head = CHUNKED.replace(b"Host", b"Connection: close\r\nHost")
    answer, _ = server.until_closed(head + b"1\r\na\r\n" * 60_000 + b"0\r\n\r\n")
    assert answer.endswith(b"60000")
