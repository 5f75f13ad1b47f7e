"""Threads of the service decode as confined processes do, with the same refusals and bounds."""

import asyncio
import os
import threading

import numpy as np
import pytest

from service.errors import Busy, NotReady, Refusal, TooLarge, Unacceptable
from service.inputs.decoding import decode
from service.inputs.sandbox import decoder_pool, decoder_threads
from tests.samples.decoders import children, decoding, outcome, replaced
from tests.samples.http_requests import SEVEN
from tests.samples.images import INK, announcing, images, middle

pytestmark = pytest.mark.anyio


async def test_threads_answer_as_confined_processes_do():
    limit = 4_000_000
    rules = INK, middle(30, 40, 3, resize=50)
    async with (
        decoding(decode="threads", max_image_pixels=limit) as (threads, metrics),
        decoding(max_image_pixels=limit) as (confined, _),
    ):
        for name, data in images().items():
            for rule in rules:
                here, there = [await outcome(pool.decode(data, rule)) for pool in (threads, confined)]
                if isinstance(there, tuple):
                    assert here == there, name
                    continue
                assert np.array_equal(here.pixels, there.pixels), name
                assert (here.box, here.width, here.height) == (there.box, there.width, there.height)
            try:
                async with confined.upright(data) as there, threads.upright(data) as here:
                    assert np.array_equal(here, there), name
            except Refusal as refusal:
                with pytest.raises(type(refusal)):
                    await threads.upright(data).__aenter__()
        assert replaced(metrics) == {}


async def test_no_process_is_started_and_no_more_threads_than_set():
    before = children(os.getpid())
    async with decoding(decode="threads", decode_processes=3) as (pool, metrics):
        found = await asyncio.gather(*(pool.decode(SEVEN, INK) for _ in range(150)))
        assert all(np.array_equal(one.pixels, found[0].pixels) for one in found)
        assert children(os.getpid()) == before
        assert sum(thread.name.startswith("decode") for thread in threading.enumerate()) <= 3
        assert replaced(metrics) == {}


async def test_images_are_bounded_before_they_are_decoded():
    async with decoding(decode="threads", max_image_pixels=1000, queue_pixels=600_000) as (pool, _):
        with pytest.raises(TooLarge, match=r"^image: at most 1000 pixels, given 40 x 30$"):
            pool.request([announcing(40, 30)])
        request = pool.request([announcing(20, 20)] * 2)
        with request.permit(), pytest.raises(Busy):
            request.permit().__enter__()


async def test_an_image_that_takes_too_long_holds_its_thread_and_no_other(monkeypatch):
    monkeypatch.setattr(decoder_pool, "CLOCK_FACTOR", 0.01)
    go_on = threading.Event()

    def slow(data, request):
        if data == b"slow":
            go_on.wait(20)
        return decode(SEVEN, request)

    monkeypatch.setattr(decoder_threads, "decode", slow)
    async with decoding(decode="threads", decode_processes=2, decode_seconds=20) as (pool, metrics):
        with pytest.raises(NotReady, match=r"needs a decoder for at most 0\.2 seconds"):
            await pool.decode(b"slow", INK)
        monkeypatch.setattr(decoder_pool, "CLOCK_FACTOR", 1)  # the others have time on a busy machine, too
        cancelled = asyncio.ensure_future(pool.decode(b"slow", INK))
        await asyncio.sleep(0.05)
        cancelled.cancel()
        waiting = asyncio.ensure_future(pool.decode(SEVEN, INK))
        await asyncio.sleep(0.1)
        assert not waiting.done(), "both threads are held"
        go_on.set()
        await waiting
        await pool.decode(SEVEN, INK)
        assert replaced(metrics) == {"stalled": 1, "cancelled": 1}


@pytest.mark.parametrize("error", [MemoryError, OverflowError])
async def test_an_image_that_fails_is_refused_and_the_next_is_not(error, monkeypatch):
    def failing(data, request):
        if data == b"bad":
            raise error
        return decode(data, request)

    monkeypatch.setattr(decoder_threads, "decode", failing)
    async with decoding(decode="threads", decode_processes=1) as (pool, metrics):
        with pytest.raises(Unacceptable, match=r"^image: must be one that can be decoded, given one that cannot$"):
            await pool.decode(b"bad", INK)
        await pool.decode(SEVEN, INK)
        assert replaced(metrics) == {"crash": 1}
