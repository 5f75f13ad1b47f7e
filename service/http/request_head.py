"""What a request's head must be, beside what the parser of httptools checks."""

from collections.abc import Sequence

from service.errors import HeadersTooLarge, Malformed
from service.settings import Settings

FRAMING_BYTES = 4
"""The bytes of a header beside its name and value: ": " and the end of the line."""


class HeadSize:
    """The headers of a head or of a trailer, counted while they arrive."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._count = self._bytes = 0

    def add(self, name: bytes, value: bytes) -> None:
        """Count a header. Raises HeadersTooLarge for too many, or too many bytes."""
        self._count += 1
        self._bytes += len(name) + len(value) + FRAMING_BYTES
        if self._count > self._settings.max_headers:
            raise HeadersTooLarge(f"headers: at most {self._settings.max_headers}, given more")
        if self._bytes > self._settings.max_header_bytes:
            raise HeadersTooLarge(f"headers: at most {self._settings.max_header_bytes} bytes, given more")


def head_of_framing(headers: Sequence[tuple[bytes, bytes]], *, keep_alive: bool) -> bytes:
    """Return a head that says of a request only how its body is framed, and whether the connection is kept."""
    framing = [(name, value) for name, value in headers if name in (b"content-length", b"transfer-encoding")]
    if not keep_alive:
        framing.append((b"connection", b"close"))
    return b"POST / HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % one for one in framing) + b"\r\n"


def check_head(version: str, method: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Raise Malformed for a head that this service does not take; names of headers are in lower case."""
    if version not in ("1.0", "1.1"):
        raise Malformed("version: must be HTTP/1.0 or HTTP/1.1, given another")
    if method == b"CONNECT":
        raise Malformed("method: CONNECT is for proxies, which this service is not")
    hosts = sum(name == b"host" for name, _ in headers)
    if hosts > 1 or (hosts == 0 and version == "1.1"):  # RFC 9112, section 3.2
        raise Malformed(f"Host: must be given once, given {hosts} times")
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if codings not in ([], [b"chunked"]):  # the parser accepts `gzip, chunked`
        raise Malformed("Transfer-Encoding: must be chunked, given another")
    if codings and version == "1.0":  # RFC 9112, section 6.1
        raise Malformed("Transfer-Encoding: must not be given in HTTP/1.0")
