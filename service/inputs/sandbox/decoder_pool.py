"""The decoder pool: images and sounds are decoded in processes that a hostile file may crash, hang or fill in vain.

What they send is not trusted; `messages.py` checks it. A setting has threads decode instead, unconfined.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import structlog

from contract.input_rules import SoundRule
from service.batching.admission import Backlog, Budget
from service.batching.fair_queue import NOBODY, Caller
from service.errors import NotReady, Refusal, Unacceptable, about_input
from service.inputs.decoding import Decoded, Request, Rule
from service.inputs.image_header import check_pixels, read_size
from service.inputs.model_input import Picture, Pixels
from service.inputs.sandbox.decoder_process import DecoderProcess, ForkServer, ForkServerError
from service.inputs.sandbox.decoder_threads import DecoderThread, DecoderThreads
from service.inputs.sandbox.fork_server import OUT_OF_MEMORY_STATUS
from service.inputs.sandbox.turn_queue import TurnQueue
from service.inputs.sound_decoding import SUBJECT, announced_samples
from service.settings import Settings
from service.telemetry.metrics import Metrics

T = TypeVar("T")
Decoder: TypeAlias = DecoderProcess | DecoderThread
Cause: TypeAlias = Literal[
    "crash", "killed", "forbidden", "deadline", "stalled", "memory", "malformed", "cancelled", "worn", "nursery"
]
"""Why a decoder was replaced. These are values of a Prometheus label: renaming one would break the queries of clients.

- `crash`: it ended in another way than those below
- `killed`: by a SIGKILL from outside
- `forbidden`: it made a system call that seccomp forbids
- `deadline`: an image took too much processor time
- `stalled`: an image took CLOCK_FACTOR times as long by the clock
- `memory`: an image took too much memory
- `malformed`: its answer broke the protocol
- `cancelled`: its request was given up
- `worn`: it had decoded IMAGES_PER_PROCESS
- `nursery`: the fork server ended
"""
CAUSES: dict[int, Cause] = {
    -signal.SIGPROF: "deadline",
    -signal.SIGKILL: "killed",
    -signal.SIGSYS: "forbidden",
    OUT_OF_MEMORY_STATUS: "memory",
}
"""Causes by exit status (that of a signal is negative). Any other status is a crash."""

IMAGES_PER_PROCESS = 1000
"""A decoder is replaced after this many images."""
CLOCK_FACTOR = 2
"""An image may take this many times its processor time by the clock."""
PIXELS_PER_IMAGE = 1 << 18
"""What an image costs beside its pixels. A small one takes about as long as this number of pixels of a large one."""
PIXELS_PER_SAMPLE = 16
"""What a sample of a sound costs, in pixels: half a minute at another rate takes as long as a photograph."""

log = structlog.get_logger()


class FileRequest:
    """The images or sounds of one request: they are admitted together, and take turns with those of other requests."""

    def __init__(
        self,
        pool: "DecoderPool",
        files: Sequence[bytes],
        settings: Settings,
        own: int | None = None,
        sound: SoundRule | None = None,
    ) -> None:
        """The files are sounds if a rule of sounds is given."""
        self._pool, self._files = pool, files
        self.own = len(files) if own is None else own
        """The number of files that the request is about; the one behind them is what they are compared with."""
        self.announced: list[int] = []
        """What the headers announce: pixels, or samples at the rate of the rule."""
        for number, file in enumerate(files):
            with about_input(number, self.own):
                self.announced.append(_announced(file, sound, settings))
        self._costs = [_cost(one, sound) for one in self.announced]
        self._held = 0
        self._caller = NOBODY

    @contextlib.contextmanager
    def permit(self, caller: Caller = NOBODY) -> Iterator[None]:
        """Hold a part of the pool's budget for each file until it is decoded, or until the block ends. Raises Busy."""
        budget = self._pool.budget
        held = sum(self._costs)
        budget.take(held, caller)
        self._held, self._caller = held, caller
        try:
            yield
        finally:
            budget.give_back(self._held, caller)
            self._held = 0

    async def decode(self, number: int, rule: Rule) -> Decoded:
        """Return the picture that a rule selects of an image, or the samples of a sound.

        Each file may be decoded once, inside of `permit`. Raises as `DecoderPool.decode` does.
        """
        cost = self._costs[number]
        if self._held < cost:
            raise RuntimeError("file: must be admitted before it is decoded")
        decoded = await self._pool.run(rule, self._files[number], self.announced[number], self._caller)
        self._pool.budget.give_back(cost, self._caller)
        self._held -= cost
        return decoded


