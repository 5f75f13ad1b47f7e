"""What the kernel holds between the service and a client. Slow readers are in test_bounded_protocol.py."""

import asyncio
import sys

import pytest

from service.http.socket_buffers import unread_input, unread_output

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's kernel")]


async def test_the_bytes_that_a_client_has_sent_are_counted_before_they_are_read():
    accepted = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *both: accepted.set_result(both), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        _, other = await accepted
        writer.transport.pause_reading()
        assert unread_input(writer.transport) == 0
        other.write(b"abc")
        await other.drain()
        for _ in range(500):
            if not unread_input(writer.transport):
                await asyncio.sleep(0.01)
        assert unread_input(writer.transport) == 3
        other.transport.pause_reading()
        assert unread_output(writer.transport) == 0
        writer.write(bytes(50_000_000))
        assert unread_output(writer.transport) > 10_000_000
        for stream in (writer, other):
            stream.transport.abort()
        del reader
