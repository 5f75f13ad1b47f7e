"""docs/limits.md, line by line, against a running service: a line without a check fails."""

import base64
import concurrent.futures
import contextlib
import hashlib
import json
import re
import socket
import time

import httpx
import numpy as np
import pytest

from docs.limits import ROWS
from service.api.tasks.ranking import pairs_of
from service.api.tasks.zero_shot import ZeroShot
from service.errors import TooLarge, Unacceptable
from service.options.base import parse
from service.options.predictions import ZeroShotOptions
from service.settings import Settings
from tests.conftest import ROOT, served
from tests.rigs.mixes import bomb
from tests.samples.http_requests import CLASSIFY, EVERY_MAP, GENERATE, JSON, PNG, SEVEN
from tests.samples.image_files import tiff
from tests.samples.images import bar, encoded

TIGHT = {
    "max_connections": 40, "header_seconds": 1, "keep_alive_seconds": 1.5, "max_url_bytes": 2000, "max_headers": 20,
    "max_header_bytes": 4000, "max_body_bytes": 300_000, "max_text_bytes": 50_000, "max_image_bytes": 200_000,
    "max_body_pieces": 100, "body_seconds": 1.5, "write_seconds": 1, "queue_body_bytes": 1_000_000, "max_images": 3,
    "max_inputs": 40, "max_beams": 2, "max_answer_bytes": 1_000_000, "max_image_pixels": 16_000_000,
    "queue_pixels": 40_000_000, "queue_tokens": 400, "run_bytes": 5_000_000,
}  # fmt: skip
"""Settings of the service that most lines are tried on: each limit is low, so that little passes it."""
KEYS = {"predict": "p" * 43, "other": "o" * 43, "metrics": "m" * 43}
ELSEWHERE = {
    "a graph of many nodes or edges": "service/inputs/test_graph_inputs.py",
    "a long sound, or a WAV whose header announces more than it may have": "service/inputs/test_sound_decoding.py",
    "a sound of many channels, of a strange rate, or of samples that are no numbers": "service/inputs/test_wav.py",
    "a long prompt that would be put before each text": "service/api/tasks/test_vectors.py",
    "a very long text that is read in windows, or many of them": "service/inputs/test_tokenization.py",
    "many words of sparse embeddings": "service/api/tasks/test_words.py",
    "attention of a long input, whose maps and gradients take gigabytes to compute":
        "service/repository/models/test_served_model.py",
    "many or long answers to questions": "service/api/tasks/test_spans.py",
    "many entities, or probabilities of tokens as tensors": "service/api/tasks/test_tags.py",
    "integrated gradients of an image that would take longer than a request may, at the speed of the last minute":
        "service/answering/test_in_time.py",
    "a client that does not read its answer, or reads it very slowly": "service/http/test_bounded_protocol.py",
    "many clients that read large answers or streams slowly": "service/http/test_unread_answers.py",
    "a stream that is read slowly": "service/http/test_server_sent_events.py",
    "an image that makes its decoder crash, take too much time of a processor, or run out of memory":
        "service/inputs/sandbox/test_decoder_pool.py",
    "an image whose decoder does not answer in twice that time by the clock":
        "service/inputs/sandbox/test_decoder_pool.py",
    "an image that takes over its decoder": "service/inputs/sandbox/test_seccomp.py",
    "any of these three where images are decoded on threads of the service":
        "service/inputs/sandbox/test_decoder_threads.py",
    "more work than the device can finish in time at its recent speed": "service/batching/test_admission.py",
    "the same request again at once, after it was refused for lack of room": "service/http/test_repeated_requests.py",
    "one client that asks for much more than others": "service/batching/test_fair_queue.py",
    "many masks in a text": "service/api/hugging_face/test_pipelines.py",
    "guessing keys from response times": "service/http/test_api_keys.py",
    "a web page that calls the admin or the probe port": "service/test_app.py",
    "Open Inference Protocol: binary data whose lengths do not add up, more elements than a shape says":
        "service/api/open_inference/test_infer_request.py",
    "Open Inference Protocol: maps of inputs of very different lengths, which zeros fill up to the longest":
        "end_to_end/test_open_inference.py",
    "Open Inference Protocol: many outputs, a long id": "service/api/open_inference/test_infer_request.py",
    "Open Inference Protocol: a large body to the repository, parameters that would change a model":
        "end_to_end/test_open_inference.py",
    "Hugging Face: many candidates of masks, each with its whole text": "service/api/hugging_face/test_pipelines.py",
    "Hugging Face: texts of many tokens to tokenize": "service/api/hugging_face/test_tei.py",
}  # fmt: skip
"""Lines whose attempt needs more than a client: a slow network, a hostile decoder, a clock; or another protocol."""
CHECKS = {}


