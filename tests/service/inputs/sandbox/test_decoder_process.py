"""A decoder's answers are not trusted, and the fork server is started again when it ends."""

import asyncio
import contextlib
import gc
import os
import signal
import weakref

import numpy as np
import pytest
from PIL import Image

from service.errors import NotReady, Unacceptable, Unsupported
from service.inputs.sandbox import decoder_pool, decoder_process
from tests.samples.decoders import children, decoding, outcome, replaced
from tests.samples.hostile_fork_server import LIES, WHOLE_LIES
from tests.samples.http_requests import SEVEN
from tests.samples.images import INK, encoded

pytestmark = pytest.mark.anyio


@pytest.mark.usefixtures("hostile")
async def test_an_invalid_answer_of_a_decoder_is_refused():
    async with decoding(decode_processes=1) as (pool, metrics):
        words = "image: must be one that can be decoded, given one that cannot"
        for lie in LIES:
            assert await outcome(pool.decode(b"lie " + lie.encode(), INK)) == ("Unacceptable", words), lie
            await pool.decode(SEVEN, INK)
        assert replaced(metrics) == {"malformed": len(LIES)}


@pytest.mark.usefixtures("hostile")
async def test_an_invalid_answer_with_a_whole_image_is_refused():
    async with decoding(decode_processes=1) as (pool, metrics):
        for lie in sorted(WHOLE_LIES):
            with pytest.raises(Unacceptable, match="given one that cannot"):
                await pool.upright(b"lie " + lie.encode()).__aenter__()
        assert replaced(metrics) == {"malformed": len(WHOLE_LIES)}


@pytest.mark.parametrize("decode", ["confined", "threads"])
async def test_an_idle_decoder_keeps_no_image(decode):
    async with decoding(decode=decode, decode_processes=1) as (pool, _):
        data = encoded(Image.fromarray(np.random.default_rng(0).integers(0, 256, (900, 900, 3), np.uint8)))
        assert len(data) > 1 << 20, "the connection does not take it at once"
        async with pool.upright(data) as pixels:
            held = weakref.ref(pixels if pixels.base is None else pixels.base)
        del pixels
        (decoder,) = pool._queue._idle
        for _ in range(500):  # the loop holds the future until this task waits again, and a thread its frame
            await asyncio.sleep(0.01)
            gc.collect()
            if held() is None:
                break
        assert held() is None
        if decode == "confined":
            assert decoder._unsent.obj == b""


@pytest.mark.usefixtures("hostile")
async def test_what_a_decoder_sends_later_is_not_taken_for_the_answer_to_the_next_image():
    async with decoding(decode_processes=1) as (pool, metrics):
        right = await pool.decode(SEVEN, INK)
        await pool.decode(b"later", INK)
        await asyncio.sleep(0.5)
        assert np.array_equal((await pool.decode(SEVEN, INK)).pixels, right.pixels)
        assert replaced(metrics) == {"malformed": 1}


@pytest.mark.usefixtures("hostile")
async def test_an_answer_to_an_image_that_has_not_been_sent_yet_is_refused():
    async with decoding(decode_processes=1) as (pool, metrics):
        await pool.decode(b"early", INK)
        await asyncio.sleep(0.5)
        with pytest.raises(Unacceptable, match="given one that cannot"):
            await pool.decode(bytes(8_000_000), INK)
        await pool.decode(SEVEN, INK)
        assert replaced(metrics) == {"malformed": 1}


async def test_an_image_larger_than_the_connection_takes_at_once_is_sent_whole():
    noise = np.random.default_rng(1).integers(0, 256, (1200, 1200, 3), np.uint8)
    data = encoded(Image.fromarray(noise))
    assert len(data) > 4_000_000
    async with decoding(decode_processes=1) as (pool, metrics):
        async with pool.upright(data) as pixels:
            assert np.array_equal(pixels, noise)
        await pool.decode(SEVEN, INK)
        assert replaced(metrics) == {}


async def test_a_decoder_that_ends_while_an_image_is_sent_is_replaced():
    data = bytes(8_000_000)
    async with decoding(decode_processes=1) as (pool, metrics):
        await pool.decode(SEVEN, INK)
        _, decoder = children(os.getpid())
        os.kill(decoder, signal.SIGSTOP)  # so that it does not read
        sent = asyncio.ensure_future(pool.decode(data, INK))
        await asyncio.sleep(0.1)
        os.kill(decoder, signal.SIGKILL)
        with pytest.raises(Unsupported):  # by the one that took its place
            await sent
        assert replaced(metrics) == {"killed": 1}


async def test_a_decoder_that_reads_nothing_is_given_up_in_time(monkeypatch):
    monkeypatch.setattr(decoder_pool, "CLOCK_FACTOR", 0.02)
    async with decoding(decode_seconds=50, decode_processes=1) as (pool, metrics):
        await pool.decode(SEVEN, INK)
        os.kill(children(os.getpid())[1], signal.SIGSTOP)
        with pytest.raises(NotReady, match="image: needs a decoder for at most 1 seconds"):
            await pool.decode(bytes(8_000_000), INK)
        assert replaced(metrics) == {"stalled": 1}


async def test_the_fork_server_is_started_again():
    async with decoding() as (pool, metrics):
        await pool.decode(SEVEN, INK)
        for _ in range(2):
            fork_server, *_ = children(os.getpid())
            os.kill(fork_server, signal.SIGKILL)
            await asyncio.sleep(0.1)
            await asyncio.gather(*(pool.decode(SEVEN, INK) for _ in range(4)))
            assert fork_server not in children(os.getpid())
        assert set(replaced(metrics)) == {"nursery"}


@pytest.mark.usefixtures("hostile")
async def test_an_image_whose_decoder_ends_with_the_fork_server_is_decoded_again():
    async with decoding() as (pool, metrics):
        await pool.decode(SEVEN, INK)
        running = asyncio.ensure_future(pool.decode(b"wait", INK))
        await asyncio.sleep(0.1)
        os.kill(children(os.getpid())[0], signal.SIGKILL)
        assert (await running).box == (0, 0, 28, 28)
        await pool.decode(SEVEN, INK)
        assert set(replaced(metrics)) == {"nursery"}


async def test_without_a_fork_server_images_are_refused_and_never_decoded_here(monkeypatch, capfd):
    monkeypatch.setattr(decoder_process, "FORK_SERVER_MODULE", "tests.samples.absent")
    monkeypatch.setattr(decoder_process, "RETRY_SECONDS", 0.5)

    async with decoding() as (pool, _):
        for _ in range(3):
            with pytest.raises(NotReady, match="image: needs a decoder, none can be had now"):
                await pool.decode(SEVEN, INK)
        monkeypatch.setattr(decoder_process, "FORK_SERVER_MODULE", "service.inputs.sandbox.fork_server")
        await asyncio.sleep(0.6)
        with contextlib.suppress(NotReady):
            await pool.decode(SEVEN, INK)
        await pool.decode(SEVEN, INK)
    assert capfd.readouterr().err.count("No module named tests.samples.absent") == 1, "it is not tried again at once"
