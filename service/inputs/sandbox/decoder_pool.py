"""Decoders: images to pictures in processes that a hostile image may crash, hang or fill, and this one does not notice.

What they send is not trusted: a header of known fields within bounds, and as many bytes of pixels as it announces.
"""

import asyncio
import contextlib
import functools
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import numpy as np
import structlog
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from contract.manifest import ImageRule
from service.errors import NotReady, Refusal, TooLarge, Unacceptable, Unsupported
from service.inputs.image_preprocessing import Picture, Pixels
from service.telemetry.metrics import Metrics
from service.inputs.sandbox.fork_server import HEADER, ORDER, OUT_OF_MEMORY, REQUEST, Asked
from service.settings import Settings

T = TypeVar("T")
Cause: TypeAlias = Literal["crash", "deadline", "memory", "malformed", "cancelled", "worn", "nursery"]
"""Why a decoder was replaced: `malformed` is an answer that is none, `nursery` the end of what forked it."""
CAUSES: dict[int, Cause] = {-signal.SIGALRM: "deadline", OUT_OF_MEMORY: "memory"}
"""By exit status, a signal's being negative; any other is a crash."""
REFUSALS: dict[str, type[Refusal]] = {"TooLarge": TooLarge, "Unacceptable": Unacceptable, "Unsupported": Unsupported}

NURSERY = "service.inputs.sandbox.fork_server"
IMAGES = 1000
"""That one process decodes."""
NURSERY_SECONDS = 20.0
"""Until a nursery that does not answer is given up; it imports for less than one."""
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

log = structlog.get_logger()


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Taken(_Part):
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


class _Refused(_Part):
    """What is said of an image that is not taken."""

    refused: Literal["TooLarge", "Unacceptable", "Unsupported"]
    detail: Annotated[str, Field(max_length=300, pattern=r"^[ -~]+$")]


_HEADER: TypeAdapter[_Taken | _Refused] = TypeAdapter(_Taken | _Refused)


class _NurseryError(Exception):
    """There is no nursery, or it cannot fork."""


@dataclass
class _Decoder:
    number: int
    nursery: subprocess.Popen[bytes]
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


