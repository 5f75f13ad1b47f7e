"""A port that is taken is said, and the service ends."""

import asyncio
import errno
import json
import socket
import sys

import pytest
import structlog
import uvloop

from service.process.sockets import ACCEPTED_IN_A_ROUND, cannot_bind, several
from tests.conftest import start


def last_line(said):
    return json.loads(said.strip().splitlines()[-1])


def test_a_port_that_is_taken_is_reported_before_artifacts_are_read(light):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start(light / "missing", port=taken.getsockname()[1])
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 5
    assert last_line(said)["event"] == "port cannot be had"
    assert last_line(said)["reason"] == "Address already in use; set REGARD_PORT to another"


@pytest.mark.parametrize(
    ("name", "number", "setting"),
    [
        ("port", errno.EADDRINUSE, "REGARD_PORT"),
        ("admin_port", errno.EACCES, "REGARD_ADMIN_PORT"),
        ("port", errno.EADDRNOTAVAIL, "REGARD_HOST"),
        ("port", socket.EAI_NONAME, "REGARD_HOST"),
    ],
)
def test_the_setting_to_change_is_named(name, number, setting):
    with structlog.testing.capture_logs() as logged:
        assert cannot_bind("127.0.0.1", 1, name, OSError(number, "why")) == 5
    assert logged[0]["reason"] == f"why; set {setting} to another"


@pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")
def test_a_port_that_another_service_shares_is_taken(light):
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start(light, port=taken.getsockname()[1], workers=2)
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 5
    assert last_line(said)["event"] == "port cannot be had"
    assert last_line(said)["reason"].endswith("set REGARD_PORT to another")


def test_many_connections_are_accepted_in_a_round_of_the_event_loop():
    """libuv accepts one of a socket; three hundred connections took as many rounds, and a probe behind them waited."""

    async def rounds_of(count):
        loop, round_of, rounds = asyncio.get_running_loop(), [], 0
        listening = socket.create_server(("127.0.0.1", 0), backlog=count)
        clients = [socket.create_connection(listening.getsockname()) for _ in range(count)]

        class Accepted(asyncio.Protocol):
            def connection_made(self, transport):
                round_of.append(rounds)

        servers = [await loop.create_server(Accepted, sock=one) for one in several(listening)]
        while len(round_of) < count:
            rounds += 1
            await asyncio.sleep(0)
        for opened in (*servers, *clients):
            opened.close()
        return len(set(round_of))

    assert uvloop.run(rounds_of(100)) <= 100 // ACCEPTED_IN_A_ROUND + 3
