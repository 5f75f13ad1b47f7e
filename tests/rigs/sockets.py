"""What no client library would send: framing that two servers read differently, floods, and connections cut off."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tests.rigs.client import Broken, Connection, Reply
from tests.rigs.mixes import DATES, MARK

CLOSED = 0
BODY = b'{"inputs": "3/23/21"}'
HEAD = f"POST {DATES}/generate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
GET = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"
SMUGGLED = b"GET /" + MARK.encode() + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
UPGRADE = b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
AS_BODY = HEAD + b"Content-Length: %d\r\n" % len(SMUGGLED) + UPGRADE + SMUGGLED
REFUSED = frozenset({CLOSED, 400, 411, 413, 414, 431})


@dataclass(frozen=True)
class Attack:
    """Pieces that are sent one after another, and what may come of it: statuses, CLOSED for no answer at all."""

    name: str
    pieces: Sequence[bytes]
    right: frozenset[int] = REFUSED
    reset: bool = False
    """True to leave with RST after the last piece."""


def chunked(*sizes: bytes) -> bytes:
    """Return a head that announces chunks, and chunks as they are given."""
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(sizes)


ATTACKS = [
    Attack("a length and chunks", [HEAD + LENGTH + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED]),
    Attack("two lengths", [HEAD + LENGTH + b"Content-Length: 3\r\n\r\n" + BODY + SMUGGLED]),
    Attack("a length that is no number", [HEAD + b"Content-Length: +21\r\n\r\n" + BODY]),
    Attack("a negative length", [HEAD + b"Content-Length: -1\r\n\r\n" + BODY]),
    Attack("a length beyond 64 bits", [HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n" + BODY]),
    Attack("a huge length", [HEAD + b"Content-Length: 99999999999999\r\n\r\n" + BODY]),
    Attack("an unknown coding", [HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + BODY + SMUGGLED]),
    Attack("chunked twice", [HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"]),
    Attack("a chunk of no size", [chunked(b"zz\r\nabc\r\n0\r\n\r\n")]),
    Attack("a chunk of 2^64", [chunked(b"10000000000000000\r\nabc")]),
    Attack("a chunk longer than it says", [chunked(b"2\r\nabcdef\r\n0\r\n\r\n")]),
    Attack("a chunk with a long extension", [chunked(b"1;" + b"a" * 200_000 + b"\r\n{\r\n0\r\n\r\n")], REFUSED | {422}),
    Attack("20000 chunks of a byte", [chunked(b"1\r\n[\r\n" * 20_000, b"0\r\n\r\n")]),
    Attack("bare LF", [HEAD.replace(b"\r\n", b"\n") + b"\n"]),
    Attack("a folded header", [GET + b"X: a\r\n b\r\n\r\n"]),
    Attack("a space before the colon", [GET + b"Content-Length : 3\r\n\r\nabc"]),
    Attack("a header without a name", [GET + b": a\r\n\r\n"]),
    Attack("NUL in a header", [GET + b"X: a\0b\r\n\r\n"]),
    Attack("NUL in the path", [b"GET /health/li\0ve HTTP/1.1\r\nHost: localhost\r\n\r\n"], REFUSED | {404}),
    Attack("bytes beyond ASCII in the path", [b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n"], REFUSED | {404}),
    Attack("no host", [b"GET /health/live HTTP/1.1\r\n\r\n"]),
    Attack("two hosts", [GET + b"Host: b\r\n\r\n"]),
    Attack("a URL of 1 MB", [b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"]),
    Attack("a header of 1 MB", [GET + b"X: " + b"a" * (1 << 20) + b"\r\n\r\n"]),
    Attack("5000 headers", [GET + b"".join(b"X-%d: a\r\n" % index for index in range(5000)) + b"\r\n"]),
    Attack("another protocol", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)]),
    Attack("HTTP/2", [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], REFUSED | {404, 405}),
    Attack("HTTP/9.9", [b"GET /health/live HTTP/9.9\r\nHost: localhost\r\n\r\n"]),
    Attack("no method", [b" /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"]),
    Attack("an upgrade", [GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"], REFUSED | {200, 404, 426}),
    Attack("an upgrade with a body", [HEAD + LENGTH + UPGRADE + BODY], frozenset({200})),
    Attack("an upgrade with a request as its body", [AS_BODY], frozenset({400, 422})),
    Attack("a length in HTTP/2.0", [HEAD.replace(b"1.1", b"2.0") + LENGTH + b"\r\n" + BODY]),
    Attack("chunks in HTTP/1.0", [chunked(b"0\r\n\r\n").replace(b"1.1", b"1.0") + SMUGGLED]),
    Attack("another coding before chunks", [HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + SMUGGLED]),
    Attack("an address as target", [b"GET http://10.0.0.1/x HTTP/1.1\r\nHost: localhost\r\n\r\n"], REFUSED | {404}),
    Attack("CONNECT", [b"CONNECT 10.0.0.1:80 HTTP/1.1\r\nHost: localhost\r\n\r\n"], REFUSED | {404, 405}),
    Attack("TRACE", [b"TRACE /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"], REFUSED | {404, 405}),
    Attack("traversal", [b"GET /v1/models/..%2fetc%2fpasswd HTTP/1.1\r\nHost: localhost\r\n\r\n"], REFUSED | {404}),
    Attack("a body that never comes", [HEAD + LENGTH + b"\r\n"], frozenset({CLOSED}), reset=True),
    Attack("half a head", [HEAD[:40]], frozenset({CLOSED}), reset=True),
    Attack("half a body", [HEAD + LENGTH + b"\r\n" + BODY[:9]], frozenset({CLOSED}), reset=True),
    Attack("left while it is answered", [HEAD + LENGTH + b"\r\n" + BODY], frozenset({CLOSED, 200}), reset=True),
    Attack("nothing", [], frozenset({CLOSED}), reset=True),
    Attack("a hundred at once", [(GET + b"\r\n") * 100], frozenset({200})),
]  # fmt: skip


async def attack(port: int, one: Attack, seconds: float) -> Reply | None:
    """Send an attack; return the first answer, None where the connection is closed or kept waiting without one."""
    connection = await Connection.open(port)
    try:
        async with asyncio.timeout(seconds):
            if one.reset:
                for piece in one.pieces:
                    connection.leave(piece)
                await asyncio.sleep(0.002)
                return None
            return await connection.ask(b"".join(one.pieces))
    except (TimeoutError, Broken):
        return None
    finally:
        connection.reset()
