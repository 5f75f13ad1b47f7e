"""What a request's head must be, beside what the parser of httptools checks."""

from collections.abc import Sequence

from service.errors import Malformed


def check_head(version: str, method: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Raise Malformed for a head that this service does not take; names of headers are in lower case."""
    if version not in ("1.0", "1.1"):
        raise Malformed("version: must be HTTP/1.0 or HTTP/1.1, given another")
    if method == b"CONNECT":
        raise Malformed("method: CONNECT is for proxies, which this service is not")
    hosts = sum(name == b"host" for name, _ in headers)
    if hosts != 1:
        raise Malformed(f"Host: must be given once, given {hosts} times")
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if codings not in ([], [b"chunked"]):  # the parser accepts `gzip, chunked`
        raise Malformed("Transfer-Encoding: must be chunked, given another")
    if codings and version == "1.0":  # RFC 9112, section 6.1
        raise Malformed("Transfer-Encoding: must not be given in HTTP/1.0")
