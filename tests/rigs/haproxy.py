"""A proxy before two replicas: a minimal configuration, only of what rigs rely on."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.rigs.replica import free_port

CONFIGURATION = """
global
    maxconn 2000

defaults
    mode http
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    timeout queue 5s
    timeout check 2s
    option redispatch 1
    retries 3
    # what was not sent can be sent elsewhere; what was sent may have been done
    retry-on conn-failure

frontend regard
    bind 127.0.0.1:{port}
    default_backend replicas

backend replicas
    balance leastconn
    option httpchk
    http-check send meth GET uri /health/ready ver HTTP/1.1 hdr Host localhost
    http-check expect status 200
    http-response set-header X-Replica %[srv_name]
    default-server check inter 500ms fall 1 rise 1
{servers}
"""


class Haproxy:
    """A running proxy; `port` is where it listens."""

    def __init__(self, replicas: Sequence[int]) -> None:
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory()
        servers = "\n".join(f"    server replica{port} 127.0.0.1:{port}" for port in replicas)
        file = Path(self._folder.name) / "haproxy.cfg"
        file.write_text(CONFIGURATION.format(port=self.port, servers=servers))
        program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
        assert program, "haproxy is not installed"
        self._process = subprocess.Popen(
            [program, "-db", "-f", file], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "Haproxy":
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                assert self._process.poll() is None, self._process.stderr.read()  # type: ignore[union-attr]
                time.sleep(0.05)
            else:
                time.sleep(0.6)  # a check of every replica
                return self
        raise TimeoutError("haproxy does not listen")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


def installed() -> bool:
    """Say whether there is a haproxy here."""
    return bool(shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin"))
