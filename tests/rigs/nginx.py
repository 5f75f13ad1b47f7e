"""nginx before a replica, with its defaults: it takes in the whole body, and asks in HTTP/1.0."""

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from tests.rigs.replica import free_port

CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 0;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{replica};
            {options}
        }}
    }}
}}
"""
UNBUFFERED = "proxy_http_version 1.1; proxy_request_buffering off;"


class Nginx:
    """A running proxy; `port` is where it listens."""

    def __init__(self, replica: int, options: str = "") -> None:
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        file = Path(self._folder.name) / "nginx.conf"
        file.write_text(
            CONFIGURATION.format(folder=self._folder.name, port=self.port, replica=replica, options=options)
        )
        self._process = subprocess.Popen(
            [_program(), "-p", self._folder.name, "-e", "error", "-c", file],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> "Nginx":
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                assert self._process.poll() is None, "nginx has ended"
                time.sleep(0.05)
            else:
                return self
        raise TimeoutError("nginx does not listen")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._folder.cleanup()


def _program() -> str:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    assert program, "nginx is not installed"
    return program


def installed() -> bool:
    """Say whether there is an nginx here."""
    return bool(shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin"))
