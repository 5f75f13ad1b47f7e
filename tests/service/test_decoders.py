"""Decoding in other processes: what comes back is what decoding here gives, and what they suffer stays with them."""

import asyncio
import contextlib
import io
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import ExifTags, Image

from service.app import create_app
from service.errors import NotReady, Refusal, Unacceptable
from service.inputs.image_preprocessing import decode_image, open_image
from service.inputs.sandbox import decoder_pool as decoders
from service.inputs.sandbox.decoder_pool import DecoderPool
from service.repository.registry import load
from service.settings import Settings
from service.store import open_store
from service.telemetry.metrics import Metrics
from tests.conftest import ROOT, served
from tests.service.hostile import LIES
from tests.service.test_images import INK, bar, encoded, middle, written

SEVEN = (ROOT / "tests/data/digits/seven.png").read_bytes()
TINY = encoded(bar(28, 28, 10, 6, 18, 22))
PNG = {"Content-Type": "image/png"}
CLASSIFY = "/v1/models/digits/classify"


def decoding(work, **settings):
    """Run a coroutine function with decoders and their metrics."""

    async def run():
        metrics = Metrics()
        every = DecoderPool(Settings(**settings), metrics)
        try:
            return await work(every, metrics)
        finally:
            await every.close()

    return asyncio.run(run())


@pytest.fixture
def hostile(monkeypatch):
    """Decoders that do what an image tells them to."""
    monkeypatch.setattr(decoders, "NURSERY", "tests.service.hostile")


def replaced(metrics):
    """Return how many decoders were replaced for each cause."""
    (family,) = metrics.decoders_replaced.collect()
    return {sample.labels["cause"]: sample.value for sample in family.samples if sample.name.endswith("_total")}


async def outcome(work):
    """Return what a coroutine returns, or the class and words of its refusal."""
    try:
        return await work
    except Refusal as refusal:
        return type(refusal).__name__, refusal.detail


def children(number):
    """Return all processes below one, those that have ended and are not waited for among them."""
    found = [int(one) for one in Path(f"/proc/{number}/task/{number}/children").read_text().split()]
    return [one for child in found for one in (child, *children(child)) if one not in OTHERS]


OTHERS = set()
"""Processes below this one that other tests have left running."""


@pytest.fixture(autouse=True, scope="module")
def _others():
    OTHERS.update(children(os.getpid()))


