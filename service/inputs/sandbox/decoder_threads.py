"""Decoding on threads of the service, for those who trust whoever sends images: nothing is confined.

A fault in libjpeg, libtiff, dav1d or Pillow then ends the service or takes it over. The time and memory of an image are
not bounded: its request is answered in time, but its thread goes on until the image is decoded.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from PIL import Image

from service.errors import Refusal
from service.inputs.decoding import Decoded, Request, decode
from service.settings import Settings

FAILED_STATUS = 1 << 8
"""The wait status of a process that exits with 1; a thread has none."""


class DecoderThread:
    """A decoder of the same interface as DecoderProcess. It decodes one image at a time on a thread of this process."""

    images = 0  # a thread does not wear out
    unasked = False

    def __init__(self, threads: ThreadPoolExecutor, free: asyncio.Semaphore) -> None:
        self._threads, self._free = threads, free
        self._work: asyncio.Future[Decoded] | None = None

    async def decode(self, request: Request, data: bytes, seconds: float) -> Decoded:
        """Return what a request asks for of a file.

        Raises the Refusal of the file, EOFError if it cannot be decoded for another reason, and TimeoutError if it
        takes longer than `seconds`.
        """
        self._work = asyncio.get_running_loop().run_in_executor(self._threads, decode, data, request)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._work)
        except (Refusal, TimeoutError):
            raise
        except Exception as error:
            raise EOFError from error
        finally:
            if self._work.done():
                self._work = None  # an idle decoder keeps no image

    def close(self) -> None:
        """Free the thread for another decoder, once it has decoded its image: a thread cannot be ended."""
        if self._work:
            self._work.add_done_callback(self._free_thread)
        else:
            self._free.release()

    async def end(self) -> int:
        """Return the wait status of what cannot decode its image."""
        return FAILED_STATUS

    def _free_thread(self, work: "asyncio.Future[Decoded]") -> None:
        if not work.cancelled():
            work.exception()  # else the loop would log that nobody asked for it
        self._free.release()


class DecoderThreads:
    """The threads that decode. It has the interface of ForkServer."""

    def __init__(self, settings: Settings) -> None:
        Image.init()
        self._threads = ThreadPoolExecutor(settings.decode_processes, thread_name_prefix="decode")
        self._free = asyncio.Semaphore(settings.decode_processes)
        self.closed = False

    async def new_decoder(self) -> DecoderThread:
        """Return a decoder as soon as there is a thread for it."""
        await self._free.acquire()
        return DecoderThread(self._threads, self._free)

    def end_all(self) -> None:
        """Begin no other image."""
        self._threads.shutdown(wait=False, cancel_futures=True)