class DecoderPool:
    """The decoders, processes or threads, each of which decodes one file at a time.

    If all are busy, requests take turns.
    """

    def __init__(self, settings: Settings, metrics: Metrics, fork_server: ForkServer | None = None) -> None:
        self._settings = settings
        self._metrics = metrics
        self._source = fork_server or (
            ForkServer(settings) if settings.decode == "confined" else DecoderThreads(settings)
        )
        self._queue: TurnQueue[Decoder | None] = TurnQueue()  # None is one that failed to start
        self._whole_images = asyncio.Semaphore(settings.decode_processes)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._started = False
        self.budget = Budget(
            "pixels of images",
            settings.queue_pixels,
            Backlog(settings.request_seconds),
            at_once=settings.decode_processes * _cost(settings.max_image_pixels, None),
            less="send fewer or smaller images",
            even=True,
        )
        """Pixels of images that wait or are being decoded, and PIXELS_PER_IMAGE for each of them."""

    def start(self) -> None:
        """Start all decoders, unless that was done. An image starts them too, and waits until one has started."""
        if not self._started:
            self._started = True
            for _ in range(self._settings.decode_processes):
                self._start_task(self._add_decoder())

    def show_queue(self) -> None:
        """Set the gauge of what the queue holds."""
        if self._started:
            self._metrics.queue_pixels.show(self.budget.held, self.budget.room)

    def request(self, files: Sequence[bytes], own: int | None = None, sound: SoundRule | None = None) -> FileRequest:
        """Return the files of a request, none of which is decoded yet. It is about `own` of them, by default all.

        Raises TooLarge if the header of one announces too many pixels, or samples at the rate of `sound`.
        """
        return FileRequest(self, files, self._settings, own, sound)

    async def decode(self, data: bytes, rule: Rule) -> Decoded:
        """Return the picture that a rule selects of an image, or the samples of a sound.

        If the caller is cancelled, its decoder is replaced.

        Raises as `decode_image` does, Busy if too many images wait, Unacceptable for an image that ends its decoder,
        and NotReady if no decoder can be started, or if the machine is too busy for it.
        """
        request = self.request([data], sound=rule if isinstance(rule, SoundRule) else None)
        with request.permit():
            return await request.decode(0, rule)

    @contextlib.asynccontextmanager
    async def upright(self, data: bytes, caller: Caller = NOBODY) -> AsyncIterator[Pixels]:
        """Yield the pixels of a whole image, upright, (height, width, 1 or 3). Raises as `decode` does, but never Busy.

        It is of a request that was admitted and whose other work is done. Whole images are large, so at most as many
        are held at a time as there are decoders; that also bounds what is decoded beside the budget.
        """
        pixels = _announced(data, None, self._settings)
        async with self._whole_images:
            whole = await self.run(None, data, pixels, caller)
            if isinstance(whole, Picture):
                yield whole.pixels

    async def close(self) -> None:
        """Kill the fork server and all decoders."""
        self._source.closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for decoder in self._queue.take_idle():
            if decoder:
                decoder.close()
        self._source.end_all()

    async def run(self, rule: Rule | None, data: bytes, announced: int, caller: Caller) -> Decoded:
        """Decode a file, an image upright and whole without a rule, as soon as it is its turn among others."""
        self.start()
        request, killed = Request(rule, _most(rule, self._settings), announced), False
        cost = _cost(announced, rule)
        # the decoder's own alarm comes first, unless it gets no processor or a hostile image has disarmed it
        seconds = CLOCK_FACTOR * self._settings.decode_seconds
        for _ in range(self._settings.decode_processes + 2):
            decoder = await self._queue.get(cost, caller)
            if decoder is None:
                self._start_task(self._add_decoder())
                continue
            cause: Cause | None = None
            start = time.monotonic()
            try:
                decoded = await decoder.decode(request, data, seconds)
            except ConnectionError:  # it had ended while idle, or broken the protocol, which is not this file's fault
                self._replace(decoder, "malformed" if decoder.unasked else None)
                continue
            except Refusal:
                self._put_back(decoder)
                raise
            except EOFError:
                pass
            except ValueError:
                cause = "malformed"
            except TimeoutError:
                cause = "stalled"
            except BaseException:
                self._replace(decoder, "cancelled")
                raise
            else:
                spent = (time.monotonic() - start) / self._settings.decode_processes  # they work beside each other
                self.budget.spent(cost, spent)
                self._put_back(decoder)
                return decoded
            ended = await asyncio.shield(self._replace(decoder, cause))
            # the end of the fork server is not the fault of the file, and a kill from outside hardly is
            if ended == "nursery" or (ended == "killed" and not killed):
                killed = killed or ended == "killed"
                continue
            raise self._refusal_for(ended, _subject(rule))
        raise NotReady(f"{_subject(rule)}: needs a decoder, none can be had now", seconds=1)

    def _refusal_for(self, cause: Cause, subject: str) -> Refusal:
        """Return the refusal of a file that ended its decoder."""
        seconds = self._settings.decode_seconds
        if cause == "deadline":
            return Unacceptable(f"{subject}: must be decoded within {seconds:g} seconds, given one that takes longer")
        if cause == "stalled":
            return NotReady(
                f"{subject}: needs a decoder for at most {CLOCK_FACTOR * seconds:g} seconds, this one took longer", 1
            )
        if cause == "killed":  # twice: a machine without memory ends decoders first, whatever they decode
            return NotReady(f"{subject}: needs a decoder, and two were ended by the system", 1)
        if cause == "memory":
            most = self._settings.decode_bytes
            return Unacceptable(f"{subject}: must be decoded within {most} bytes of memory, given one that takes more")
        return Unacceptable(f"{subject}: must be one that can be decoded, given one that cannot")

    def _put_back(self, decoder: Decoder) -> None:
        if decoder.images < IMAGES_PER_PROCESS:
            self._queue.put(decoder)
        else:
            self._replace(decoder, "worn")

    def _replace(self, decoder: Decoder, cause: Cause | None = None) -> "asyncio.Task[Cause]":
        """Start to replace a decoder. The task returns the cause: the given one, or why the decoder ended by itself."""
        decoder.close()
        return self._start_task(self._end(decoder, cause))

    async def _end(self, decoder: Decoder, cause: Cause | None) -> Cause:
        try:
            status = os.waitstatus_to_exitcode(await decoder.end())
            found = CAUSES.get(status, "crash")
            if cause is None or (cause == "stalled" and found == "deadline"):
                cause = found
                log.warning("image ended its decoder", cause=cause, status=status)
        except ForkServerError:
            cause = "nursery"
        self._metrics.decoders_replaced.labels(cause).inc()
        self._start_task(self._add_decoder())
        return cause

    async def _add_decoder(self) -> None:
        try:
            self._queue.put(await self._source.new_decoder())
        except (ForkServerError, OSError):
            self._queue.put(None)

    def _start_task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _subject(rule: Rule | None) -> str:
    return SUBJECT if isinstance(rule, SoundRule) else "image"


def _most(rule: Rule | None, settings: Settings) -> int:
    """Return the most pixels of an image, or samples of a sound at the rate of its rule."""
    return int(settings.max_audio_seconds * rule.rate) if isinstance(rule, SoundRule) else settings.max_image_pixels


def _announced(data: bytes, sound: SoundRule | None, settings: Settings) -> int:
    """Return what the header of a file announces, or else the most. Raises TooLarge for more than that."""
    most = _most(sound, settings)
    return announced_samples(data, sound.rate, most) if sound else _announced_pixels(data, most)


def _announced_pixels(data: bytes, max_pixels: int) -> int:
    size = read_size(data)
    if size is None:
        return max_pixels
    width, height = size
    check_pixels(width, height, max_pixels)
    return max(width * height, 1)


def _cost(announced: int, rule: Rule | None) -> int:
    return announced * (PIXELS_PER_SAMPLE if isinstance(rule, SoundRule) else 1) + PIXELS_PER_IMAGE
