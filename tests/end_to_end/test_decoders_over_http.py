"""The service decodes every image in another process, and leaves none of them behind."""

import contextlib
import io
import signal
import time
from pathlib import Path

import pytest
from PIL import Image

from tests.conftest import served
from tests.samples.decoders import children
from tests.samples.full_queue import queue_filled
from tests.samples.http_requests import CLASSIFY, PNG, SEVEN
from tests.samples.in_process import inside


def alive(number):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_the_service_opens_no_image_itself(light, monkeypatch):
    def opened(*arguments, **options):
        raise AssertionError("in the service's own process")

    monkeypatch.setattr(Image, "open", opened)
    with inside(light) as (client, _):
        answer = client.post(f"{CLASSIFY}?top_k=1", content=SEVEN, headers=PNG)
        assert answer.json()["results"][0]["labels"][0]["label"] == "7"
        drawn = client.post("/v1/models/digits/attention?format=png", content=SEVEN, headers=PNG)
        kept = client.get(f"/v1/attention/{answer.json()['id']}?format=png")
        assert drawn.status_code == kept.status_code == 200
    monkeypatch.undo()
    assert Image.open(io.BytesIO(drawn.content)).size == Image.open(io.BytesIO(SEVEN)).size


def test_images_are_refused_at_once_when_too_many_pixels_wait(light, monkeypatch):
    with inside(light, queue_pixels=1_000_000) as (client, _):
        pool = client.app.state.regard.decoders
        with monkeypatch.context() as patched:
            patched.setattr(type(pool), "run", lambda *_: pytest.fail("an image was decoded"))
            with queue_filled(pool.budget):
                for path in (CLASSIFY, "/v1/models/digits/attention"):
                    answer = client.post(path, content=SEVEN, headers=PNG)
                    assert answer.status_code == 429
                    assert int(answer.headers["Retry-After"]) >= 1
                    assert answer.json()["detail"].startswith("pixels of images: at most 1000000 may wait, given ")
                metrics = client.app.state.regard.metrics
                pool.show_queue()
                assert b"regard_queue_pixels 1e+06" in metrics.text()
                assert b"regard_queue_pixels_limit 1e+06" in metrics.text()
        assert client.post(f"{CLASSIFY}?top_k=1", content=SEVEN, headers=PNG).status_code == 200
        drawn = client.post("/v1/models/digits/attention?format=png", content=SEVEN, headers=PNG)
        assert drawn.status_code == 200
        assert pool.budget.held == 0


def test_too_many_pixels_are_refused_by_the_header(light):
    with inside(light, max_image_pixels=700) as (client, _):
        width, height = Image.open(io.BytesIO(SEVEN)).size
        answer = client.post(CLASSIFY, content=SEVEN, headers=PNG)
        assert answer.status_code == 413
        assert answer.json()["detail"] == f"image: at most 700 pixels, given {width} x {height}"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_decoder_outlives_the_service(light, number):
    with served(light, decode="confined") as client:
        assert client.post(CLASSIFY, content=SEVEN, headers=PNG).status_code == 200
        below = children(client.process.pid)
        assert len(below) == 3
        client.process.send_signal(number)
        client.process.wait(30)
        end = time.monotonic() + 30
        while any(map(alive, below)):
            assert time.monotonic() < end
            time.sleep(0.01)
