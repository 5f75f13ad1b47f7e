"""What has arrived is taken in pieces: all of it, unless it may hold more heads than may wait."""

from types import SimpleNamespace

import pytest

from service.http.arrived_bytes import MOST_PIPELINED, PIECE_BYTES, ArrivedBytes, ParsedFlow

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("sent", [HEAD, HEAD * MOST_PIPELINED, HEAD + bytes(1 << 18)])
def test_what_holds_few_heads_is_taken_whole(sent):
    arrived = ArrivedBytes()
    arrived.add(sent[:10])
    arrived.add(sent[10:])
    assert (arrived.take(), len(arrived)) == (sent, 0)


def test_what_may_hold_many_heads_is_taken_in_pieces():
    arrived, pieces = ArrivedBytes(), []
    arrived.add(HEAD * 1000)
    while arrived:
        pieces.append(arrived.take())
    assert b"".join(pieces) == HEAD * 1000
    assert max(map(len, pieces)) == PIECE_BYTES
    assert not arrived._arrived, "nothing is kept for a connection that is idle"
    arrived.add(HEAD)
    arrived.clear()
    assert not arrived


@pytest.mark.anyio
async def test_a_connection_is_not_read_on_while_something_waits_to_be_parsed():
    calls, arrived = [], ArrivedBytes()
    flow = ParsedFlow(
        SimpleNamespace(pause_reading=lambda: calls.append("pause"), resume_reading=lambda: calls.append("resume")),
        arrived,
    )
    arrived.add(HEAD)
    flow.pause_reading()
    flow.resume_reading()
    assert calls == ["pause"]
    arrived.take()
    flow.resume_reading()
    assert calls == ["pause", "resume"]
