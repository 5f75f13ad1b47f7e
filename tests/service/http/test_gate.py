"""The gate: hosts and paths. What needs a key is in test_api_keys.py."""

import asyncio
import hashlib

import pytest

from service.http.api_keys import Keys
from service.http.exchange import exchange_of
from service.http.gate import Gate
from service.settings import Settings
from tests.samples.raw_http_server import LAST, problem, running


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


@pytest.mark.parametrize("host", [b"x", b"x:", b"a.b-c_d.example:8000", b"127.0.0.1", b"[::1]:8000"])
def test_a_valid_host_is_answered(server, host):
    assert server.until_closed(LAST.replace(b"Host: x", b"Host: " + host))[0].startswith(b"HTTP/1.1 200 ")


def test_hosts_that_are_not_listed_are_refused_except_for_health_checks():
    with running(allowed_hosts="x, api.example,127.0.0.1,2001:db8::A, [::1]") as server:
        for host, path, status in (
            (b"API.example:80", b"/x", 200),
            (b"[2001:db8::a]", b"/x", 200),
            (b"[2001:DB8:0::A]:8000", b"/x", 200),
            (b"[0:0::1]", b"/x", 200),
            (b"[::2]:80", b"/x", 400),
            (b"evil.example", b"/x", 400),
            (b"10.0.0.1:8000", b"/x", 400),
            (b"10.0.0.1:8000", b"/health/live", 200),
            (b"10.0.0.1:8000", b"/health/live/", 400),
        ):
            answer, _ = server.until_closed(LAST.replace(b"Host: x", b"Host: " + host).replace(b"/x", path))
            assert answer.startswith(f"HTTP/1.1 {status} ".encode()), (host, path)


@pytest.mark.anyio
async def test_what_goes_on_knows_whose_request_it_is(tmp_path):
    """By the name of its key, else by its address, which proxies may say."""

    async def app(scope, receive, send):
        callers.append(exchange_of(scope).client)

    callers, key = [], "k" * 43
    digest = hashlib.sha256(key.encode()).hexdigest()
    (tmp_path / "keys").write_text(f"{digest} predict alice\n")
    behind = [(b"host", b"x"), (b"x-forwarded-for", b"198.51.100.1")]
    for settings, headers in (
        (Settings(), behind),
        (Settings(trusted_proxies="192.0.2.0/24"), behind),
        (Settings(api_keys=tmp_path / "keys"), [(b"host", b"x"), (b"x-api-key", key.encode())]),
    ):
        gate = Gate(app, settings, Keys(settings))
        for _ in range(2):
            scope = {
                "type": "http", "path": "/v1/models", "method": "GET", "headers": headers, "client": ("192.0.2.7", 80),
            }  # fmt: skip
            await asyncio.create_task(gate(scope, None, None))
    assert callers == ["192.0.2.7"] * 2 + ["198.51.100.1"] * 2 + ["alice"] * 2


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("settings", "method", "origin", "status"),
    [
        ({}, "POST", "https://evil.example", 403),
        ({}, "POST", "null", 403),
        ({}, "POST", "http://localhost:8000.evil.example", 403),
        ({}, "POST", "http://localhost:8001", 403),
        ({}, "DELETE", "https://evil.example", 403),
        ({}, "POST", "http://localhost:8000", 200),
        ({}, "POST", "https://localhost:8000", 200),
        ({}, "POST", None, 200),
        ({}, "GET", "https://evil.example", 200),
        ({"cors_origins": "https://a.example"}, "POST", "https://a.example", 200),
        ({"cors_origins": "https://a.example"}, "POST", "https://b.example", 403),
        ({"cors_origins": "*"}, "POST", "https://b.example", 200),
        ({"host": "::1"}, "POST", "https://evil.example", 403),
        ({"host": "0.0.0.0"}, "POST", "https://evil.example", 200),
        ({"host": "192.0.2.1"}, "POST", "https://evil.example", 200),
        ({"api_keys": True}, "POST", "https://evil.example", 401),
    ],
)
async def test_a_service_without_keys_that_only_its_machine_reaches_does_nothing_for_other_pages(
    tmp_path, settings, method, origin, status
):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    statuses = []
    if "api_keys" in settings:
        settings = {"api_keys": tmp_path / "keys"}
        settings["api_keys"].write_text("a" * 64 + " predict alice\n")
    given = Settings(**settings)
    headers = [(b"host", b"localhost:8000"), *([(b"origin", origin.encode())] if origin else [])]
    scope = {
        "type": "http", "method": method, "path": "/v1/x", "headers": headers, "client": ("127.0.0.1", 80),
        "query_string": b"",
    }  # fmt: skip
    await Gate(app, given, Keys(given))(scope, None, send)
    assert statuses == [status]
