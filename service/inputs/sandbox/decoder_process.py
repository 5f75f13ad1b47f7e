"""The service's side of the sandbox: the fork server that is started, and the decoder processes that it forks.

What a decoder process sends is not trusted: a header of known fields within bounds, then as many bytes of pixels as it
announces.
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
from service.errors import Refusal, TooLarge, Unacceptable, Unsupported
from service.inputs.model_input import Picture, Pixels
from service.inputs.sandbox.fork_server import HEADER, ORDER, REQUEST
from service.settings import Settings

log = structlog.get_logger()

REFUSALS: dict[str, type[Refusal]] = {"TooLarge": TooLarge, "Unacceptable": Unacceptable, "Unsupported": Unsupported}


FORK_SERVER_MODULE = "service.inputs.sandbox.fork_server"


FORK_SERVER_SECONDS = 20.0
"""Until a fork server that does not answer is given up; its imports take less than one."""


PAUSE = 1.0
"""Seconds until one that failed is tried again."""


PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""Of the environment, which may hold secrets."""


ADDED = {
    "OMP_NUM_THREADS": "1",  # a process of several threads cannot be forked
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # what an image needs is kept for the next one:
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),  # fresh pages would cost a photograph a millisecond
}


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Decoded(_Message):
    """What is said of a picture before its pixels."""

    width: int = Field(ge=1)
    height: int = Field(ge=1)
    orientation: int = Field(ge=1, le=8)
    channels: Literal[1, 3]
    box: tuple[float, float, float, float]

    def picture(self, pixels: Pixels) -> Picture:
        """Return the picture. Raises ValueError for a box that is none."""
        left, top, right, bottom = self.box
        if not (left < right and top < bottom):
            raise ValueError("box: must have a width and a height")
        return Picture(pixels, self.box, self.width, self.height, self.orientation)


class _Refused(_Message):
    """What is said of an image that is not taken."""

    refused: Literal["TooLarge", "Unacceptable", "Unsupported"]
    detail: Annotated[str, Field(max_length=300, pattern=r"^[ -~]+$")]


_HEADER: TypeAdapter[_Decoded | _Refused] = TypeAdapter(_Decoded | _Refused)


class ForkServerError(Exception):
    """There is no fork server, or it cannot fork."""


@dataclass
class DecoderProcess:
    number: int
    fork_server: subprocess.Popen[bytes]
    connection: socket.socket
    images: int = 0

    async def take(self, asked: bytes, data: bytes, rule: ImageRule | None, max_pixels: int) -> Picture:
        """Return the picture of an image.

        Raises what the image is refused with, ConnectionError if the decoder had ended before, EOFError if it ends,
        and ValueError if what it sends is no answer.
        """
        await self._send(REQUEST.pack(len(asked), len(data)) + asked, data)
        answer = bytearray(HEADER + (rule.height * rule.width * rule.channels if rule else 0))
        filled = await self._read(answer, 0, HEADER)
        header = _HEADER.validate_json(bytes(answer[:HEADER]))
        if isinstance(header, _Refused):
            raise REFUSALS[header.refused](header.detail)
        if header.width * header.height > max_pixels or (rule and rule.channels != header.channels):
            raise ValueError("picture: must be what was asked for")
        if rule:
            shape = rule.height, rule.width, rule.channels
            await self._read(answer, filled, len(answer))
            pixels = np.frombuffer(answer, np.uint8, offset=HEADER)
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
            with contextlib.suppress(ConnectionError):  # it has ended, as reading will say
                await asyncio.get_running_loop().sock_sendall(self.connection, rest)

    async def _read(self, into: bytearray, filled: int, least: int) -> int:
        """Read until at least so many bytes are filled, and return how many are."""
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
    """What decoders are forked by: started when it is needed, again should it end, and asked one thing at a time."""

    def __init__(self, settings: Settings) -> None:
        self._arguments = str(settings.decode_seconds), str(settings.decode_bytes)
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Lock()
        self._answered = False
        self._not_before = -math.inf
        self.closed = False

    def start(self) -> "subprocess.Popen[bytes]":
        """Start it; it is ready when it has imported, which takes as long as loading a small model."""
        if time.monotonic() < self._not_before:
            raise ForkServerError
        self._answered = False
        control, theirs = socket.socketpair()
        control.setblocking(False)
        with theirs, contextlib.ExitStack() as failed:
            failed.callback(control.close)
            environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
            self._process = subprocess.Popen(  # noqa: S603 # the interpreter and a module of ours
                [sys.executable, "-m", FORK_SERVER_MODULE, str(theirs.fileno()), *self._arguments],
                cwd=Path(__file__).parents[3],
                env=environment | ADDED,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
            failed.pop_all()
        self._control = control
        return self._process

    async def fork(self) -> DecoderProcess:
        """Return a fresh decoder. Raises ForkServerError where there can be none."""
        async with self._turn:
            if self.closed:
                raise ForkServerError
            process = self._process or self.start()
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            try:
                with theirs:
                    number = await self._order(0, theirs)
                if number < 0:
                    raise ForkServerError
                return DecoderProcess(number, process, ours)
            except BaseException:
                ours.close()
                raise

    async def end(self, decoder: DecoderProcess) -> int:
        """End a decoder and return its status as of `waitpid`. Raises ForkServerError if the fork server ended with it."""
        async with self._turn:
            if decoder.fork_server is not self._process:
                raise ForkServerError
            return await self._order(decoder.number)

    async def _order(self, number: int, connection: socket.socket | None = None) -> int:
        answer = b""
        try:
            async with asyncio.timeout(FORK_SERVER_SECONDS):
                socket.send_fds(self._control, [ORDER.pack(number)], [connection.fileno()] if connection else [])
                answer = await asyncio.get_running_loop().sock_recv(self._control, ORDER.size)
        except (OSError, TimeoutError):
            pass
        except asyncio.CancelledError:
            self.end_all()  # its answer would be taken for the next one's
            raise
        if len(answer) != ORDER.size:
            self.end_all()
            log.error("fork server of image decoders ended", answered=self._answered)
            if not self._answered:  # and the next one hardly will
                self._not_before = time.monotonic() + PAUSE
            raise ForkServerError
        self._answered = True
        return int(ORDER.unpack(answer)[0])

    def end_all(self) -> None:
        """End it, and its decoders with it."""
        if self._process:
            self._control.close()
            self._process.kill()
            self._process.wait()
            self._process = None
