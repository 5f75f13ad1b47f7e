"""A small HTTP/1.1 client on asyncio: quick enough to load the service from one core, and it hides no failure."""

import asyncio
import socket
import struct
from dataclasses import dataclass

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of a socket that leaves with RST instead of FIN."""


class Broken(Exception):
    """A connection ended before its answer was whole."""


@dataclass(frozen=True)
class Reply:
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection:
    """One connection, kept alive as long as both sides wish."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.reusable = True

    @classmethod
    async def open(cls, port: int, address: str = "") -> "Connection":
        """Connect to this machine, from an address of its own. Raises OSError."""
        own = (address, 0) if address else None
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 20, local_addr=own))

    async def ask(self, request: bytes) -> Reply:
        """Send a request and read its answer. Raises Broken."""
        try:
            self._writer.write(request)
            await self._writer.drain()
            return await self._read()
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            self.reusable = False
            raise Broken(type(error).__name__) from error

    async def _read(self) -> Reply:
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status = int(first.split(" ", 2)[1])
        if status < 200 or status in (204, 304):
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            body = await self._chunks()
        elif "content-length" in headers:
            body = await self._reader.readexactly(int(headers["content-length"]))
        else:
            body = await self._reader.read()
            self.reusable = False
        if headers.get("connection", "").lower() == "close":
            self.reusable = False
        return Reply(status, headers, body)

    async def _chunks(self) -> bytes:
        body = bytearray()
        while size := int((await self._reader.readline()).split(b";")[0], 16):
            body += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readline()
        return bytes(body)

    def leave(self, request: bytes) -> None:
        """Send a request without waiting for anything."""
        self._writer.write(request)

    def reset(self) -> None:
        """End the connection with RST."""
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._writer.transport.abort()

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


def request(method: str, path: str, body: bytes = b"", kind: str = "", **headers: str) -> bytes:
    """Return a request as bytes; of headers `_` stands for `-`."""
    lines = {"Host": "127.0.0.1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if kind:
        lines["Content-Type"] = kind
    if body or method == "POST":
        lines["Content-Length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body
