"""Twenty traps that the libraries below the service set by default, each named by what holds in spite of it."""

import contextlib
import gzip
import inspect
import json
import random
import re
import shutil
import signal
import socket
import time
import zlib

import httpx
import pytest
import yaml
from structlog.testing import capture_logs

from contract.artifact import ArtifactError
from service.api.native.routes import router
from service.errors import Refusal
from service.inputs.image_kinds import FORMATS
from service.inputs.image_preprocessing import decode_image
from service.repository.loading.load import load_one
from service.repository.loading.trial_load import Trial
from service.runtime import session
from service.settings import Settings
from service.state import state
from tests.conftest import ROOT, served
from tests.samples.changed_artifacts import deadly, put_graph
from tests.samples.http_requests import CLASSIFY, GENERATE, JSON, PNG, SEVEN
from tests.samples.images import INK, bar, encoded
from tests.samples.in_process import inside

ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}|object at")


@pytest.fixture(autouse=True)
def the_next_good_request_is_answered(request):
    """After every one of the traps that are laid for the shared service."""
    yield
    if "client" in request.fixturenames:
        client = request.getfixturevalue("client")
        assert client.get("/health/live").status_code == 200
        found = client.post(CLASSIFY, content=SEVEN, headers=PNG).json()
        assert found["results"][0]["labels"][0]["label"] == "7"


def ask(client, text, **headers):
    return client.post(GENERATE, content=text, headers={**JSON, **headers})


def words(**options):
    return json.dumps({"inputs": "3/23/21", **options})


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("field", ["temperature", "max_new_tokens", "inputs"])
def test_01_numbers_that_are_none_are_malformed(client, number, field):
    assert ask(client, f'{{"inputs": "x", "{field}": {number}}}').status_code == 400


def test_02_half_a_surrogate_is_malformed(client):
    for document in (r'{"inputs": "\ud800"}', r'{"inputs": "x", "\udfff": 1}', r'{"inputs": "x", "top_k": "\ud800"}'):
        assert ask(client, document).status_code == 400


@pytest.mark.parametrize("field", ["top_k", "temperature", "stream", "nothing", "inputs"])
def test_03_a_refusal_never_repeats_what_was_sent(client, field):
    answer = ask(client, words(**{field: {"secret": "secret" * 150_000}}))
    assert answer.status_code == 422
    assert len(answer.content) < 4096
    assert "secret" not in answer.text


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e309"])
def test_04_a_number_beyond_all_is_malformed_and_never_infinite(client, number):
    for document in (f'{{"inputs": "x", "temperature": {number}}}', f'{{"inputs": "x", "length_penalty": {number}}}'):
        assert ask(client, document).status_code == 400


@pytest.mark.parametrize("value", [True, "8", 8.5, [8], 8.0, None])
def test_05_an_integer_is_an_integer_in_json(client, value):
    answer = ask(client, words(max_new_tokens=value))
    assert answer.status_code == (200 if value in (8.0, None) else 422)  # null is what leaving it out means


def test_06_a_body_is_what_its_type_says(client):
    plain = words().encode()
    assert ask(client, plain, **{"Content-Type": "application/json; charset=utf-7"}).status_code == 415
    assert ask(client, plain, **{"Content-Type": "text/html"}).status_code == 415
    packed = ask(client, gzip.compress(plain), **{"Content-Encoding": "gzip"})
    assert (packed.status_code, packed.headers["accept-encoding"]) == (415, "identity")
    assert ask(client, plain.decode().encode("utf-16")).status_code == 400
    assert ask(client, b"\xef\xbb\xbf" + plain).status_code == 400
    assert ask(client, plain).status_code == 200


