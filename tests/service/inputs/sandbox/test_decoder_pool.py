"""Decoding in other processes gives what decoding here gives, and their failures stay with them."""

import asyncio
import gc
import io
import os
import signal
import weakref
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from service.batching.fair_queue import Caller
from service.errors import Busy, NotReady, Refusal, TooLarge, Unacceptable, Unsupported
from service.inputs.image_header import read_size
from service.inputs.image_preprocessing import decode_image, open_image
from service.inputs.sandbox import decoder_pool
from service.inputs.sandbox.decoder_pool import PIXELS_PER_IMAGE
from service.inputs.sandbox.decoder_process import DecoderProcess
from tests.samples.decoders import children, decoding, outcome, replaced
from tests.samples.full_queue import queue_filled
from tests.samples.http_requests import SEVEN
from tests.samples.images import INK, announcing, bar, encoded, images, middle

pytestmark = pytest.mark.anyio

TINY = encoded(bar(28, 28, 10, 6, 18, 22))


def descriptors():
    """Return how many files and sockets this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


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
@pytest.mark.parametrize(
    ("settings", "image", "words", "cause"),
    [
        ({"decode_seconds": 0.5}, b"hang", r"decoded within 0\.5 seconds, given one that takes", "deadline"),
        ({"decode_bytes": 64 << 20}, b"fill", "decoded within 67108864 bytes of memory, given one", "memory"),
        ({}, b"short", "one that can be decoded, given one that cannot", "crash"),
    ],
)
async def test_an_image_that_takes_too_much_or_whose_answer_ends_early_is_refused(
    settings, image, words, cause, monkeypatch
):
    monkeypatch.setattr(decoder_pool, "CLOCK_FACTOR", 1000)  # however busy the machine is, the alarm comes first
    async with decoding(**settings, decode_processes=1) as (pool, metrics):
        await pool.decode(SEVEN, INK)
        with pytest.raises(Unacceptable, match=f"^image: must be {words}"):
            await pool.decode(image, INK)
        await pool.decode(SEVEN, INK)
        assert replaced(metrics) == {cause: 1}


@pytest.mark.usefixtures("hostile")
async def test_an_image_that_takes_too_long_by_the_clock_may_come_again(monkeypatch):
    monkeypatch.setattr(decoder_pool, "CLOCK_FACTOR", 0.02)
    async with decoding(decode_seconds=50, decode_processes=1) as (pool, metrics):
        with pytest.raises(
            NotReady, match=r"^image: needs a decoder for at most 1 seconds, this one took longer$"
        ) as at:
            await pool.decode(b"deafen", INK)
        assert at.value.headers == {"Retry-After": "1"}
        monkeypatch.setattr(decoder_pool, "CLOCK_FACTOR", 2)
        await pool.decode(SEVEN, INK)
        assert replaced(metrics) == {"stalled": 1}


@pytest.mark.usefixtures("hostile")
async def test_the_alarm_counts_processor_time():
    async with decoding(decode_seconds=40) as (pool, _):
        assert await outcome(pool.decode(b"alarm", INK)) == ("Unacceptable", "clock: 0 s, processor: 31 to 41 s")


@pytest.mark.parametrize("kills", [1, 2])
async def test_an_image_whose_decoder_is_killed_from_outside_is_decoded_once_more(kills, monkeypatch):
    send, left = DecoderProcess._send, [signal.SIGKILL] * kills

    def killed(self, head, data):
        if left:
            os.kill(self.pid, signal.SIGSTOP)  # so that it does not answer before it is killed
        send(self, head, data)
        if left:
            os.kill(self.pid, left.pop())

    async with decoding(decode_processes=1) as (pool, metrics):
        right = await pool.decode(SEVEN, INK)
        monkeypatch.setattr(DecoderProcess, "_send", killed)
        found = await outcome(pool.decode(SEVEN, INK))
        if kills == 1:
            assert np.array_equal(found.pixels, right.pixels)
        else:
            assert found == ("NotReady", "image: needs a decoder, and two were ended by the system")
        await pool.decode(SEVEN, INK)
        assert replaced(metrics) == {"killed": kills}


@pytest.mark.usefixtures("hostile")
async def test_every_image_has_the_whole_time(monkeypatch):
    monkeypatch.setattr(decoder_pool, "CLOCK_FACTOR", 1000)
    async with decoding(decode_seconds=1, decode_processes=1) as (pool, metrics):
        for _ in range(3):
            assert await outcome(pool.decode(b"half", INK)) == ("Unacceptable", "half of its time")
        assert replaced(metrics) == {}


async def test_an_honest_image_that_takes_too_much_memory_is_refused():
    large = encoded(Image.new("RGBA", (4000, 4000), (1, 2, 3, 4)))

    async with decoding(decode_bytes=64 << 20, decode_processes=1) as (pool, metrics):
        with pytest.raises(Unacceptable, match=r"^image: must be decoded within 67108864 bytes of memory"):
            await pool.decode(large, middle(8, 8, resize=8))
        assert replaced(metrics) == {"memory": 1}


@pytest.mark.usefixtures("hostile")
async def test_images_of_cancelled_callers_are_not_decoded():
    async with decoding(decode_seconds=60, decode_processes=1, request_seconds=3600) as (pool, metrics):
        await pool.decode(SEVEN, INK)
        running = asyncio.ensure_future(pool.decode(b"hang", INK))
        waiting = [asyncio.ensure_future(pool.decode(b"hang", INK)) for _ in range(5)]
        last = asyncio.ensure_future(pool.decode(SEVEN, INK))
        await asyncio.sleep(0.2)
        for task in (*waiting, running):
            task.cancel()
        await asyncio.wait_for(last, 5)
        assert replaced(metrics) == {"cancelled": 1}, "those that waited were never begun"


async def test_images_beyond_the_budget_are_refused_before_any_is_decoded():
    async with decoding(queue_pixels=10_000_000) as (pool, _):
        large = [pool.request([announcing(2000, 2000)]) for _ in range(2)]
        second = pool.request([announcing(1000, 1000)] * 2)
        with large[0].permit(Caller("a", 1)), large[1].permit(Caller("a", 2)):
            assert pool.budget.held == 2 * (4_000_000 + PIXELS_PER_IMAGE)
            with pytest.raises(Busy, match=r"^pixels of images: at most 10000000 may wait, given 2524288 more on top"):
                second.permit(Caller("a", 3)).__enter__()
            with pytest.raises(Busy):
                pool.request([TINY]).permit(Caller("a", 4, "batch")).__enter__()
            with pool.request([TINY]).permit():
                pass
        with second.permit(Caller("a", 3, "batch")):
            pass
        assert pool.budget.held == 0


async def test_a_decoded_image_holds_nothing_of_the_budget(monkeypatch):
    async with decoding() as (pool, _):
        spent = []
        monkeypatch.setattr(pool.budget, "spent", lambda cost, seconds: spent.append((cost, seconds > 0)))
        request = pool.request([SEVEN, TINY, b"none"])
        with pytest.raises(RuntimeError, match="must be admitted before"):
            await request.decode(1, INK)
        with request.permit():
            await request.decode(1, INK)
            width, height = read_size(SEVEN)
            rest = pool._settings.max_image_pixels  # of what has no header
            assert pool.budget.held == width * height + rest + 2 * PIXELS_PER_IMAGE
            with pytest.raises(Unsupported):
                await request.decode(2, INK)
        assert pool.budget.held == 0
        assert spent == [(28 * 28 + PIXELS_PER_IMAGE, True)]
        with pytest.raises(Unsupported):
            await pool.decode(b"none", INK)
        async with pool.upright(TINY):
            assert pool.budget.held == 0
        assert pool.budget.held == 0


async def test_a_whole_image_is_decoded_however_full_the_budget_is_and_in_its_turn():
    async with decoding(decode_processes=1) as (pool, _):
        done = []

        async def whole(priority):
            async with pool.upright(TINY, Caller(priority=priority)):
                done.append(priority)

        async def part(request):
            await request.decode(0, INK)
            done.append("part")

        pool._whole_images = asyncio.Semaphore(2)
        late = pool.request([SEVEN])
        with late.permit(), queue_filled(pool.budget, pool.budget.held, client=None):
            with pytest.raises(Busy):
                pool.request([TINY]).permit().__enter__()
            await asyncio.gather(whole("interactive"), whole("batch"), part(late))
        assert done == ["interactive", "part", "batch"]


async def test_a_request_that_leaves_the_queue_takes_its_images_along():
    async with decoding(decode_processes=1) as (pool, _):
        await pool.decode(TINY, INK)
        with pool.request([SEVEN] * 2).permit():
            decoder = await pool._queue.get("a decoder that is long busy")
            request = pool.request([SEVEN] * 2)
            with request.permit():
                waiting = [asyncio.ensure_future(request.decode(number, INK)) for number in range(2)]
                await asyncio.sleep(0)
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)
            del waiting, task  # their errors hold what waited
            kept, request = weakref.ref(request), None
            await asyncio.sleep(0)
            gc.collect()
            assert kept() is None
            pool._queue.put(decoder)


async def test_an_image_that_announces_too_many_pixels_is_refused_without_a_decoder():
    async with decoding(max_image_pixels=1000) as (pool, _):
        with pytest.raises(TooLarge, match=r"^image: at most 1000 pixels, given 40 x 30$"):
            pool.request([TINY, announcing(40, 30)])
        assert not pool._started


async def test_a_header_that_lies_gains_nothing():
    large = encoded(Image.new("L", (1000, 1000)))
    lies = announcing(10, 10) + large[8:]  # of two headers Pillow believes the second
    assert Image.open(io.BytesIO(lies)).size == (1000, 1000)
    async with decoding() as (pool, metrics):
        for decoded in (pool.decode(lies, INK), pool.upright(lies).__aenter__()):
            with pytest.raises(Unacceptable, match=r"^image: must have the size that its header announces, given a"):
                await decoded
    async with decoding(max_image_pixels=1000) as (pool, _):
        with pytest.raises(TooLarge, match=r"^image: at most 1000 pixels, given 1000 x 1000$"):
            await pool.decode(lies, INK)
        assert replaced(metrics) == {}


async def test_a_request_of_one_image_waits_for_one_of_a_request_of_many():
    async with decoding(decode_processes=1) as (pool, _):
        done = []

        async def decode(name, request, number):
            await request.decode(number, INK)
            done.append(name)

        many, one, late = pool.request([SEVEN] * 8), pool.request([SEVEN]), pool.request([SEVEN])
        with late.permit(Caller("a", 1, "batch")), many.permit(Caller("a", 2)), one.permit(Caller("a", 3)):
            work = [decode("late", late, 0), *(decode("many", many, number) for number in range(8))]
            await asyncio.gather(*work, decode("one", one, 0))
        assert done == ["many", "one", *["many"] * 7, "late"]


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
