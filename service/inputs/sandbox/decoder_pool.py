"""The decoder pool: images are decoded in processes that a hostile image may crash, hang or fill without harm.

What they send is not trusted; `decoder_process.py` checks it.
"""

import asyncio
import contextlib
import functools
import os
import signal
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Literal, TypeAlias, TypeVar

import structlog

from contract.manifest import ImageRule
from service.errors import NotReady, Refusal, Unacceptable
from service.inputs.model_input import Picture, Pixels
from service.inputs.sandbox.decoder_process import DecoderProcess, ForkServer, ForkServerError
from service.inputs.sandbox.fork_server import OUT_OF_MEMORY_STATUS, DecodeRequest
from service.settings import Settings
from service.telemetry.metrics import Metrics

T = TypeVar("T")
Cause: TypeAlias = Literal["crash", "deadline", "memory", "malformed", "cancelled", "worn", "nursery"]
"""Why a decoder was replaced: `malformed` is an answer that breaks the protocol, `worn` means that IMAGES_PER_PROCESS
were decoded, and `nursery` that the fork server ended. These are values of a Prometheus label: renaming `nursery` would
break the queries of clients."""
CAUSES: dict[int, Cause] = {-signal.SIGALRM: "deadline", OUT_OF_MEMORY_STATUS: "memory"}
"""Causes by exit status (that of a signal is negative). Any other status is a crash."""

IMAGES_PER_PROCESS = 1000
"""A decoder is replaced after this many images."""

log = structlog.get_logger()


class DecoderPool:
    """The decoder processes, each of which decodes one image at a time. If all are busy, images wait in order."""

    def __init__(self, settings: Settings, metrics: Metrics, fork_server: ForkServer | None = None) -> None:
        self._settings = settings
        self._replaced = metrics.decoders_replaced
        self._fork_server = fork_server or ForkServer(settings)
        self._idle: asyncio.LifoQueue[DecoderProcess | None] = asyncio.LifoQueue()  # None is one that failed to start
        self._whole_images = asyncio.Semaphore(settings.decode_processes)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._started = False

    def start(self) -> None:
        """Start all decoders, unless that was done. An image starts them too, and waits until one has started."""
        if not self._started:
            self._started = True
            for _ in range(self._settings.decode_processes):
                self._start_task(self._add_decoder())

    async def decode(self, data: bytes, rule: ImageRule) -> Picture:
        """Return the picture that a rule selects of an image. If the caller is cancelled, its decoder is killed.

        Raises as `decode_image` does, Unacceptable for an image that ends its decoder, and NotReady if no decoder can
        be started.
        """
        return await self._decode(data, rule)

    @contextlib.asynccontextmanager
    async def upright(self, data: bytes) -> AsyncIterator[Pixels]:
        """Yield the pixels of a whole image, upright, (height, width, 1 or 3). Raises as `decode` does.

        Whole images are large, so at most as many are held at a time as there are decoders.
        """
        async with self._whole_images:
            yield (await self._decode(data, None)).pixels

    async def close(self) -> None:
        """Kill the fork server and all decoders."""
        self._fork_server.closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while not self._idle.empty():
            if decoder := self._idle.get_nowait():
                decoder.connection.close()
        self._fork_server.end_all()

    async def _decode(self, data: bytes, rule: ImageRule | None) -> Picture:
        self.start()
        max_pixels, seconds = self._settings.max_image_pixels, self._settings.decode_seconds
        for _ in range(self._settings.decode_processes + 1):
            decoder = await self._idle.get()
            if decoder is None:
                self._start_task(self._add_decoder())
                continue
            cause: Cause | None = None
            try:
                # the decoder's own alarm comes first, unless a hostile image has disarmed it
                async with asyncio.timeout(2 * seconds):
                    picture = await decoder.decode(_request_json(rule, max_pixels), data, rule, max_pixels)
            except ConnectionError:  # it had ended while idle, which is not this image's fault
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
            if ended != "nursery":  # the end of the fork server is not the fault of the image either
                raise self._refusal_for(ended)
        raise NotReady("image: needs a decoder, none can be had now", seconds=1)

    def _refusal_for(self, cause: Cause) -> Refusal:
        """Return the refusal of an image that ended its decoder."""
        if cause == "deadline":
            seconds = f"{self._settings.decode_seconds:g}"
            return Unacceptable(f"image: must be decoded within {seconds} seconds, given one that takes longer")
        if cause == "memory":
            most = self._settings.decode_bytes
            return Unacceptable(f"image: must be decoded within {most} bytes of memory, given one that takes more")
        return Unacceptable("image: must be one that can be decoded, given one that cannot")

    def _put_back(self, decoder: DecoderProcess) -> None:
        decoder.images += 1
        if decoder.images < IMAGES_PER_PROCESS:
            self._idle.put_nowait(decoder)
        else:
            self._replace(decoder, "worn")

    def _replace(self, decoder: DecoderProcess, cause: Cause | None = None) -> "asyncio.Task[Cause]":
        """Start to replace a decoder. The task returns the cause: the given one, or else why the decoder ended."""
        decoder.connection.close()
        return self._start_task(self._end(decoder, cause))

    async def _end(self, decoder: DecoderProcess, cause: Cause | None) -> Cause:
        try:
            status = os.waitstatus_to_exitcode(await self._fork_server.end(decoder))
            if cause is None:
                cause = CAUSES.get(status, "crash")
                log.warning("image ended its decoder", cause=cause, status=status)
        except ForkServerError:
            cause = "nursery"
        self._replaced.labels(cause).inc()
        self._start_task(self._add_decoder())
        return cause

    async def _add_decoder(self) -> None:
        try:
            self._idle.put_nowait(await self._fork_server.fork())
        except (ForkServerError, OSError):
            self._idle.put_nowait(None)

    def _start_task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


@functools.lru_cache(64)
def _request_json(rule: ImageRule | None, max_pixels: int) -> bytes:
    return DecodeRequest(rule=rule, max_pixels=max_pixels).model_dump_json().encode()
