"""A Redis server for tests."""

import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path


class RedisServer:
    """A Redis server of the test's own, on a socket in a folder."""

    def __init__(self, folder):
        self.path = f"{folder}/redis.sock"
        self.url = f"unix://{self.path}"
        self.start()

    def start(self):
        """Start the server, empty, and wait until it listens."""
        options = f"--port 0 --unixsocket {self.path} --save '' --appendonly no --dir {Path(self.path).parent}"
        command = ["redis-server", *options.replace("''", "").split(" ")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert any("ready to accept" in line for line in self.process.stdout)

    def kill(self):
        """End the server at once."""
        self.process.kill()
        self.process.wait(10)
        self.process.stdout.close()

    @contextmanager
    def hung(self):
        """Let the server take what is sent and answer nothing, for the length of a block."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def ask(self, *words):
        """Return the lines that the server answers a command."""
        done = subprocess.run(
            ["redis-cli", "-s", self.path, *map(str, words)], capture_output=True, text=True, check=True
        )
        return done.stdout.split()
