"""Decoding in other processes gives what decoding here gives, and their failures stay with them."""

import asyncio
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

from service.errors import Refusal, Unacceptable
from service.inputs.image_preprocessing import decode_image, open_image
from service.inputs.sandbox import decoder_pool
from tests.samples.decoders import children, decoding, outcome, replaced
from tests.samples.http_requests import SEVEN
from tests.samples.images import INK, bar, encoded, middle, written

pytestmark = pytest.mark.anyio

TINY = encoded(bar(28, 28, 10, 6, 18, 22))


def descriptors():
    """Return how many files and sockets this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def images():
    """Images of every format and mode that is read, and some that are not."""
    page, exif = written(), Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    colour = Image.merge("RGB", (page, page.rotate(90), page))
    layer = Image.merge("RGBA", (*colour.split(), page.point(lambda level: 255 - level)))
    found = {f"png {mode}": encoded(layer.convert(mode)) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")}
    found["png 16"] = encoded(Image.fromarray(np.asarray(page, np.uint16) * 257))
    found |= {f"jpeg {mode}": encoded(colour.convert(mode), "JPEG") for mode in ("L", "RGB", "CMYK")}
    found["progressive"] = encoded(colour, "JPEG", progressive=True)
    found["turned"] = encoded(colour, "JPEG", exif=exif, xmp=b"<x:xmpmeta/>")
    found |= {f"webp {mode}": encoded(layer.convert(mode), "WEBP") for mode in ("L", "RGB", "RGBA")}
    found["animated"] = encoded(colour, "WEBP", save_all=True, append_images=[colour.rotate(90)])
    found["several"] = encoded(colour, "MPO", save_all=True, append_images=[colour.rotate(90)])
    found["large"] = encoded(colour.resize((2000, 1504)), "JPEG")
    found["blank"] = encoded(Image.new("L", (20, 20)))
    found["wide"] = encoded(Image.new("1", (5000, 5000)))
    return found | {"short": found["png RGB"][:-50], "gif": encoded(page, "GIF"), "none": b"none", "empty": b""}


async def test_a_decoder_returns_what_decoding_here_does():
    limit = 4_000_000

    async with decoding(max_image_pixels=limit) as (pool, metrics):
        for name, data in images().items():
            for rule in (INK, middle(30, 40, 3, resize=50), middle(30, 40, 1, resize=(30, 40), resample="bicubic")):
                try:
                    here = decode_image(data, rule, limit)
                except Refusal as refusal:
                    found = await outcome(pool.decode(data, rule))
                    assert found == (type(refusal).__name__, refusal.detail), name  # noqa: PT017 # both are refused
                    continue
                there = await pool.decode(data, rule)
                assert np.array_equal(there.pixels, here.pixels), name
                assert there.box == here.box
                assert (there.width, there.height, there.orientation) == (here.width, here.height, here.orientation)
        assert replaced(metrics) == {}


async def test_a_whole_image_comes_upright():
    async with decoding() as (pool, metrics):
        for name, data in images().items():
            try:
                here = np.asarray(open_image(data, 16_000_000))
            except Refusal:
                with pytest.raises(Refusal):
                    await pool.upright(data).__aenter__()
                continue
            async with pool.upright(data) as there:
                assert np.array_equal(there if here.ndim == 3 else there[:, :, 0], here), name
        assert replaced(metrics) == {}


@pytest.mark.usefixtures("hostile")
async def test_fifty_images_that_crash_their_decoder_are_each_refused_and_others_are_not():
    async with decoding() as (pool, metrics):
        right = await pool.decode(SEVEN, INK)
        for _ in range(50):
            with pytest.raises(Unacceptable, match=r"^image: must be one that can be decoded, given one that cannot$"):
                await pool.decode(b"crash", INK)
            assert np.array_equal((await pool.decode(SEVEN, INK)).pixels, right.pixels)
        assert replaced(metrics) == {"crash": 50}


@pytest.mark.usefixtures("hostile")
async def test_crashes_beside_each_other_are_refused_each_for_itself():
    async with decoding(decode_processes=3) as (pool, _):
        sent = [b"crash", SEVEN, SEVEN] * 20
        found = await asyncio.gather(*(outcome(pool.decode(data, INK)) for data in sent))
        for data, one in zip(sent, found, strict=True):
            assert isinstance(one, tuple) == (data == b"crash"), one


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("deed", [b"hang", b"deafen"])
async def test_an_image_that_takes_too_long_is_refused_when_its_time_is_over(deed):
    async with decoding(decode_seconds=0.5, decode_processes=1) as (pool, metrics):
        await pool.decode(SEVEN, INK)
        start = time.monotonic()
        with pytest.raises(Unacceptable, match=r"^image: must be decoded within 0\.5 seconds, given one that takes"):
            await pool.decode(deed, INK)
        assert time.monotonic() - start < 5
        await pool.decode(SEVEN, INK)
        assert replaced(metrics) == {"deadline": 1}


@pytest.mark.usefixtures("hostile")
async def test_the_alarm_of_one_image_does_not_ring_for_the_next():
    async with decoding(decode_seconds=0.2, decode_processes=1) as (pool, metrics):
        for _ in range(3):
            await pool.decode(SEVEN, INK)
            await asyncio.sleep(0.3)
        assert replaced(metrics) == {}


@pytest.mark.usefixtures("hostile")
async def test_an_image_that_takes_too_much_memory_is_refused():
    async with decoding(decode_bytes=64 << 20, decode_processes=1) as (pool, metrics):
        with pytest.raises(Unacceptable, match=r"^image: must be decoded within 67108864 bytes of memory, given one"):
            await pool.decode(b"fill", INK)
        await pool.decode(SEVEN, INK)
        assert replaced(metrics) == {"memory": 1}


async def test_an_honest_image_that_takes_too_much_memory_is_refused():
    large = encoded(Image.new("RGBA", (4000, 4000), (1, 2, 3, 4)))

    async with decoding(decode_bytes=64 << 20, decode_processes=1) as (pool, metrics):
        with pytest.raises(Unacceptable, match=r"^image: must be decoded within 67108864 bytes of memory"):
            await pool.decode(large, middle(8, 8, resize=8))
        assert replaced(metrics) == {"memory": 1}


@pytest.mark.usefixtures("hostile")
async def test_images_of_cancelled_callers_are_not_decoded():
    async with decoding(decode_seconds=60, decode_processes=1) as (pool, metrics):
        await pool.decode(SEVEN, INK)
        running = asyncio.ensure_future(pool.decode(b"hang", INK))
        waiting = [asyncio.ensure_future(pool.decode(b"hang", INK)) for _ in range(5)]
        last = asyncio.ensure_future(pool.decode(SEVEN, INK))
        await asyncio.sleep(0.2)
        for task in (*waiting, running):
            task.cancel()
        await asyncio.wait_for(last, 5)
        assert replaced(metrics) == {"cancelled": 1}, "those that waited were never begun"


async def test_waiting_images_are_decoded_in_order():
    async with decoding(decode_processes=1) as (pool, _):
        done = []

        async def one(index):
            await pool.decode(SEVEN, INK)
            done.append(index)

        await asyncio.gather(*map(one, range(30)))
        assert done == list(range(30))


async def test_a_thousand_images_leave_no_process_and_no_open_file(monkeypatch):
    monkeypatch.setattr(decoder_pool, "IMAGES_PER_PROCESS", 100)
    before = descriptors(), children(os.getpid())

    async with decoding() as (pool, metrics):
        await pool.decode(SEVEN, INK)
        held = descriptors()
        for _ in range(100):
            await asyncio.gather(*(pool.decode(TINY, INK) for _ in range(10)))
        await asyncio.sleep(0.2)
        assert abs(descriptors() - held) <= 1  # the second decoder may not have been there before
        assert len(children(os.getpid())) == 3
        assert replaced(metrics)["worn"] >= 9
    assert (descriptors(), children(os.getpid())) == before


async def test_decoders_that_end_while_idle_cost_no_image():
    async with decoding() as (pool, _):
        await pool.decode(SEVEN, INK)
        for _ in range(3):
            await asyncio.sleep(0.1)
            _, *forked = children(os.getpid())
            for number in forked:
                os.kill(number, signal.SIGKILL)
            await asyncio.sleep(0.1)
            await asyncio.gather(*(pool.decode(SEVEN, INK) for _ in range(4)))
