"""The service's side of the sandbox: starting the fork server, and talking to the decoder processes that it forks.

What a decoder process sends is not trusted; `messages.py` checks it.
"""

import asyncio
import contextlib
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from service.child_processes import forbid_inspection
from service.inputs.decoding import Decoded, Request
from service.inputs.sandbox import seccomp
from service.inputs.sandbox.fork_server import COMMAND
from service.inputs.sandbox.messages import Answer, request_head
from service.settings import Settings

log = structlog.get_logger()

FORK_SERVER_MODULE = "service.inputs.sandbox.fork_server"
FORK_SERVER_SECONDS = 20.0
"""A fork server that does not answer for this long is given up. Its imports take less than a second."""
RETRY_SECONDS = 1.0
"""Pause before a fork server is started again after one that never answered."""
PASSED_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""Variables that the fork server inherits; the others may hold secrets."""
ADDED_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # a process of several threads cannot be forked
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # memory of an image is reused for the next one:
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),  # fresh pages would cost a photograph a millisecond
}


class ForkServerError(Exception):
    """The fork server is not running, or it cannot fork."""


class DecoderProcess:
    """A decoder process, the fork server that forked it, and the connection to it. It decodes one image at a time."""

    def __init__(
        self,
        pid: int,
        fork_server: "subprocess.Popen[bytes]",
        connection: socket.socket,
        end: "Callable[[DecoderProcess], Awaitable[int]]",
    ) -> None:
        self.pid, self.fork_server = pid, fork_server
        self.images = 0
        """The number of images that it has decoded or refused."""
        self.unasked = False
        """True if it has sent something while it had no image."""
        self._end = end
        self._connection = connection
        self._answer: Answer | None = None
        self._decoded: asyncio.Future[Decoded] | None = None
        self._unsent = memoryview(b"")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection, self._receive)  # once: to add it for each image would cost system calls

    async def decode(self, request: Request, data: bytes, seconds: float) -> Decoded:
        """Return what a request asks for of a file: the picture of an image, or a sound.

        Raises the Refusal of the image, ConnectionError if the decoder had ended before or is `unasked`, EOFError if it
        ends meanwhile, ValueError if its answer is malformed, and TimeoutError if it takes longer than `seconds`.
        """
        if self.unasked:
            raise ConnectionResetError
        self._answer = Answer(request)
        self._decoded = self._loop.create_future()
        self._send(request_head(request, len(data)), data)
        alarm = self._loop.call_later(seconds, self._finish, TimeoutError())
        try:
            return await self._decoded
        finally:
            alarm.cancel()
            self._decoded = None  # an idle decoder keeps no image

    def close(self) -> None:
        """Close the connection."""
        self._loop.remove_reader(self._connection)
        self._loop.remove_writer(self._connection)
        self._connection.close()

    async def end(self) -> int:
        """Kill it; return its wait status. Raises ForkServerError if its fork server has ended, and it too."""
        return await self._end(self)

    def _send(self, head: bytes, data: bytes) -> None:
        """Send what the connection takes now, and have the loop send the rest. Raises ConnectionError."""
        try:
            sent = self._connection.sendmsg((head, data))
        except BlockingIOError:  # it has answered the image before without reading all of it
            sent = 0
        if sent < len(head) + len(data):
            self._unsent = memoryview(data)[sent - len(head) :] if sent >= len(head) else memoryview(head[sent:] + data)
            self._loop.add_writer(self._connection, self._send_rest)

    def _send_rest(self) -> None:
        try:
            self._unsent = self._unsent[self._connection.send(self._unsent) :]
        except BlockingIOError:
            return
        except ConnectionError:  # the decoder has ended, as `_receive` will find out
            self._unsent = memoryview(b"")
        if not self._unsent:
            self._unsent = memoryview(b"")  # an empty part of an image would keep it in memory
            self._loop.remove_writer(self._connection)

    def _receive(self) -> None:
        if self._answer is None:
            with contextlib.suppress(OSError):
                self.unasked = bool(self._connection.recv(1))
            self._loop.remove_reader(self._connection)
            return
        result: Decoded | Exception | None
        try:
            count = self._connection.recv_into(self._answer.rest)
            result = self._answer.add(count) if count else EOFError()
        except BlockingIOError:
            return
        except ConnectionError:
            result = EOFError()
        except ValueError as error:
            result = error
        if result is not None:
            if self._unsent and not isinstance(result, EOFError):
                result = ValueError("answer: must come after the whole image was sent")
            self._finish(result)

    def _finish(self, result: Decoded | Exception) -> None:
        """Return it to whoever waits for it, or raise the error there."""
        self._answer = None
        self.images += 1
        if not self._decoded or self._decoded.done():
            return
        if isinstance(result, Exception):
            self._decoded.set_exception(result)
        else:
            self._decoded.set_result(result)


class ForkServer:
    """The fork server as a child process. It is started when needed, also after its end; commands go one at a time."""

    def __init__(self, settings: Settings) -> None:
        self._arguments = str(settings.decode_seconds), str(settings.decode_bytes)
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Lock()
        self._answered = False
        self._warned = False
        self._not_before = -math.inf
        self.closed = False

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the fork server. Its imports take as long as loading a small model; commands wait for them.

        From then on other processes of the same user, such as decoders, cannot read the memory of this one. If decoders
        cannot be confined by seccomp, a warning is logged once.

        Raises ForkServerError within RETRY_SECONDS of a failure, and OSError if it cannot be started.
        """
        if time.monotonic() < self._not_before:
            raise ForkServerError
        forbid_inspection()
        if (missing := seccomp.why_unavailable()) and not self._warned:
            log.warning("image decoders are not confined by seccomp", reason=missing)
            self._warned = True
        self._answered = False
        control, theirs = socket.socketpair()
        control.setblocking(False)
        with theirs, contextlib.ExitStack() as failed:
            failed.callback(control.close)
            environment = {name: os.environ[name] for name in PASSED_ENVIRONMENT if name in os.environ}
            self._process = subprocess.Popen(  # noqa: S603 # the interpreter and a module of ours
                [sys.executable, "-m", FORK_SERVER_MODULE, str(theirs.fileno()), *self._arguments],
                cwd=Path(__file__).parents[3],
                env=environment | ADDED_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
            failed.pop_all()
        self._control = control
        return self._process

    async def new_decoder(self) -> DecoderProcess:
        """Fork a decoder process and return it. Raises ForkServerError if that fails."""
        async with self._turn:
            if self.closed:
                raise ForkServerError
            process = self._process or self.start()
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            try:
                with theirs:
                    pid = await self._send_command(0, theirs)
                if pid < 0:
                    raise ForkServerError
                return DecoderProcess(pid, process, ours, self.end)
            except BaseException:
                ours.close()
                raise

    async def end(self, decoder: DecoderProcess) -> int:
        """Kill a decoder; return its wait status. Raises ForkServerError if its fork server has ended, and it too."""
        async with self._turn:
            if decoder.fork_server is not self._process:
                raise ForkServerError
            return await self._send_command(decoder.pid)

    async def _send_command(self, pid: int, connection: socket.socket | None = None) -> int:
        answer = b""
        try:
            async with asyncio.timeout(FORK_SERVER_SECONDS):
                socket.send_fds(self._control, [COMMAND.pack(pid)], [connection.fileno()] if connection else [])
                answer = await asyncio.get_running_loop().sock_recv(self._control, COMMAND.size)
        except (OSError, TimeoutError):
            pass
        except asyncio.CancelledError:
            self.end_all()  # the next command would get this command's answer
            raise
        if len(answer) != COMMAND.size:
            self.end_all()
            log.error("fork server of image decoders ended", answered=self._answered)
            if not self._answered:  # the next one would hardly answer either
                self._not_before = time.monotonic() + RETRY_SECONDS
            raise ForkServerError
        self._answered = True
        return int(COMMAND.unpack(answer)[0])

    def end_all(self) -> None:
        """Kill the fork server; its decoders end with it."""
        if self._process:
            self._control.close()
            self._process.kill()
            self._process.wait()
            self._process = None