class Nursery:
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
            raise _NurseryError
        self._answered = False
        control, theirs = socket.socketpair()
        control.setblocking(False)
        with theirs, contextlib.ExitStack() as failed:
            failed.callback(control.close)
            environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
            self._process = subprocess.Popen(  # noqa: S603 # the interpreter and a module of ours
                [sys.executable, "-m", NURSERY, str(theirs.fileno()), *self._arguments],
                cwd=Path(__file__).parents[3],
                env=environment | ADDED,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
            failed.pop_all()
        self._control = control
        return self._process

    async def fork(self) -> _Decoder:
        """Return a fresh decoder. Raises _NurseryError where there can be none."""
        async with self._turn:
            if self.closed:
                raise _NurseryError
            process = self._process or self.start()
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            try:
                with theirs:
                    number = await self._order(0, theirs)
                if number < 0:
                    raise _NurseryError
                return _Decoder(number, process, ours)
            except BaseException:
                ours.close()
                raise

    async def end(self, decoder: _Decoder) -> int:
        """End a decoder and return its status as of `waitpid`. Raises _NurseryError if the nursery ended with it."""
        async with self._turn:
            if decoder.nursery is not self._process:
                raise _NurseryError
            return await self._order(decoder.number)

    async def _order(self, number: int, connection: socket.socket | None = None) -> int:
        answer = b""
        try:
            async with asyncio.timeout(NURSERY_SECONDS):
                socket.send_fds(self._control, [ORDER.pack(number)], [connection.fileno()] if connection else [])
                answer = await asyncio.get_running_loop().sock_recv(self._control, ORDER.size)
        except (OSError, TimeoutError):
            pass
        except asyncio.CancelledError:
            self.end_all()  # its answer would be taken for the next one's
            raise
        if len(answer) != ORDER.size:
            self.end_all()
            log.error("nursery of image decoders ended", answered=self._answered)
            if not self._answered:  # and the next one hardly will
                self._not_before = time.monotonic() + PAUSE
            raise _NurseryError
        self._answered = True
        return int(ORDER.unpack(answer)[0])

    def end_all(self) -> None:
        """End it, and its decoders with it."""
        if self._process:
            self._control.close()
            self._process.kill()
            self._process.wait()
            self._process = None


class Decoders:
    """The processes that images are decoded in, each one at a time; who comes when all are busy waits in order."""

    def __init__(self, settings: Settings, metrics: Metrics, nursery: Nursery | None = None) -> None:
        self._settings = settings
        self._replaced = metrics.decoders_replaced
        self._nursery = nursery or Nursery(settings)
        self._idle: asyncio.LifoQueue[_Decoder | None] = asyncio.LifoQueue()  # None stands for one that cannot be had
        self._drawn = asyncio.Semaphore(settings.decode_processes)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._started = False

    def start(self) -> None:
        """Have all decoders started; an image that comes before they are waits, and has them started if nobody had."""
        if not self._started:
            self._started = True
            for _ in range(self._settings.decode_processes):
                self._begin(self._renew())

    async def decode(self, data: bytes, rule: ImageRule) -> Picture:
        """Return what a rule takes of an image; it is no longer decoded when nobody waits for it.

        Raises what `images.decode_image` does, Unacceptable for an image that ends its decoder, and NotReady if no
        decoder can be had.
        """
        return await self._take(data, rule)

    @contextlib.asynccontextmanager
    async def upright(self, data: bytes) -> AsyncIterator[Pixels]:
        """Give the pixels of a whole image, upright, (height, width, 1 or 3). Raises what `decode` does.

        They are many, so no more images than there are decoders are held at a time.
        """
        async with self._drawn:
            yield (await self._take(data, None)).pixels

    async def close(self) -> None:
        """End all."""
        self._nursery.closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while not self._idle.empty():
            if decoder := self._idle.get_nowait():
                decoder.connection.close()
        self._nursery.end_all()

    async def _take(self, data: bytes, rule: ImageRule | None) -> Picture:
        self.start()
        max_pixels, seconds = self._settings.max_image_pixels, self._settings.decode_seconds
        for _ in range(self._settings.decode_processes + 1):
            decoder = await self._idle.get()
            if decoder is None:
                self._begin(self._renew())
                continue
            cause: Cause | None = None
            try:
                async with asyncio.timeout(2 * seconds):  # its own alarm comes first, unless it has none any more
                    picture = await decoder.take(_asked(rule, max_pixels), data, rule, max_pixels)
            except ConnectionError:  # it had ended with nothing to do, which is not this image's fault
                self._replace(decoder)
                continue
            except Refusal:
                self._put_back(decoder)
                raise
            except EOFError:
                pass
            except ValueError:
                cause = "malformed"
            except TimeoutError:
                cause = "deadline"
            except BaseException:
                self._replace(decoder, "cancelled")
                raise
            else:
                self._put_back(decoder)
                return picture
            ended = await asyncio.shield(self._replace(decoder, cause))
            if ended != "nursery":  # which is no fault of the image either
                raise self._fault(ended)
        raise NotReady("image: needs a decoder, none can be had now", seconds=1)

    def _fault(self, cause: Cause) -> Refusal:
        """Return what is said of an image that ended its decoder."""
        if cause == "deadline":
            seconds = f"{self._settings.decode_seconds:g}"
            return Unacceptable(f"image: must be decoded within {seconds} seconds, given one that takes longer")
        if cause == "memory":
            most = self._settings.decode_bytes
            return Unacceptable(f"image: must be decoded within {most} bytes of memory, given one that takes more")
        return Unacceptable("image: must be one that can be decoded, given one that cannot")

    def _put_back(self, decoder: _Decoder) -> None:
        decoder.images += 1
        if decoder.images < IMAGES:
            self._idle.put_nowait(decoder)
        else:
            self._replace(decoder, "worn")

    def _replace(self, decoder: _Decoder, cause: Cause | None = None) -> "asyncio.Task[Cause]":
        """Begin to end a decoder and to have another; the task returns why it ended, if that is not known."""
        decoder.connection.close()
        return self._begin(self._end(decoder, cause))

    async def _end(self, decoder: _Decoder, cause: Cause | None) -> Cause:
        try:
            status = os.waitstatus_to_exitcode(await self._nursery.end(decoder))
            if cause is None:
                cause = CAUSES.get(status, "crash")
                log.warning("image ended its decoder", cause=cause, status=status)
        except _NurseryError:
            cause = "nursery"
        self._replaced.labels(cause).inc()
        self._begin(self._renew())
        return cause

    async def _renew(self) -> None:
        try:
            self._idle.put_nowait(await self._nursery.fork())
        except (_NurseryError, OSError):
            self._idle.put_nowait(None)

    def _begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


@functools.lru_cache(64)
def _asked(rule: ImageRule | None, max_pixels: int) -> bytes:
    return Asked(rule=rule, max_pixels=max_pixels).model_dump_json().encode()