def descriptors():
    """Return how many files and sockets this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def confinement(number):
    """Return what a process is limited to, what is said of it, and what it has open."""
    process = Path(f"/proc/{number}")
    limits = dict(re.findall(r"^Max (.+?) {2,}(.+?) {2,}", process.joinpath("limits").read_text(), re.MULTILINE))
    status = dict(line.split(":\t", 1) for line in process.joinpath("status").read_text().splitlines())
    score = int(process.joinpath("oom_score_adj").read_text())
    return limits, status, score, [str(one.readlink()) for one in sorted(process.joinpath("fd").iterdir())]


def alive(number):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


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


def test_a_decoder_returns_what_decoding_here_does():
    limit = 4_000_000

    async def work(every, metrics):
        for name, data in images().items():
            for rule in (INK, middle(30, 40, 3, resize=50), middle(30, 40, 1, resize=(30, 40), resample="bicubic")):
                try:
                    here = decode_image(data, rule, limit)
                except Refusal as refusal:
                    found = await outcome(every.decode(data, rule))
                    assert found == (type(refusal).__name__, refusal.detail), name  # noqa: PT017 # both are refused
                    continue
                there = await every.decode(data, rule)
                assert np.array_equal(there.pixels, here.pixels), name
                assert there.box == here.box
                assert (there.width, there.height, there.orientation) == (here.width, here.height, here.orientation)
        assert replaced(metrics) == {}

    decoding(work, max_image_pixels=limit)


def test_a_whole_image_comes_upright():
    async def work(every, metrics):
        for name, data in images().items():
            try:
                here = np.asarray(open_image(data, 16_000_000))
            except Refusal:
                with pytest.raises(Refusal):
                    await every.upright(data).__aenter__()
                continue
            async with every.upright(data) as there:
                assert np.array_equal(there if here.ndim == 3 else there[:, :, 0], here), name
        assert replaced(metrics) == {}

    decoding(work)


@pytest.mark.usefixtures("hostile")
def test_fifty_images_that_crash_their_decoder_are_each_refused_and_others_are_not():
    async def work(every, metrics):
        right = await every.decode(SEVEN, INK)
        for _ in range(50):
            with pytest.raises(Unacceptable, match=r"^image: must be one that can be decoded, given one that cannot$"):
                await every.decode(b"crash", INK)
            assert np.array_equal((await every.decode(SEVEN, INK)).pixels, right.pixels)
        assert replaced(metrics) == {"crash": 50}

    decoding(work)


@pytest.mark.usefixtures("hostile")
def test_crashes_beside_each_other_are_refused_each_for_itself():
    async def work(every, metrics):
        sent = [b"crash", SEVEN, SEVEN] * 20
        found = await asyncio.gather(*(outcome(every.decode(data, INK)) for data in sent))
        for data, one in zip(sent, found, strict=True):
            assert isinstance(one, tuple) == (data == b"crash"), one

    decoding(work, decode_processes=3)


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("deed", [b"hang", b"deafen"])
def test_an_image_that_takes_too_long_is_refused_when_its_time_is_over(deed):
    async def work(every, metrics):
        await every.decode(SEVEN, INK)
        start = time.monotonic()
        with pytest.raises(Unacceptable, match=r"^image: must be decoded within 0\.5 seconds, given one that takes"):
            await every.decode(deed, INK)
        assert time.monotonic() - start < 5
        await every.decode(SEVEN, INK)
        assert replaced(metrics) == {"deadline": 1}

    decoding(work, decode_seconds=0.5, decode_processes=1)


@pytest.mark.usefixtures("hostile")
def test_the_alarm_of_one_image_does_not_ring_for_the_next():
    async def work(every, metrics):
        for _ in range(3):
            await every.decode(SEVEN, INK)
            await asyncio.sleep(0.3)
        assert replaced(metrics) == {}

    decoding(work, decode_seconds=0.2, decode_processes=1)


@pytest.mark.usefixtures("hostile")
def test_an_image_that_takes_too_much_memory_is_refused():
    async def work(every, metrics):
        with pytest.raises(Unacceptable, match=r"^image: must be decoded within 67108864 bytes of memory, given one"):
            await every.decode(b"fill", INK)
        await every.decode(SEVEN, INK)
        assert replaced(metrics) == {"memory": 1}

    decoding(work, decode_bytes=64 << 20, decode_processes=1)


def test_an_honest_image_that_takes_too_much_memory_is_refused():
    large = encoded(Image.new("RGBA", (4000, 4000), (1, 2, 3, 4)))

    async def work(every, metrics):
        with pytest.raises(Unacceptable, match=r"^image: must be decoded within 67108864 bytes of memory"):
            await every.decode(large, middle(8, 8, resize=8))
        assert replaced(metrics) == {"memory": 1}

    decoding(work, decode_bytes=64 << 20, decode_processes=1)


@pytest.mark.usefixtures("hostile")
def test_what_a_decoder_says_is_not_believed():
    async def work(every, metrics):
        words = "image: must be one that can be decoded, given one that cannot"
        for lie in LIES:
            assert await outcome(every.decode(b"lie " + lie.encode(), INK)) == ("Unacceptable", words), lie
            await every.decode(SEVEN, INK)
        assert replaced(metrics) == {"malformed": len(LIES)}

    decoding(work, decode_processes=1)


@pytest.mark.usefixtures("hostile")
def test_a_decoder_reaches_no_file_no_socket_and_no_secret(monkeypatch):
    monkeypatch.setenv("REGARD_SECRET", "secret")

    async def work(every, metrics):
        assert await outcome(every.decode(b"reach", INK)) == ("Unacceptable", "reached: ")

    decoding(work)


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="reads /proc")
def test_a_decoder_is_confined():
    async def work(every, metrics):
        await every.decode(SEVEN, INK)
        _, *forked = children(os.getpid())
        assert len(forked) == 2
        for number in forked:
            limits, status, score, opened = confinement(number)
            for name in ("core file size", "file size", "open files", "processes"):
                assert limits[name] == "0"
            assert int(limits["address space"]) < 4 << 30
            assert status["NoNewPrivs"] == "1"
            assert score == 1000
            assert opened[:3] == ["/dev/null"] * 3
            assert [name.partition(":")[0] for name in opened[3:]] == ["socket"], "its own, and no other's"

    decoding(work)


@pytest.mark.usefixtures("hostile")
def test_who_leaves_has_nothing_decoded_any_more():
    async def work(every, metrics):
        await every.decode(SEVEN, INK)
        running = asyncio.ensure_future(every.decode(b"hang", INK))
        waiting = [asyncio.ensure_future(every.decode(b"hang", INK)) for _ in range(5)]
        last = asyncio.ensure_future(every.decode(SEVEN, INK))
        await asyncio.sleep(0.2)
        for task in (*waiting, running):
            task.cancel()
        await asyncio.wait_for(last, 5)
        assert replaced(metrics) == {"cancelled": 1}, "those that waited were never begun"

    decoding(work, decode_seconds=60, decode_processes=1)


def test_those_that_wait_take_their_turns():
    async def work(every, metrics):
        done = []

        async def one(index):
            await every.decode(SEVEN, INK)
            done.append(index)

        await asyncio.gather(*map(one, range(30)))
        assert done == list(range(30))

    decoding(work, decode_processes=1)


def test_nothing_is_left_of_a_thousand_images(monkeypatch):
    monkeypatch.setattr(decoders, "IMAGES", 100)
    before = descriptors(), children(os.getpid())

    async def work(every, metrics):
        await every.decode(SEVEN, INK)
        held = descriptors()
        for _ in range(100):
            await asyncio.gather(*(every.decode(TINY, INK) for _ in range(10)))
        await asyncio.sleep(0.2)
        assert abs(descriptors() - held) <= 1  # the second decoder may not have been there before
        assert len(children(os.getpid())) == 3
        assert replaced(metrics)["worn"] >= 9

    decoding(work)
    assert (descriptors(), children(os.getpid())) == before


def test_decoders_that_end_while_idle_cost_no_image():
    async def work(every, metrics):
        await every.decode(SEVEN, INK)
        for _ in range(3):
            await asyncio.sleep(0.1)
            _, *forked = children(os.getpid())
            for number in forked:
                os.kill(number, signal.SIGKILL)
            await asyncio.sleep(0.1)
            await asyncio.gather(*(every.decode(SEVEN, INK) for _ in range(4)))

    decoding(work)


def test_the_nursery_is_started_again():
    async def work(every, metrics):
        await every.decode(SEVEN, INK)
        for _ in range(2):
            nursery, *_ = children(os.getpid())
            os.kill(nursery, signal.SIGKILL)
            await asyncio.sleep(0.1)
            await asyncio.gather(*(every.decode(SEVEN, INK) for _ in range(4)))
            assert nursery not in children(os.getpid())
        assert set(replaced(metrics)) == {"nursery"}

    decoding(work)


@pytest.mark.usefixtures("hostile")
def test_an_image_whose_decoder_ends_with_the_nursery_is_decoded_again():
    async def work(every, metrics):
        await every.decode(SEVEN, INK)
        running = asyncio.ensure_future(every.decode(b"wait", INK))
        await asyncio.sleep(0.1)
        os.kill(children(os.getpid())[0], signal.SIGKILL)
        assert (await running).box == (0, 0, 28, 28)
        await every.decode(SEVEN, INK)
        assert set(replaced(metrics)) == {"nursery"}

    decoding(work)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_leaves_decoders_to_what_is_in_flight(number):
    async def work(every, metrics):
        await every.decode(SEVEN, INK)
        for one in children(os.getpid()):
            os.kill(one, number)
        await every.decode(SEVEN, INK)
        assert replaced(metrics) == {}

    decoding(work)


def test_without_a_nursery_images_are_refused_and_never_decoded_here(monkeypatch, capfd):
    monkeypatch.setattr(decoders, "NURSERY", "tests.service.absent")
    monkeypatch.setattr(decoders, "PAUSE", 0.5)

    async def work(every, metrics):
        for _ in range(3):
            with pytest.raises(NotReady, match="image: needs a decoder, none can be had now"):
                await every.decode(SEVEN, INK)
        monkeypatch.setattr(decoders, "NURSERY", "service.inputs.sandbox.fork_server")
        await asyncio.sleep(0.6)
        with contextlib.suppress(NotReady):
            await every.decode(SEVEN, INK)
        await every.decode(SEVEN, INK)

    decoding(work)
    assert capfd.readouterr().err.count("No module named tests.service.absent") == 1, "it is not tried again at once"


def test_the_service_opens_no_image_itself(artifacts, monkeypatch):
    def opened(*arguments, **options):
        raise AssertionError("in the service's own process")

    monkeypatch.setattr(Image, "open", opened)
    settings = Settings(artifacts=artifacts)
    with TestClient(create_app(settings, load(settings), open_store(settings))) as client:
        while client.get("/health/ready").status_code == 503:
            time.sleep(0.01)
        answer = client.post(f"{CLASSIFY}?top_k=1", content=SEVEN, headers=PNG)
        assert answer.json()["results"][0]["labels"][0]["label"] == "7"
        drawn = client.post("/v1/models/digits/attention?format=png", content=SEVEN, headers=PNG)
        kept = client.get(f"/v1/attention/{answer.json()['id']}?format=png")
        assert drawn.status_code == kept.status_code == 200
    monkeypatch.undo()
    assert Image.open(io.BytesIO(drawn.content)).size == Image.open(io.BytesIO(SEVEN)).size


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_decoder_outlives_the_service(artifacts, number):
    with served(artifacts) as client:
        assert client.post(CLASSIFY, content=SEVEN, headers=PNG).status_code == 200
        below = children(client.process.pid)
        assert len(below) == 3
        client.process.send_signal(number)
        client.process.wait(30)
        end = time.monotonic() + 5
        while any(map(alive, below)):
            assert time.monotonic() < end
            time.sleep(0.01)
