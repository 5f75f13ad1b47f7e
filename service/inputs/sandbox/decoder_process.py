"""The service's side of the sandbox: starting the fork server, and talking to the decoder processes that it forks.

What a decoder process sends is not trusted: a header of known fields within bounds, then as many bytes of pixels as the
header announces.
"""

import asyncio
import contextlib
import math
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import structlog
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from contract.manifest import ImageRule
from service.child_processes import forbid_inspection
from service.errors import Refusal, TooLarge, Unacceptable, Unsupported
from service.inputs.model_input import Picture, Pixels
from service.inputs.sandbox import seccomp
from service.inputs.sandbox.fork_server import ANSWER_HEADER_BYTES, COMMAND, REQUEST_HEADER
from service.settings import Settings

log = structlog.get_logger()

REFUSALS: dict[str, type[Refusal]] = {"TooLarge": TooLarge, "Unacceptable": Unacceptable, "Unsupported": Unsupported}

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


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _DecodedHeader(_Message):
    """The header of an answer with a picture. Its pixels follow."""

    width: int = Field(ge=1)
    height: int = Field(ge=1)
    orientation: int = Field(ge=1, le=8)
    channels: Literal[1, 3]
    box: tuple[float, float, float, float]

    def picture(self, pixels: Pixels) -> Picture:
        """Return the picture with these pixels. Raises ValueError if the box is empty."""
        left, top, right, bottom = self.box
        if not (left < right and top < bottom):
            raise ValueError("box: must have a width and a height")
        return Picture(pixels, self.box, self.width, self.height, self.orientation)


class _RefusedHeader(_Message):
    """The header of an answer that refuses the image. Nothing follows."""

    refused: Literal["TooLarge", "Unacceptable", "Unsupported"]
    detail: Annotated[str, Field(max_length=300, pattern=r"^[ -~]+$")]


ANSWER_HEADER: TypeAdapter[_DecodedHeader | _RefusedHeader] = TypeAdapter(_DecodedHeader | _RefusedHeader)


class ForkServerError(Exception):
    """The fork server is not running, or it cannot fork."""


@dataclass
class DecoderProcess:
    """A decoder process, the fork server that forked it, and the connection to it. It decodes one image at a time."""

    pid: int
    fork_server: subprocess.Popen[bytes]
    connection: socket.socket
    images: int = 0
    """The number of images that it has decoded."""

    async def decode(self, request: bytes, data: bytes, rule: ImageRule | None, max_pixels: int) -> Picture:
        """Return the picture that a request, as JSON, asks for of an image.

        Raises the Refusal of the image, ConnectionError if the decoder had ended before, EOFError if it ends meanwhile,
        and ValueError if its answer is malformed.
        """
        await self._send(REQUEST_HEADER.pack(len(request), len(data)) + request, data)
        answer = bytearray(ANSWER_HEADER_BYTES + (rule.height * rule.width * rule.channels if rule else 0))
        filled = await self._read(answer, 0, ANSWER_HEADER_BYTES)
        header = ANSWER_HEADER.validate_json(bytes(answer[:ANSWER_HEADER_BYTES]))
        if isinstance(header, _RefusedHeader):
            raise REFUSALS[header.refused](header.detail)
        if header.width * header.height > max_pixels or (rule and rule.channels != header.channels):
            raise ValueError("picture: must be what was asked for")
        if rule:
            shape = rule.height, rule.width, rule.channels
            await self._read(answer, filled, len(answer))
            pixels = np.frombuffer(answer, np.uint8, offset=ANSWER_HEADER_BYTES)
        else:
            shape = header.height, header.width, header.channels
            whole = bytearray(math.prod(shape))
            await self._read(whole, 0, len(whole))
            pixels = np.frombuffer(whole, np.uint8)
        return header.picture(pixels.reshape(shape))

    async def _send(self, head: bytes, data: bytes) -> None:
        sent = self.connection.sendmsg((head, data))
        if sent < len(head) + len(data):
            rest = memoryview(data)[sent - len(head) :] if sent >= len(head) else head[sent:] + data
            with contextlib.suppress(ConnectionError):  # the decoder has ended; reading the answer will raise
                await asyncio.get_running_loop().sock_sendall(self.connection, rest)

    async def _read(self, into: bytearray, filled: int, least: int) -> int:
        """Read into a buffer until at least `least` bytes are filled; return how many are. Raises EOFError."""
        loop = asyncio.get_running_loop()
        with memoryview(into) as view:
            while filled < least:
                try:
                    read = await loop.sock_recv_into(self.connection, view[filled:])
                except ConnectionError:
                    read = 0
                if not read:
                    raise EOFError
                filled += read
        return filled


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

    async def fork(self) -> DecoderProcess:
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
                return DecoderProcess(pid, process, ours)
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
