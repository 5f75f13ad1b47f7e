"""Many inputs at once: in order, a few at a time, with the bad ones among them named."""

import base64
import io
import itertools
import json
import threading
import time

import anyio
import httpx
import pytest
import regard
from PIL import Image

from tests.client.conftest import described, filed

BLANK = base64.b64encode(filed(Image.new("L", (9, 9), 255))).decode()


class Machine:
    """Answers in place of a service: of a picture its width; blank ones are refused. It counts what runs at once."""

    def __init__(self):
        self.running, self.most, self.asked, self.lock = 0, 0, 0, threading.Lock()

    def answer(self, request):
        (sent,) = json.loads(request.content)["images"]
        if sent == BLANK:
            problem = {"title": "Unacceptable", "detail": "image: the picture looks blank", "status": 422}
            return httpx.Response(422, json=problem, headers={"content-type": "application/problem+json"})
        width = Image.open(io.BytesIO(base64.b64decode(sent))).width
        return httpx.Response(200, json={"id": "i", "results": [{"labels": [label(width)]}]})

    def __call__(self, request):
        with self.lock:
            self.running, self.asked = self.running + 1, self.asked + 1
            self.most = max(self.most, self.running)
        time.sleep(0.005)
        with self.lock:
            self.running -= 1
        return self.answer(request)

    async def later(self, request):
        self.running, self.asked = self.running + 1, self.asked + 1
        self.most = max(self.most, self.running)
        await anyio.sleep(0.005)
        self.running -= 1
        return self.answer(request)


def label(width):
    return {"label": str(width), "index": 0, "probability": 1.0}


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def model(machine):
    with httpx.Client(transport=httpx.MockTransport(machine)) as http:
        yield regard.Model(regard.Service("http://regard.example", http=http)._transport, described())


@pytest.fixture
def folder(tmp_path):
    """A hundred pictures, of which the 31st is no picture, and the 42nd is blank."""
    for at in range(1, 101):
        Image.new("L", (at, 9), at).save(tmp_path / f"{at:03}.png")
    (tmp_path / "031.png").write_bytes(b"no picture")
    (tmp_path / "042.png").write_bytes(base64.b64decode(BLANK))
    return tmp_path


def test_one_bad_file_among_a_hundred_costs_its_own_answer_alone(model, machine, folder):
    files, wrong = sorted(folder.iterdir()), {}
    for at, (path, answer) in enumerate(model.map(files, concurrency=8, errors="yield"), start=1):
        assert path == files[at - 1]
        if isinstance(answer, regard.RegardError):
            wrong[at] = answer
        else:
            assert answer.labels[0].label == str(at)
    assert wrong.keys() == {31, 42}
    assert isinstance(wrong[31], regard.BadInput)
    assert str(wrong[31]).startswith(f"{folder}/031.png: picture: must be an image")
    assert isinstance(wrong[42], regard.InputRefused)
    assert str(wrong[42]) == f"{folder}/042.png: image: the picture looks blank [422 Unacceptable]"
    assert 1 < machine.most <= 8
    assert machine.asked == 99, "what is no picture is not sent"


@pytest.mark.anyio
async def test_the_twin_does_the_same(machine, folder):
    files = sorted(folder.iterdir())
    async with httpx.AsyncClient(transport=httpx.MockTransport(machine.later)) as http:
        twin = regard.AsyncModel(regard.AsyncService("http://regard.example", http=http)._transport, described())
        found = [(path, answer) async for path, answer in twin.map(files, concurrency=8, errors="yield")]
        assert [path for path, _ in found] == files
        assert [at for at, (_, answer) in enumerate(found, 1) if isinstance(answer, regard.RegardError)] == [31, 42]
        assert 1 < machine.most <= 8
        with pytest.raises(regard.BadInput, match=r"031.png: picture: must be an image"):
            [path async for path, _ in twin.map(files, concurrency=8)]
        async for _ in twin.map(files[:9], concurrency=2):
            break


def test_the_first_error_ends_it_and_names_the_file_or_the_place(model, folder):
    found = model.map([folder / f"{at:03}.png" for at in (1, 2, 42, 3)])
    assert [path.name for path, _ in itertools.islice(found, 2)] == ["001.png", "002.png"]
    with pytest.raises(regard.InputRefused, match=f"^{folder}/042.png: image: the picture looks blank"):
        next(found)
    with pytest.raises(regard.BadInput, match=r"^inputs\[1\]: picture: must be"):
        list(model.map([folder / "001.png", 3]))


def test_inputs_may_be_endless(model, machine, folder):
    endless = itertools.cycle([folder / "001.png", folder / "002.png"])
    found = [answer.labels[0].label for _, answer in itertools.islice(model.map(endless, concurrency=2), 5)]
    assert found == ["1", "2", "1", "2", "1"]
    assert machine.asked < 20


def test_how_far_it_is_is_written_in_one_line(model, folder, capsys):
    list(model.map(sorted(folder.iterdir())[25:35], errors="yield", progress=True))
    assert capsys.readouterr().err.endswith("\r10 of 10 answered, 1 failed\n")
    list(model.map(iter([folder / "001.png"]), progress=True))
    assert capsys.readouterr().err == "\r1 answered\r1 answered\n"


def test_another_task_of_the_model_is_asked_by_its_name(model, folder):
    ((_, seen),) = model.map([folder / "001.png"], "classify", top_k=1)
    assert isinstance(seen, regard.Classification)
    with pytest.raises(regard.NotFound, match="embed: 'm' has no such task; it can classify, attention"):
        model.map([folder / "001.png"], "embed")


@pytest.mark.parametrize(
    ("inputs", "options", "said"),
    [
        ("one.png", {}, "inputs: must be a list"),
        ([], {"concurrency": 0}, "concurrency: must be 1 or more, given 0"),
        ([], {"errors": "skip"}, 'errors: must be "raise" or "yield", given \'skip\''),
    ],
)
def test_what_cannot_be_done_is_said_at_once(model, inputs, options, said):
    with pytest.raises(regard.BadInput, match=said):
        model.map(inputs, **options)
