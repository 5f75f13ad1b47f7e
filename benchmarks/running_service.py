"""The service as a process of its own, which is measured from outside."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress

import httpx

from benchmarks.peers import ROOT

START_SECONDS = 60


@contextmanager
def served(artifacts, command=("-m", "service"), **settings):
    """Run the service (`python -m service`) on a free port until the block ends, with these settings and no others.

    Gives a client whose base is the service's address. `client.process` is the process, `client.lines()` returns the
    lines that it has logged.
    """
    port = free_port()
    settings = {"artifacts": artifacts, "port": port, "drain_seconds": 0, **settings}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REGARD_")}
    environment |= {f"REGARD_{name}".upper(): str(value) for name, value in settings.items()}
    with (
        tempfile.TemporaryFile("w+") as log,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
    ):
        client.process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        client.lines = lambda: _lines(log)
        try:
            _wait_until_ready(client)
            yield client
        finally:
            client.process.send_signal(signal.SIGTERM)
            client.process.wait(timeout=30)


@contextmanager
def fastapi(script, *arguments):
    """Run a script of benchmarks/peers, which serves FastAPI, until the block ends; gives its address."""
    port = free_port()
    process = subprocess.Popen([sys.executable, ROOT / "benchmarks/peers" / script, *arguments, f"--port={port}"])
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(START_SECONDS * 10):
            with suppress(httpx.TransportError):
                httpx.get(f"{url}/openapi.json")
                break
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def free_port():
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _lines(log):
    # the service writes where the file's position is, which `pread` does not move
    return os.pread(log.fileno(), os.fstat(log.fileno()).st_size, 0).decode().splitlines()


def _wait_until_ready(client):
    """Raises RuntimeError if the service ends, TimeoutError if it is not ready in time."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        try:
            if client.get("/health/ready").status_code == 200:
                return
        except httpx.TransportError:
            if client.process.poll() is not None:
                raise RuntimeError("\n".join(client.lines())) from None
        time.sleep(0.1)
    raise TimeoutError(f"the service is not ready after {START_SECONDS} seconds")
