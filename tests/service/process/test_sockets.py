"""A port that is taken is said, and the service ends."""

import json
import socket
import sys

import pytest

from tests.conftest import start


def last_line(said):
    return json.loads(said.strip().splitlines()[-1])


def test_a_port_that_is_taken_is_reported(artifacts):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start(artifacts, port=taken.getsockname()[1])
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 5
    assert last_line(said)["event"] == "port cannot be had"


@pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")
def test_a_port_that_another_service_shares_is_taken(artifacts):
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = start(artifacts, port=taken.getsockname()[1], workers=2)
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 5
    assert json.loads(said.splitlines()[-1])["event"] == "port cannot be had"
