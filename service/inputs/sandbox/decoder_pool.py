"""Decoders: images to pictures in processes that a hostile image may crash, hang or fill, and this one does not notice.

What they send is not trusted: a header of known fields within bounds, and as many bytes of pixels as it announces.
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
from service.inputs.sandbox.fork_server import OUT_OF_MEMORY, Asked
from service.settings import Settings
from service.telemetry.metrics import Metrics

T = TypeVar("T")
Cause: TypeAlias = Literal["crash", "deadline", "memory", "malformed", "cancelled", "worn", "nursery"]
"""Why a decoder was replaced: `malformed` is an answer that is none, `nursery` the end of what forked it."""
CAUSES: dict[int, Cause] = {-signal.SIGALRM: "deadline", OUT_OF_MEMORY: "memory"}
"""By exit status, a signal's being negative; any other is a crash."""

IMAGES = 1000
"""That one process decodes."""

log = structlog.get_logger()


class DecoderPool:
    """The processes that images are decoded in, each one at a time; who comes when all are busy waits in order."""

    def __init__(self, settings: Settings, metrics: Metrics, fork_server: ForkServer | None = None) -> None:
        self._settings = settings
        self._replaced = metrics.decoders_replaced
        self._fork_server = fork_server or ForkServer(settings)
        self._idle: asyncio.LifoQueue[DecoderProcess | None] = (
            asyncio.LifoQueue()
        )  # None stands for one that cannot be had
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
        self._fork_server.closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while not self._idle.empty():
            if decoder := self._idle.get_nowait():
                decoder.connection.close()
        self._fork_server.end_all()

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

    def _put_back(self, decoder: DecoderProcess) -> None:
        decoder.images += 1
        if decoder.images < IMAGES:
            self._idle.put_nowait(decoder)
        else:
            self._replace(decoder, "worn")

    def _replace(self, decoder: DecoderProcess, cause: Cause | None = None) -> "asyncio.Task[Cause]":
        """Begin to end a decoder and to have another; the task returns why it ended, if that is not known."""
        decoder.connection.close()
        return self._begin(self._end(decoder, cause))

    async def _end(self, decoder: DecoderProcess, cause: Cause | None) -> Cause:
        try:
            status = os.waitstatus_to_exitcode(await self._fork_server.end(decoder))
            if cause is None:
                cause = CAUSES.get(status, "crash")
                log.warning("image ended its decoder", cause=cause, status=status)
        except ForkServerError:
            cause = "nursery"
        self._replaced.labels(cause).inc()
        self._begin(self._renew())
        return cause

    async def _renew(self) -> None:
        try:
            self._idle.put_nowait(await self._fork_server.fork())
        except (ForkServerError, OSError):
            self._idle.put_nowait(None)

    def _begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


@functools.lru_cache(64)
def _asked(rule: ImageRule | None, max_pixels: int) -> bytes:
    return Asked(rule=rule, max_pixels=max_pixels).model_dump_json().encode()
