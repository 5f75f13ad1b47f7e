"""A decoder's answers are not trusted, and the fork server is started again when it ends."""

import asyncio
import contextlib
import os
import signal

import pytest

from service.errors import NotReady
from service.inputs.sandbox import decoder_process
from tests.samples.decoders import children, decoding, outcome, replaced
from tests.samples.hostile_fork_server import LIES
from tests.samples.http_requests import SEVEN
from tests.samples.images import INK

pytestmark = pytest.mark.anyio


@pytest.mark.usefixtures("hostile")
async def test_an_invalid_answer_of_a_decoder_is_refused():
    async with decoding(decode_processes=1) as (pool, metrics):
        words = "image: must be one that can be decoded, given one that cannot"
        for lie in LIES:
            assert await outcome(pool.decode(b"lie " + lie.encode(), INK)) == ("Unacceptable", words), lie
            await pool.decode(SEVEN, INK)
        assert replaced(metrics) == {"malformed": len(LIES)}


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
