"""What answers are written to, and where uvicorn's framing of them is wrong: for clients of HTTP/1.0, and after
`Expect: 100-continue`."""

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING
from wsgiref.handlers import format_date_time

from starlette.responses import Response

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

BODILESS = frozenset({204, 304})
"""Statuses of answers that have no body."""


class AnswerTransport:
    """What an answer is written to: the connection's transport, with another way to close it.

    uvicorn writes the head of an answer, then its body. The head is held until the body comes in the same turn of the
    event loop, so that the system is called once for both.
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, close: Callable[[], None]
    ) -> None:
        self._transport, self._loop, self._close = transport, loop, close
        self.is_closing = transport.is_closing
        self._held = b""
        self._ended = False

    def write(self, data: bytes) -> None:
        """Write now, or a head soon."""
        if self._ended:
            return
        if self._held or not data.startswith(b"HTTP/1.1 "):
            data, self._held = self._held + data, b""
            self._transport.write(data)
        else:
            self._held = data
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what is held."""
        data, self._held = self._held, b""
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def half_close(self) -> None:
        """Write what is held, say that no more comes, and take nothing more."""
        self.flush()
        self._transport.write_eof()
        self._ended = True

    def close(self) -> None:
        """Close in the protocol's way."""
        self.flush()
        self._close()


def frame_for_http_1_0(cycle: "RequestResponseCycle", *, keep_alive: bool) -> None:
    """Answer a client of HTTP/1.0, which knows no chunks (RFC 9112, sections 6.1 and 9.3).

    An answer of unknown length ends with its connection. With another one the connection stays open if the client asked
    for that, and is told so. The client is never told to continue.
    """
    cycle.keep_alive, cycle.waiting_for_100_continue = keep_alive, False
    send = cycle.send
    ends_with_connection = False

    async def framed(message: "ASGISendEvent") -> None:
        nonlocal ends_with_connection
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            names = {name.lower() for name, _ in headers}
            bodiless = message["status"] in BODILESS or cycle.scope["method"] == "HEAD"
            ends_with_connection = b"content-length" not in names and not bodiless
            if ends_with_connection:
                cycle.keep_alive = cycle.chunked_encoding = False
            elif cycle.keep_alive and b"connection" not in names:
                message["headers"] = [*headers, (b"connection", b"keep-alive")]
        elif message["type"] == "http.response.body" and ends_with_connection:
            cycle.expected_content_length = len(message.get("body", b""))  # uvicorn compares them
        await send(message)

    cycle.send = framed  # type: ignore[method-assign] # uvicorn makes the cycle; only this one is framed otherwise


def close_if_not_continued(cycle: "RequestResponseCycle") -> None:
    """Close after an answer to a request that waits for 100 (Continue) in vain (RFC 9110, section 10.1.1).

    The client then need not send the body, and what it sends next would be taken for it.
    """
    send = cycle.send

    async def framed(message: "ASGISendEvent") -> None:
        if message["type"] == "http.response.start":
            in_vain = cycle.waiting_for_100_continue and cycle.more_body and not cycle.body
            cycle.keep_alive = cycle.keep_alive and not in_vain
        await send(message)

    cycle.send = framed  # type: ignore[method-assign] # as above


def bytes_of(answer: Response) -> bytes:
    """Return a whole answer as HTTP/1.1 has it, with its date (RFC 9110, section 6.6.1)."""
    status = HTTPStatus(answer.status_code)
    lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
    lines.append(b"date: " + format_date_time(time.time()).encode())
    lines += [name + b": " + value for name, value in answer.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(answer.body)])
