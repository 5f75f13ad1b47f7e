"""A port that is taken is said, and the service ends."""

import errno
import json
import socket
import sys

import pytest
import structlog

from service.process.sockets import cannot_bind
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
