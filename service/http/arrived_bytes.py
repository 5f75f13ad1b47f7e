"""Bytes of a connection that have arrived and are not parsed yet."""

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl

from service.http.socket_buffers import has_left

MOST_PIPELINED = 16
"""While this number of requests wait behind the one that is answered, no more of a connection is parsed or read."""
PIECE_BYTES = 4096
"""The bytes that are parsed at a time of what may hold more heads than that."""
LOOK_SECONDS = 1.0
HEAD_END = b"\r\n\r\n"


class ArrivedBytes:
    """What has arrived: it is parsed in pieces that hold few heads, so that few requests wait for their turn."""

    def __init__(self) -> None:
        self._arrived, self._taken = b"", 0

    def __len__(self) -> int:
        return len(self._arrived) - self._taken

    def add(self, data: bytes) -> None:
        """Add what arrives."""
        self._arrived, self._taken = self._arrived[self._taken :] + data, 0

    def take(self) -> bytes:
        """Remove and return the next piece: all, unless that may hold many heads."""
        start = end = self._taken
        for _ in range(MOST_PIPELINED + 1):
            found = self._arrived.find(HEAD_END, end)
            if found < 0:
                end = len(self._arrived)
                break
            end = found + len(HEAD_END)
        else:
            end = start + PIECE_BYTES
        piece, self._taken = self._arrived[start:end], end
        if self._taken >= len(self._arrived):
            self.clear()
        return piece

    def clear(self) -> None:
        """Forget the rest."""
        self._arrived, self._taken = b"", 0


class ParsedFlow(FlowControl):
    """Whether a connection is read. It is not while some of what has arrived waits to be parsed.

    uvicorn reads on when a request is answered or its body is awaited. For each of them as much would arrive as one
    read brings, many times what a request takes. A connection that is not read does not notice that its client has
    left, so the kernel is asked every LOOK_SECONDS, and the connection is aborted if the client has left.
    """

    def __init__(self, transport: asyncio.Transport, unparsed: ArrivedBytes) -> None:
        super().__init__(transport)
        self._unparsed = unparsed
        self._next_look: asyncio.TimerHandle | None = None

    def pause_reading(self) -> None:
        """Read no more."""
        super().pause_reading()
        if self._next_look is None:
            self._look_later()

    def _look_later(self) -> None:
        self._next_look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._next_look = None
        if self._transport.is_closing() or not self.read_paused:
            return
        if has_left(self._transport):
            self._transport.abort()
        else:
            self._look_later()

    def resume_reading(self) -> None:
        """Read on, unless something waits to be parsed."""
        if not self._unparsed:
            super().resume_reading()
