"""The gate: hosts and paths. What needs a key is in test_api_keys.py."""

import pytest

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
