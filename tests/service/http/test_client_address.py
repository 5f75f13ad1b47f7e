"""Who sends a request: the address of the connection, or what trusted proxies say."""

import pytest
from starlette.datastructures import Headers

from service.http.client_address import client_address
from service.settings import network_of

TRUSTED = [network_of("10.0.0.0/8"), network_of("fd00::/8")]


def found(peer, *headers, trusted=TRUSTED):
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return client_address({"client": peer and (peer, 1234)}, Headers(raw=raw), trusted)


@pytest.mark.parametrize(
    ("peer", "headers", "address"),
    [
        ("192.0.2.7", [], "192.0.2.7"),
        ("192.0.2.7", [("x-forwarded-for", "198.51.100.1")], "192.0.2.7"),
        ("10.1.2.3", [], "10.1.2.3"),
        ("10.1.2.3", [("x-forwarded-for", "198.51.100.1")], "198.51.100.1"),
        ("10.1.2.3", [("x-forwarded-for", "1.2.3.4, 198.51.100.1")], "198.51.100.1"),
        ("10.1.2.3", [("x-forwarded-for", "1.2.3.4"), ("x-forwarded-for", "198.51.100.1, 10.9.9.9")], "198.51.100.1"),
        ("10.1.2.3", [("x-forwarded-for", "198.51.100.1:4711")], "198.51.100.1"),
        ("10.1.2.3", [("x-forwarded-for", "10.9.9.9, 10.8.8.8")], "10.9.9.9"),
        ("10.1.2.3", [("x-forwarded-for", "1.2.3.4, nonsense")], "10.1.2.3"),
        ("10.1.2.3", [("x-forwarded-for", "")], "10.1.2.3"),
        ("10.1.2.3", [("forwarded", "for=1.2.3.4, for=198.51.100.1;proto=https")], "198.51.100.1"),
        ("10.1.2.3", [("forwarded", 'proto=http; For="198.51.100.1:80"')], "198.51.100.1"),
        ("10.1.2.3", [("forwarded", 'for="[2001:db8:1:2:3:4:5:6]:80"')], "2001:db8:1:2::"),
        ("10.1.2.3", [("forwarded", "for=unknown")], "10.1.2.3"),
        ("10.1.2.3", [("forwarded", "for=198.51.100.1"), ("x-forwarded-for", "198.51.100.1")], "198.51.100.1"),
        ("10.1.2.3", [("forwarded", "for=1.2.3.4"), ("x-forwarded-for", "198.51.100.1")], "10.1.2.3"),
        ("fd00::1", [("x-forwarded-for", "2001:db8:1:2:ffff::9")], "2001:db8:1:2::"),
        ("::ffff:10.1.2.3", [("x-forwarded-for", "::ffff:198.51.100.1")], "198.51.100.1"),
        ("2001:db8:1:2:3::4", [], "2001:db8:1:2::"),
        ("::ffff:192.0.2.7", [], "192.0.2.7"),
        (None, [("x-forwarded-for", "198.51.100.1")], ""),
        ("testclient", [("x-forwarded-for", "198.51.100.1")], "testclient"),
    ],
)
def test_the_last_address_that_is_not_of_a_trusted_proxy_counts(peer, headers, address):
    assert found(peer, *headers) == address


def test_without_trusted_proxies_nothing_is_believed():
    assert found("10.1.2.3", ("x-forwarded-for", "198.51.100.1"), trusted=[]) == "10.1.2.3"