@pytest.fixture(scope="module")
def tight(artifacts):
    with served(artifacts, decode="confined", **TIGHT) as client:
        client.headers["Connection"] = "close"  # a kept one might be closed while the next request is on its way
        yield client


@pytest.fixture(scope="module")
def locked(artifacts, tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "keys.txt"
    scopes = {"other": "predict"}
    lines = [
        f"{hashlib.sha256(key.encode()).hexdigest()} {scopes.get(name, name)} {name}\n" for name, key in KEYS.items()
    ]
    file.write_text("".join(lines))
    with served(artifacts, api_keys=file, allowed_hosts="regard.example,localhost", max_connections=1000) as client:
        yield client


@pytest.fixture(scope="module")
def hasty(artifacts):
    with served(artifacts, request_seconds=0.001) as client:
        yield client


def line(attempt, service="tight"):
    """Register the check of one line of the table, on one of the services."""

    def register(check):
        assert attempt not in CHECKS
        CHECKS[attempt] = check, service
        return check

    return register


def test_every_line_has_its_check():
    lines = [attempt for attempt, *rest in ROWS if rest]
    assert lines == sorted([*CHECKS, *ELSEWHERE], key=lines.index)
    assert all((ROOT / "tests" / file).exists() for file in ELSEWHERE.values())


@pytest.mark.parametrize("attempt", [attempt for attempt, *rest in ROWS if rest and attempt not in ELSEWHERE])
def test_the_answer_is_what_the_line_says(attempt, request):
    check, service = CHECKS[attempt]
    client = request.getfixturevalue(service)
    check(client)
    headers = {"Host": "evil.example"}
    assert client.get("/health/live", headers=headers).status_code == 200
    assert client.process.poll() is None


def port(client):
    return client.base_url.port


def connect(client):
    one = socket.create_connection(("127.0.0.1", port(client)), timeout=15)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one


def read_all(one):
    """Read until the service closes the connection."""
    found = b""
    while piece := one.recv(65536):
        found += piece
    return found


def raw(client, *pieces, pause=0.0):
    """Send pieces on a connection of its own; return all that is answered until the service closes it."""
    with connect(client) as one:
        for piece in pieces:
            one.sendall(piece)
            time.sleep(pause)
        return read_all(one)


def statuses(answer):
    return [int(one) for one in re.findall(rb"HTTP/1\.1 (\d+)", answer)]


def head(method="GET", path="/health/live", *headers):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def document(client, path, **given):
    return client.post(path, content=json.dumps(given), headers=JSON)


def form(*parts, end=b"--x--\r\n"):
    """Return a form of (head, content) parts as keyword arguments of a request."""
    content = b"".join(b"--x\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n" % part for part in parts) + end
    return {"content": content, "headers": {"Content-Type": "multipart/form-data; boundary=x"}}


FILE = b'name="image"; filename="a"'


@line("more connections to one port than allowed")
def _(client):
    begun = head("POST", CLASSIFY, "Content-Length: 50", "Content-Type: image/png") + b"a"
    with contextlib.ExitStack() as held:
        idle = held.enter_context(connect(client))
        idle.sendall(head())
        assert b"200" in idle.recv(4096)
        for _ in range(TIGHT["max_connections"] - 1):
            held.enter_context(connect(client)).sendall(begun)
        late = held.enter_context(connect(client))
        late.sendall(head("GET", "/health/live", "Connection: close"))
        assert statuses(read_all(late)) == [200], "an idle connection gave way"
        seen = []
        for _ in range(5):
            one = held.enter_context(connect(client))
            one.sendall(begun)
            one.settimeout(0.3)
            with contextlib.suppress(TimeoutError):
                seen += statuses(one.recv(4096))
        assert 503 in seen
    time.sleep(0.2)


@line("a request head that does not end, or arrives byte by byte")
def _(client):
    assert statuses(raw(client, head()[:-2])) == [408]
    assert raw(client) == b""


@line("an idle connection")
def _(client):
    start = time.monotonic()
    assert statuses(raw(client, head())) == [200]
    assert time.monotonic() - start > 1


@line("a long URL")
def _(client):
    assert statuses(raw(client, head("GET", "/" + "a" * 2100))) == [414]


@line("many or long headers, or trailer fields after a body")
def _(client):
    assert statuses(raw(client, head("GET", "/health/live", *["X-A: b"] * 30))) == [431]
    assert statuses(raw(client, head("GET", "/health/live", "X-A: " + "b" * 5000))) == [431]
    chunked = head(
        "POST", GENERATE, "Transfer-Encoding: chunked", "Content-Type: application/json", "Connection: close"
    )
    body = b'{"inputs": "1 May"}'
    trailed = chunked + b"%x\r\n%b\r\n0\r\nAuthorization: a\r\n\r\n" % (len(body), body)
    assert statuses(raw(client, trailed)) == [200]


@line("no Host header, or two")
def _(client):
    assert statuses(raw(client, b"GET /health/live HTTP/1.1\r\n\r\n")) == [400]
    assert statuses(raw(client, head("GET", "/health/live", "Host: b"))) == [400]
    for path, status in (("/health/ready", 200), ("/v1/models", 400)):  # as a proxy's plain check of health sends it
        assert statuses(raw(client, f"GET {path} HTTP/1.0\r\n\r\n".encode())) == [status]
    assert statuses(raw(client, b"GET /v1/models HTTP/1.0\r\nHost: a b\r\n\r\n")) == [400]


@line(
    "Content-Length and Transfer-Encoding together, two lengths, a transfer coding other than `chunked`, any in "
    "HTTP/1.0, bare LF, folded headers, NUL"
)
def _(client):
    for headers in (
        ["Content-Length: 3", "Transfer-Encoding: chunked"],
        ["Content-Length: 3", "Content-Length: 4"],
        ["Transfer-Encoding: gzip, chunked"],
        ["X: a", " b"],
        ["X: a\0b"],
    ):
        assert statuses(raw(client, head("POST", GENERATE, *headers) + b"0\r\n\r\n")) == [400], headers
    assert statuses(raw(client, head("POST", GENERATE).replace(b"\r\n", b"\n"))) == [400]
    old = head("POST", GENERATE, "Transfer-Encoding: chunked").replace(b"HTTP/1.1", b"HTTP/1.0")
    assert statuses(raw(client, old + b"0\r\n\r\n")) == [400]


@line("another version than HTTP/1.0 or HTTP/1.1")
def _(client):
    assert statuses(raw(client, head().replace(b"HTTP/1.1", b"HTTP/1.2"))) == [400]


@line("a protocol upgrade")
def _(client):
    body = b'{"inputs": "1 May"}'
    headers = [f"Content-Length: {len(body)}", "Content-Type: application/json", "Upgrade: h2c", "Connection: Upgrade"]
    last = head("GET", "/health/live", "Connection: close")
    assert statuses(raw(client, head("POST", GENERATE, *headers), body, last, pause=0.1)) == [200, 200]


@line("many requests at once on one connection")
def _(client):
    last = head("GET", "/health/live", "Connection: close")
    assert statuses(raw(client, head() * 30 + last)) == [200] * 31


@line("a Content-Length that is too large, on any path")
def _(client):
    for path in (CLASSIFY, GENERATE, "/nothing"):
        assert statuses(raw(client, head("POST", path, "Content-Length: 300001", "Connection: close"))) == [413], path


@line("a body without Content-Length that grows too large")
def _(client):
    for path, kind, size in ((CLASSIFY, PNG, 200_001), (GENERATE, JSON, 50_001)):
        answer = client.post(path, content=iter([b"a" * 1000] * (size // 1000 + 1)), headers=kind)
        assert answer.status_code == 413


@line("a body of many small pieces")
def _(client):
    assert client.post(CLASSIFY, content=iter([b"a"] * 200), headers=PNG).status_code == 413


@line("a body that is slow, or does not end")
def _(client):
    begun = head("POST", CLASSIFY, "Content-Length: 5000", "Content-Type: image/png") + b"a"
    assert statuses(raw(client, begun)) == [408]


@line("a client that closes its sending side before its answer")
def _(client):
    body = b'{"inputs": "3/23/21"}'
    asked = head("POST", GENERATE, "Content-Type: application/json", f"Content-Length: {len(body)}")
    with connect(client) as one:
        one.sendall(asked + body)
        one.shutdown(socket.SHUT_WR)
        assert read_all(one) == b""


@line("a body that still arrives after its answer")
def _(client):
    refused = head("POST", CLASSIFY, "Content-Length: 5000000", "Connection: close")
    assert statuses(raw(client, refused, *[bytes(100_000)] * 50)) == [413]


@line("a body that waits for 100 (Continue), and is refused before it is read")
def _(client):
    asked = head("POST", CLASSIFY, "Content-Length: 5000000", "Expect: 100-continue")
    assert statuses(raw(client, asked)) == [413]


@line("many bodies at once, or many that do not end")
def _(client):
    begun = head("POST", CLASSIFY, "Content-Length: 200000", "Content-Type: image/png") + bytes(190_000)
    with contextlib.ExitStack() as held:
        for _ in range(20):  # the first of them end when their time is over
            held.enter_context(connect(client)).sendall(begun)
            large = client.post(CLASSIFY, content=SEVEN + bytes(180_000), headers=PNG)
            if large.status_code == 429:
                break
        assert (large.status_code, "retry-after" in large.headers) == (429, True)
        assert client.post(CLASSIFY, content=SEVEN, headers=PNG).status_code == 200, "a small body always fits"


@line("a compressed body")
def _(client):
    assert client.post(CLASSIFY, content=SEVEN, headers={**PNG, "Content-Encoding": "gzip"}).status_code == 415


@line("JSON of many values, such as a million empty lists")
def _(client):
    content = b'{"inputs": [' + b"[]," * 16_500 + b"0]}"
    assert len(content) < TIGHT["max_text_bytes"]
    assert client.post(GENERATE, content=content, headers=JSON).status_code == 413
    commas = document(client, GENERATE, inputs="," * 16_500)
    assert commas.status_code in (413, 422)
    assert "values" not in commas.text, "commas in a text are no values"


@line("JSON with long texts beside images that are not ASCII")
def _(client):
    assert document(client, CLASSIFY, images=["é" * 30_000]).status_code == 413


@line("long texts where a body may hold images: `/v1/embeddings`, two models that are compared")
def _(client):
    refused = document(client, "/v1/embeddings", model="digits", input=["a" * 30_000] * 2)
    assert (refused.status_code, refused.json()["error"]["param"]) == (413, "input")


@line("deeply nested JSON, NaN, 1e400, a lone surrogate, another encoding")
def _(client):
    latin = '{"inputs": "é"}'.encode("latin-1")
    for content in (b"[" * 2000, b'{"inputs": NaN}', b'{"inputs": 1e400}', b'{"inputs": "\\ud800"}', latin):
        assert client.post(GENERATE, content=content, headers=JSON).status_code == 400, content[:20]


@line("a key given twice in one JSON object")
def _(client):
    assert client.post(GENERATE, content=b'{"inputs": "a", "inputs": "b"}', headers=JSON).status_code == 422
    nested = b'{"inputs": "a", "attention": {"method": "raw", "method": "raw"}}'
    assert client.post(GENERATE, content=nested, headers=JSON).status_code == 422


@line("base64 that is no image's or sound's, or too long")
def _(client):
    assert document(client, CLASSIFY, images=["no base64!"]).status_code == 400
    assert document(client, CLASSIFY, images=[base64.b64encode(bytes(200_001)).decode()]).status_code == 413
    assert document(client, CLASSIFY, images=["no base64!"] * 4).status_code == 422, "counted first"


@line("unknown options, options of another type, options given twice")
def _(client):
    for query in ("unknown=1", "top_k=many", "top_k=1&top_k=2"):
        assert client.post(f"{CLASSIFY}?{query}", content=SEVEN, headers=PNG).status_code == 422


@line("many options, or long ones")
def _(client):
    assert document(client, GENERATE, inputs="a", **{f"o{n}": 0 for n in range(70)}).status_code == 422
    assert document(client, CLASSIFY, images=["AAAA"], attention="a" * 70_000).status_code == 422


@line("a form with many files, many fields or long fields; a form that is cut short, or has a preamble")
def _(client):
    field = (b'name="top_k"', b"1")
    for parts, end in (
        ([(FILE, SEVEN)] * 5, b"--x--\r\n"),
        ([(FILE, SEVEN), *[(b'name="o%d"' % n, b"1") for n in range(80)]], b"--x--\r\n"),
        ([(FILE, SEVEN), (b'name="top_k"', b"1" * 70_000)], b"--x--\r\n"),
        ([(FILE, SEVEN)], b""),
    ):
        assert client.post(CLASSIFY, **form(*parts, end=end)).status_code in (400, 422)
    preamble = form((FILE, SEVEN))
    preamble["content"] = b"before\r\n" + preamble["content"]
    assert client.post(CLASSIFY, **preamble).status_code == 400
    assert client.post(CLASSIFY, **form((FILE, SEVEN), field)).status_code == 200


@line("a form or JSON in another charset, or header parameters that cannot be read")
def _(client):
    for kind in (
        "multipart/form-data; boundary=x; charset=punycode", "multipart/form-data; boundary=x; charset=undefined",
        "application/json; charset=utf-16", 'application/json; x="open',
    ):  # fmt: skip
        content = form((FILE, SEVEN))["content"]
        assert client.post(CLASSIFY, content=content, headers={"Content-Type": kind}).status_code == 415, kind
    assert client.post(CLASSIFY, **form((FILE, SEVEN), (b'name="top_k"', b"\xff"))).status_code == 400


@line("many images, sounds or texts in a request")
def _(client):
    assert document(client, GENERATE, inputs=["a"] * 41).status_code == 422
    assert document(client, GENERATE, inputs=["a"] * 40).status_code == 413
    assert document(client, CLASSIFY, images=[base64.b64encode(SEVEN).decode()] * 4).status_code == 422


@line("a long text, of one word or many")
def _(client):
    assert document(client, GENERATE, inputs="a" * 51_000).status_code == 413
    assert document(client, GENERATE, inputs="a" * 200).status_code == 422


@line("an image with many pixels, a TIFF with large tiles, or a JPEG with many scans")
def _(client):
    assert client.post(CLASSIFY, content=bomb(), headers=PNG).status_code == 413
    scans = encoded(bar(), "JPEG")[:-2] + b"\xff\xda" * 300 + b"\xff\xd9"
    assert client.post(CLASSIFY, content=scans, headers={"Content-Type": "image/jpeg"}).status_code == 422
    tiles = tiff(np.zeros((9, 9), int), 1, more=[(322, 4, [1 << 13]), (323, 4, [1 << 13])])
    assert client.post(CLASSIFY, content=tiles, headers={"Content-Type": "image/tiff"}).status_code == 413


@line("many images at once, or small files that are many pixels")
def _(client):
    picture = encoded(bar(4000, 4000), "PNG")
    asked = form((FILE, picture), (FILE, picture))
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        many = [threads.submit(httpx.post, f"{client.base_url}{CLASSIFY}", **asked, timeout=60) for _ in range(6)]
        answers = [one.result() for one in many]
    assert {answer.status_code for answer in answers} == {200, 429}
    assert all("retry-after" in answer.headers for answer in answers if answer.status_code == 429)


@line("a header that announces fewer pixels than there are")
def _(client):
    header = encoded(bar(), "JPEG")
    frame = header.index(b"\xff\xc0")
    # a second frame header of another size, in front of the true one
    lying = header[:frame] + b"\xff\xc0\x00\x0b\x08\x00\x08\x00\x08\x01\x01\x11\x00" + header[frame:]
    assert client.post(CLASSIFY, content=lying, headers={"Content-Type": "image/jpeg"}).status_code == 422


@line("many tokens to generate, many beams")
def _(client):
    assert document(client, GENERATE, inputs="a", max_new_tokens=10_000).status_code == 422
    assert document(client, GENERATE, inputs="a", num_beams=3).status_code == 422


@line("many alternatives of each generated token")
def _(client):
    assert document(client, GENERATE, inputs="a", alternatives=21).status_code == 422


@line("many texts of an input, many words to avoid, a penalty of an extreme size")
def _(client):
    drawn = {"num_return_sequences": 129, "top_k": 4}
    for options in (drawn, {"bad_words": ["a"] * 65}, {"bad_words": ["a" * 257]}, {"repetition_penalty": 101}):
        assert document(client, GENERATE, inputs="a", **options).status_code == 422


@line("many labels of a request, or texts that would be read with each")
def _(_):
    with pytest.raises(Unacceptable, match="labels: List should have at most 256 items"):
        parse(ZeroShotOptions, {"labels": [str(number) for number in range(257)]}, strings=False)
    asked = ZeroShot(["a", "b"], "{}", multi_label=False)
    with pytest.raises(Unacceptable, match="labels: at most 3 pairs of a text and a label, given 4"):
        asked.pairs(["a", "b"], "labels", Settings(max_inputs=3))
    with pytest.raises(TooLarge, match="labels: at most 1000 characters in pairs of a text and a label, given 1002"):
        asked.pairs(["a" * 500], "labels", Settings(max_text_bytes=1000))


@line("many texts to rank, or a long query that would be read with each")
def _(_):
    with pytest.raises(Unacceptable, match="texts: must be 1 to 1000, given 1001"):
        pairs_of("a", ["b"] * 1001, Settings())
    with pytest.raises(TooLarge, match="query: at most 1000 characters, counted once for each text, given 1010"):
        pairs_of("a" * 101, ["b"] * 10, Settings(max_text_bytes=1000))


@line("many points of a path of gradients, or many targets")
def _(client):
    url = "/v1/models/digits/attention?method=integrated"
    for options, status in (("&steps=257", 422), ("&target=" + ",".join(map(str, range(257))), 422)):
        assert client.post(url + options, content=SEVEN, headers=PNG).status_code == status
    image = base64.b64encode(SEVEN).decode()
    attention = {"method": "integrated", "steps": 256, "target": list(range(10))}
    answer = client.post("/v1/models/digits/attention", json={"images": [image] * 2, "attention": attention})
    assert (answer.status_code, answer.json()["detail"][:43]) == (413, "attention: at most 4096 runs a request, thi")


@line("attention that is a thousand times larger than the request")
def _(client):
    whole = "&".join(f"{name}={value}" for name, value in EVERY_MAP.items() if name != "method")
    answer = client.post(f"/v1/models/digits/attention?method=raw&{whole}", **form(*[(FILE, SEVEN)] * 3))
    assert answer.status_code == 413
    assert "at most 1000000" in answer.text


@line("a picture of many maps or inputs, or of a large image")
def _(client):
    large = encoded(bar(3000, 3000), "PNG")
    url = "/v1/models/digits/attention?layers=all&heads=all&format=png"
    refused = client.post(url, content=large, headers=PNG)
    assert (refused.status_code, refused.json()["detail"][:27]) == (413, "png: at most 16000000 pixel")
    assert client.post(url + "&width=500", content=large, headers=PNG).status_code == 200
    assert client.post(url + "&width=500&queries=all", content=large, headers=PNG).status_code == 413


@line(
    "what a written token rests on, over a text that is too long for the memory or the deadline; of more tokens than "
    "there is time for"
)
def _(client):
    most = client.get("/v1/models/dates").json()["limits"]["explained_tokens"]["libra"]
    assert 30 < most < 88
    for count, status in ((most, 200), (most + 1, 422)):
        asked = {"inputs": ("1 May 2021 " * 8)[:count], "max_new_tokens": 16, "method": "libra", "target": 0}
        answer = client.post("/v1/models/dates/attention", json=asked)
        assert answer.status_code == status, answer.text
    told = f"attention: at most {most} tokens of the text fit into libra of one token, given {most + 1}"
    assert answer.json()["detail"] == told


@line("more requests than the device can serve")
def _(client):
    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        asked = {"json": {"inputs": ["the twenty-third of March 2021"] * 3, "num_beams": 2}, "timeout": 60}
        many = [threads.submit(httpx.post, f"{client.base_url}{GENERATE}", **asked) for _ in range(12)]
        answers = [one.result() for one in many]
    assert {answer.status_code for answer in answers} == {200, 429}
    assert all("retry-after" in answer.headers for answer in answers if answer.status_code == 429)


@line("a request that takes too long", "hasty")
def _(client):
    body = json.dumps({"inputs": "1 May 2021"}).encode()
    headers = f"Content-Length: {len(body)}", "Content-Type: application/json", "Connection: close"
    # in one piece: a body that comes after the deadline is answered with 408
    assert statuses(raw(client, head("POST", GENERATE, *headers) + body)) == [504]
    assert client.get("/health/live").status_code == 200


@line("a host that is malformed or not listed", "locked")
def _(client):
    headers = {"X-API-Key": KEYS["predict"]}
    for host, status in (("evil.example", 400), ("a b", 400), ("regard.example", 200)):
        assert client.get("/v1/models", headers={**headers, "Host": host}).status_code == status
    assert client.get("/health/ready", headers={"Host": "10.0.0.1"}).status_code == 200


@line("no API key, an unknown key, or two keys", "locked")
def _(client):
    known, host = KEYS["predict"], {"Host": "regard.example"}
    for headers in ({}, {"X-API-Key": "x"}, {"X-API-Key": known, "Authorization": f"Bearer {known}"}):
        for path in ("/v1/models", "/metrics", "/v2", "/nothing"):
            assert client.get(path, headers=host | headers).status_code == 401
    assert client.get("/health/ready", headers=host).status_code == 200


@line("an API key without the path's scope", "locked")
def _(client):
    host = {"Host": "regard.example"}
    assert client.get("/metrics", headers=host | {"X-API-Key": KEYS["predict"]}).status_code == 403
    assert client.get("/v1/models", headers=host | {"X-API-Key": KEYS["metrics"]}).status_code == 403


@line("web pages of other origins")
def _(client):
    answer = client.get("/v1/models", headers={"Origin": "https://other.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    page = {"Origin": "https://other.example", "Content-Type": "text/plain"}
    assert client.post(GENERATE, content=b'{"inputs": "a"}', headers=page).status_code == 403


@line("a web page whose name comes to stand for this machine (DNS rebinding)")
def _(client):
    for path, status in (("/v1/models", 400), ("/metrics", 400), ("/health/live", 200)):
        assert client.get(path, headers={"Host": f"evil.example:{port(client)}"}).status_code == status


@line("a path with control characters, `//`, `..`, or in another script")
def _(client):
    for path in ("/v1//models", "/v1/%2e%2e/models", "/v1/m%00", "/v1/%D0%B0", "/v1/..%2fetc"):
        assert statuses(raw(client, head("GET", path, "Connection: close"))) == [404], path


@line("a path with a slash at its end, and a Host to be redirected to")
def _(client):
    for path in ("/metrics/", "/v1/models/", "/health/live/"):
        assert client.get(path, headers={"Host": "localhost"}).status_code == 404


@line("a model that does not exist, in any spelling")
def _(client):
    for name in ("DIGITS", "digits.", "unknown", "~root"):
        assert client.post(f"/v1/models/{name}/classify", content=SEVEN, headers=PNG).status_code == 404


@line("another method, TRACE, CONNECT")
def _(client):
    assert client.delete(CLASSIFY).status_code == 405
    assert statuses(raw(client, head("TRACE", "/health/live", "Connection: close"))) == [405]
    assert statuses(raw(client, b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n")) == [400]


@line("control characters in X-Request-Id, or a long one, to spoil the log")
def _(client):
    for given in ("a" * 65, "a b", 'a"b'):
        assert client.get("/health/live", headers={"X-Request-Id": given}).headers["x-request-id"] != given
    assert client.get("/health/live", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"


@line("asking for attention by another key's id, or giving one as X-Request-Id", "locked")
def _(client):
    headers = {"Host": "regard.example", "X-API-Key": KEYS["predict"], "X-Request-Id": "mine"}
    answer = client.post(CLASSIFY, content=SEVEN, headers=headers | PNG)
    stored = f"/v1/attention/{answer.json()['id']}"
    assert client.get(stored, headers=headers).status_code == 200
    others = headers | {"X-API-Key": KEYS["other"]}
    for path in (stored, "/v1/attention/mine"):
        assert client.get(path, headers=others).status_code == 404
    assert client.get("/v1/attention/mine", headers=headers).status_code == 404, "a client's id is for logs alone"


@line("many paths, to create many time series")
def _(client):
    for number in range(20):
        client.get(f"/nothing/{number}")
    metrics = client.get("/metrics").text
    assert "nothing" not in metrics
    assert 'route="other"' in metrics
