"""The repository's proxy, run in front of whatever two addresses are given."""

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.samples.ports import free_port

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "deploy/haproxy.cfg"

needs_haproxy = pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy, the proxy itself, is absent")


@contextmanager
def proxied(first, second, **changed):
    """Run haproxy with deploy/haproxy.cfg before two `host:port`; gives its own `host:port`.

    What the configuration reads from PROXY_<NAME> is set by a keyword argument <name>.
    """
    listen = f"127.0.0.1:{free_port()}"
    settings = {"listen": listen, "first": first, "second": second, **changed}
    process = subprocess.Popen(
        ["haproxy", "-db", "-q", "-f", CONFIGURATION],
        env=os.environ | {f"PROXY_{name.upper()}": str(value) for name, value in settings.items()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(listen, process)
        yield listen
    finally:
        process.send_signal(signal.SIGTERM)  # at once; SIGUSR1 would wait for idle connections
        process.wait(timeout=10)


def _wait_for(address, process):
    host, port = address.split(":")
    for _ in range(100):
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            assert process.poll() is None, "haproxy ended; haproxy -c says why"
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("haproxy does not listen after 5 seconds")
