"""What the parser lets through and the service refuses. The same at a socket is in test_bounded_protocol.py."""

import pytest

from service.errors import Malformed
from service.http.request_head import check_head

HOST = (b"host", b"x")
CHUNKED = (b"transfer-encoding", b"Chunked")


def test_an_ordinary_head_is_taken():
    for version in ("1.0", "1.1"):
        check_head(version, b"GET", [HOST])
    check_head("1.1", b"POST", [CHUNKED, HOST])


@pytest.mark.parametrize(
    ("version", "method", "headers"),
    [
        ("2.0", b"GET", [HOST]), ("0.9", b"GET", [HOST]), ("1.1", b"CONNECT", [HOST]), ("1.1", b"GET", []),
        ("1.1", b"GET", [HOST, HOST]), ("1.1", b"POST", [HOST, (b"transfer-encoding", b"gzip, chunked")]),
        ("1.1", b"POST", [HOST, CHUNKED, CHUNKED]), ("1.0", b"POST", [HOST, CHUNKED]),
        ("1.1", b"POST", [HOST, (b"transfer-encoding", b"")]),
    ],
)  # fmt: skip
def test_another_is_refused(version, method, headers):
    with pytest.raises(Malformed):
        check_head(version, method, headers)
