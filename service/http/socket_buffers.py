"""Bytes between the service and a client: those that the client has not read, and those that have just arrived."""

import asyncio
import socket
import struct
import sys

import structlog

from service.settings import Settings

if sys.platform == "linux":
    import fcntl
    import termios

LEFT = (7, 8)
"""TCP_CLOSE and TCP_CLOSE_WAIT of linux/tcp_states.h, the states of a connection that was reset or closed."""
log = structlog.get_logger()


def unread_output(transport: asyncio.Transport) -> int:
    """Return the bytes that the client has not acknowledged. The kernel alone may hold minutes of them."""
    unread: int = transport.get_write_buffer_size()
    if sys.platform == "linux":
        unread += _ask_kernel(transport, termios.TIOCOUTQ)
    return unread


def unread_input(transport: asyncio.Transport) -> int:
    """Return the bytes from the client that the kernel holds; 0 where the system does not say."""
    return _ask_kernel(transport, termios.FIONREAD) if sys.platform == "linux" else 0


def has_left(transport: asyncio.Transport) -> bool:
    """True if the client has closed or reset the connection, though bytes of it are unread. Linux alone says so."""
    if sys.platform != "linux":
        return False
    return transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in LEFT


def _ask_kernel(transport: asyncio.Transport, request: int) -> int:
    handle = transport.get_extra_info("socket").fileno()
    return int(struct.unpack("i", fcntl.ioctl(handle, request, bytes(4)))[0])


def reset(transport: asyncio.Transport) -> None:
    """Abort a connection so that the client sees an error and no end."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class ReadingWatch:
    """Aborts a connection whose client reads its answer too slowly; closing it would wait for the client."""

    def __init__(self, transport: asyncio.Transport, settings: Settings) -> None:
        self._transport = transport
        self._seconds = settings.write_seconds
        self._least = settings.write_seconds * settings.body_bytes_a_second
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Begin to watch, or begin anew."""
        self.stop()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, self._check, unread_output(self._transport))

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self, before: int) -> None:
        """Abort if the client has read too little since `before` bytes were unread."""
        self._timer = None
        if not self._transport.get_write_buffer_size():
            return
        if before - unread_output(self._transport) < self._least:
            log.info("connection closed", reason="the client does not read")
            self._transport.abort()
        else:
            self.watch()
