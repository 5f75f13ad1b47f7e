"""What rigs put before replicas: a program of its own, with a configuration that is written for it."""

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from tests.samples.ports import free_port


class Proxy:
    """A running proxy; `port` is where it listens."""

    name: str
    options: tuple[str, ...]
    """The options of its command, before the file of its configuration; `{folder}` is the folder of that file."""
    settle = 0.0
    """Seconds from when it listens until it is asked."""

    def __init__(self, configuration: str, **given: object) -> None:
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        folder = self._folder.name
        file = Path(folder) / "configuration"
        file.write_text(configuration.format(port=self.port, folder=folder, **given))
        program = find(self.name)
        assert program, f"{self.name} is not installed"
        options = [option.format(folder=folder) for option in self.options]
        self._process = subprocess.Popen(
            [program, *options, file], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                assert self._process.poll() is None, self._process.communicate()[1]
                time.sleep(0.05)
            else:
                time.sleep(self.settle)
                return self
        raise TimeoutError(f"{self.name} does not listen")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


def find(name: str) -> str | None:
    """Return where a program is, None where there is none."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")