def test_07_heads_and_bodies_have_deadlines_and_limits(light):
    """What else may come at a socket is in test_bounded_protocol.py; here the service itself is asked."""
    with served(light, header_seconds=0.5, body_seconds=0.5) as client:
        address = client.base_url.host, client.base_url.port
        head = b"POST /v1/models/digits/classify HTTP/1.1\r\nHost: localhost\r\n"
        for sent, status in (
            (b"", b""),
            (head, b"408"),
            (head + b"Content-Type: image/png\r\nContent-Length: 9\r\n\r\nabc", b"408"),
            (head + b"Content-Length: 99999999999999\r\n\r\n", b"413"),
            (head + b"A: " + b"a" * 1_000_000, b"431"),
            (head.replace(b"Host: localhost\r\n", b"") + b"\r\n", b"400"),
            (head + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
            (head.replace(b"\r\n", b"\n") + b"\n", b"400"),
            (head + b"A: b\r\n c\r\n\r\n", b"400"),
        ):
            with socket.create_connection(address, timeout=10) as one:
                with contextlib.suppress(ConnectionError):  # refused before it was all sent
                    one.sendall(sent)
                answer = one.recv(100)  # with nothing sent it is closed, without a word
            assert answer[9:12] == status, sent[:200]
    assert not [line for line in client.log if line["level"] in ("warning", "error")]


def test_08_idle_connections_do_not_take_the_place_of_requests(client):
    address = client.base_url.host, client.base_url.port
    idle = [socket.create_connection(address) for _ in range(200)]
    try:
        with httpx.Client(base_url=client.base_url) as new:
            for path in ("/health/live", "/health/ready", "/v1/models"):
                assert new.get(path).status_code == 200
    finally:
        for connection in idle:
            connection.close()


def test_09_no_handler_waits_for_a_thread():
    assert len(router.routes) > 5
    for route in router.routes:
        assert inspect.iscoroutinefunction(route.endpoint), route.path
        for dependency in route.dependant.dependencies:
            assert inspect.iscoroutinefunction(dependency.call), route.path
    assert inspect.iscoroutinefunction(state)


def test_10_what_nobody_waits_for_is_dropped(client):
    for _ in range(20):
        with pytest.raises(httpx.TimeoutException):
            httpx.post(f"{client.base_url}{GENERATE}", json={"inputs": ["x"] * 32, "num_beams": 8}, timeout=0.004)
    wait_for(lambda: "regard_requests_in_flight 1.0" in client.get("/metrics").text)  # which is this one


def test_11_a_request_ends_before_the_stop_and_the_stop_before_the_kill():
    settings = Settings()
    assert settings.request_seconds < settings.shutdown_grace_seconds
    pod = yaml.safe_load((ROOT / "k8s/base/deployment.yaml").read_text())["spec"]["template"]["spec"]
    drain = settings.drain_seconds + settings.shutdown_grace_seconds
    assert drain < pod["terminationGracePeriodSeconds"]


def test_12_a_service_that_is_told_to_stop_first_says_so_and_serves_on(light):
    with served(light, drain_seconds=2) as client:
        assert client.get("/health/ready").status_code == 200
        client.process.send_signal(signal.SIGTERM)
        wait_for(lambda: client.get("/health/ready").status_code == 503, seconds=1)
        assert client.get("/health/live").status_code == 200
        answer = client.post(CLASSIFY, content=SEVEN, headers=PNG)
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert client.process.wait(30) == 0


@pytest.mark.parametrize("side", [4100, 9000, 9400, 20_000, 2**31 - 1])
def test_13_an_image_is_refused_by_its_header_alone(client, side):
    """Nothing of its pixels is there that could be decoded."""
    header = bytearray(encoded(bar())[:60])
    header[16:24] = side.to_bytes(4, "big") * 2
    header[24:26] = bytes([1, 0])
    header[29:33] = zlib.crc32(header[12:29]).to_bytes(4, "big")
    answer = client.post(CLASSIFY, content=bytes(header), headers=PNG)
    assert answer.status_code == 413
    assert f"pixels, given {side} x {side}" in answer.json()["detail"]


def broken():
    """Images of every format, cut short and with bits flipped, always the same."""
    dice = random.Random(14)
    for kind in FORMATS:
        whole = encoded(bar(), kind)
        for _ in range(40):
            yield whole[: dice.randrange(len(whole))]
            flipped = bytearray(whole)
            flipped[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
            yield bytes(flipped)


def test_14_whatever_a_decoder_raises_is_a_refusal():
    for data in broken():
        with contextlib.suppress(Refusal):
            assert decode_image(data, INK, 10**6).pixels.shape == (28, 28, 1)


def test_15_no_answer_holds_an_address(client):
    for data in [*list(broken())[::4], b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"]:
        answer = client.post(CLASSIFY, content=data, headers=PNG)
        assert answer.status_code < 500
        assert not ADDRESS.search(answer.text)
    assert not ADDRESS.search(client.post(CLASSIFY, files={"image": ("a", b"\x89PNG\r\n\x1a\n")}).text)


class Panic(BaseException):
    """What a library in Rust raises when it panics: no Exception."""


def panic(*_, **__):
    raise Panic("<_io.BytesIO object at 0x7f0000000000>")


@pytest.mark.parametrize(
    ("model", "part"),
    [("dates", "text"), ("digits", "predict"), ("dates", "encode")],
)
def test_16_a_panic_is_one_requests_failure(light, monkeypatch, model, part):
    path, body = (
        (GENERATE, {"json": {"inputs": "3/23/21"}})
        if model == "dates"
        else (CLASSIFY, {"content": SEVEN, "headers": PNG})
    )
    with inside(light, request_seconds=2) as (client, models):
        with monkeypatch.context() as patch, capture_logs() as logged:
            owner = models[model].inputs.tokenizer if part == "text" else models[model].sessions[part]
            patch.setattr(owner, "encode" if part == "text" else "run", panic)
            answer = client.post(path, **body)
            status = 422 if part == "text" else 500  # of which no other text is at fault
            assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
            assert not ADDRESS.search(answer.text)
        assert [line for line in logged if line["log_level"] == "error"]
        assert client.post(path, **body).status_code == 200


def test_17_a_device_that_is_not_there_is_never_replaced_in_silence(monkeypatch):
    monkeypatch.setattr(session.ort, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(session.ProviderError, match="CUDAExecutionProvider"):
        session.choose_device("cuda")
    assert session.choose_device("auto") == "cpu"


@pytest.mark.parametrize("name", ["weights.bin", "predict.onnx", "attention.onnx"])
def test_18_one_flipped_bit_is_not_loaded(light, tmp_path, name):
    folder = shutil.copytree(light / "digits", tmp_path / "digits")
    data = bytearray((folder / "1" / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "1" / name).write_bytes(data)
    with pytest.raises(ArtifactError, match="sha256"):
        load_one(tmp_path / "digits/1", "cpu", Settings())


def test_19_a_graph_that_is_not_the_manifests_is_not_loaded(light, tmp_path):
    graph = shutil.copytree(light / "digits", tmp_path / "digits") / "1/predict.onnx"
    graph.write_bytes(graph.read_bytes().replace(b"Softmax", b"Softmin"))
    with pytest.raises(ArtifactError, match="sha256 differs"):
        load_one(graph.parent, "cpu", Settings())


def test_19_a_graph_that_kills_its_process_kills_a_child(light, tmp_path):
    version = shutil.copytree(light / "digits/1", tmp_path / "digits/1")
    put_graph(version, "predict", deadly())
    trial = Trial([version], Settings(), "spawn")
    with pytest.raises(ArtifactError, match="loading it ends a process: SIG"):
        trial.outcome(version, exact=True)
    trial.close()


def test_20_attention_that_would_be_too_large_is_refused_before_it_is_computed(client):
    def runs():
        found = re.findall(r"^regard_run_seconds_count\{.*\} (\S+)$", client.get("/metrics").text, re.MULTILINE)
        return sum(map(float, found))

    everything = {"layers": "all", "heads": "all", "queries": "all"}
    before = runs()
    answer = client.post(CLASSIFY, files=[("image", SEVEN)] * 32, params={"attention": "raw", **everything})
    assert answer.status_code == 413
    assert re.search(r"attention: at most \d+ bytes an answer, this one would have \d+", answer.json()["detail"])
    document = {"inputs": ["x" * 90] * 32, "attention": {**everything, "digits": 9}}
    assert client.post(GENERATE, json=document).status_code == 413
    assert runs() == before
