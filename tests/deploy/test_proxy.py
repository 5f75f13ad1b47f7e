"""deploy/haproxy.cfg before two replicas: what it keeps from them, and what is never lost or sent twice."""

import contextlib
import json
import os
import re
import socket
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from service.settings import Settings
from tests.conftest import served
from tests.samples.ports import free_port
from tests.samples.proxy import CONFIGURATION, ROOT, needs_haproxy, proxied

SEVEN = (ROOT / "tests/data/digits/seven.png").read_bytes()
CLASSIFY = "/v1/models/digits/classify"

pytestmark = needs_haproxy


def address(client):
    return f"{client.base_url.host}:{client.base_url.port}"


def classify(client):
    return client.post(CLASSIFY, content=SEVEN, headers={"Content-Type": "image/png"})


@pytest.fixture(scope="module")
def digits(artifacts, tmp_path_factory):
    """A folder with the smaller of the bundled models alone: a replica of it starts soon."""
    folder = tmp_path_factory.mktemp("digits")
    (folder / "digits").symlink_to(artifacts / "digits")
    return folder


@contextlib.contextmanager
def replica(ready=200, answer=b"{}"):
    """A stand-in that counts what is posted to it. Its probe answers `ready`; without an `answer` it hangs up."""

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.respond(server.ready, b"{}")

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            server.posted += 1
            if answer is None:
                self.close_connection = True
            else:
                self.respond(200, answer)

        def respond(self, status, body):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.handle_error = lambda *_: None  # a probe does not wait for the end of its answer
    server.ready, server.posted = ready, 0
    server.address = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def nobody():
    return f"127.0.0.1:{free_port()}"


def exchange(proxy, sent, seconds=5):
    """Send bytes, and return all that comes back until the other side closes."""
    host, port = proxy.split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(sent)
        received = b""
        while piece := connection.recv(65536):
            received += piece
        return received


@pytest.fixture
def certificate(tmp_path):
    """A certificate for localhost that nobody signed, and its key, in one file."""
    key, own, both = tmp_path / "key.pem", tmp_path / "own.pem", tmp_path / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, "-keyout", key, "-out", own], check=True, capture_output=True)
    both.write_bytes(own.read_bytes() + key.read_bytes())
    return both


@pytest.mark.parametrize("tls", ["unset", "empty", "given"])
def test_haproxy_finds_the_configuration_valid(tls, certificate):
    given = {"PROXY_FIRST": "127.0.0.1:1", "PROXY_SECOND": "127.0.0.1:2"}
    if tls != "unset":
        given["PROXY_CERTIFICATE"] = str(certificate) if tls == "given" else ""
    command = ["haproxy", "-c", "-f", CONFIGURATION]
    done = subprocess.run(command, env=os.environ | given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr


def test_the_figures_hang_together():
    text = CONFIGURATION.read_text()
    settings = Settings.model_construct()

    def figure(pattern):
        return int(re.search(pattern, text)[1])

    assert figure(r"PROXY_BODY_BYTES +(\d+)") == settings.max_body_bytes
    assert figure(r"timeout server (\d+)s") > settings.request_seconds
    assert figure(r"timeout client (\d+)s") > settings.request_seconds
    assert figure(r"hard-stop-after (\d+)s") > settings.request_seconds
    noticed = figure(r"PROXY_PROBE +(\d+)s") * figure(r"fall (\d+)") + figure(r"timeout check (\d+)s")
    assert noticed < Settings().drain_seconds
    assert figure(r"timeout http-keep-alive (\d+)s") < 65  # REGARD_KEEP_ALIVE_SECONDS
    assert figure(r"tune.bufsize (\d+)") > 2 * (16 << 10) - 1  # heads that the service refuses itself reach it


def test_a_replica_that_is_stopped_loses_no_request(digits):
    with (
        served(digits, drain_seconds=5) as first,
        served(digits) as second,
        proxied(address(first), address(second)) as proxy,
    ):
        with httpx.Client(base_url=f"http://{proxy}") as client:
            assert classify(client).json()["results"][0]["labels"][0]["label"] == "7"
            assert client.get("/metrics").status_code == client.get("/%61dmin/reload").status_code == 404
            for path in ("/v2/repository/models/digits/unload", "/v2//repository/%6dodels/digits/load"):
                assert client.post(path).status_code == 404
            head = client.get("/v1/models", headers={"X-Request-Id": "mine"})
            assert (head.status_code, head.headers["X-Request-Id"]) == (200, "mine")

        answers, done = [], threading.Event()

        def ask(keep_alive):
            headers = {} if keep_alive else {"Connection": "close"}
            with httpx.Client(base_url=f"http://{proxy}", headers=headers, timeout=30) as client:
                while not done.wait(0.05):  # the proxy bounds how often one address may ask
                    answers.append(classify(client).status_code)

        threads = [threading.Thread(target=ask, args=(bool(index % 2),)) for index in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        first.process.terminate()  # it drains for 5 seconds, and is asked every second
        first.process.wait(30)
        time.sleep(0.5)
        done.set()
        for thread in threads:
            thread.join()
        assert set(answers) == {200}, answers
        assert len(answers) > 50
        with httpx.Client(base_url=f"http://{proxy}") as client:
            assert {classify(client).status_code for _ in range(10)} == {200}


def test_a_request_for_a_replica_that_has_just_gone_is_answered_by_the_other():
    with (
        contextlib.ExitStack() as going,
        replica() as staying,
        proxied(going.enter_context(replica()).address, staying.address) as proxy,
    ):
        going.close()  # its next two probes are what would tell
        answers = [httpx.post(f"http://{proxy}/", content=b"{}").status_code for _ in range(6)]
    assert answers == [200] * 6
    assert staying.posted == 6


def test_a_replica_that_is_not_ready_is_asked_for_nothing_and_returns_once_it_is():
    with (
        replica() as first,
        replica(ready=503) as second,
        proxied(first.address, second.address, probe="100ms") as proxy,
        httpx.Client(base_url=f"http://{proxy}") as client,
    ):
        for serving, resting in ((first, second), (second, first)):
            serving.ready, resting.ready = 200, 503
            time.sleep(1)
            before = resting.posted
            assert {client.post("/", content=b"{}").status_code for _ in range(20)} == {200}
            assert resting.posted == before


def test_without_a_replica_a_client_is_told_when_to_come_back():
    with proxied(nobody(), nobody()) as proxy:
        answer = httpx.get(f"http://{proxy}/")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert answer.json()["detail"] == "service: no replica is ready"


def test_what_a_replica_was_sent_is_never_sent_again():
    with replica(answer=None) as first, replica(answer=None) as second:
        with proxied(first.address, second.address) as proxy:
            answer = httpx.post(f"http://{proxy}/", content=b"{}")
        assert answer.status_code == 502
        assert answer.headers["content-type"] == "application/problem+json"
        assert first.posted + second.posted == 1


@pytest.fixture(scope="module")
def small():
    """A proxy with small bounds, before a replica that counts what reaches it."""
    with (
        replica() as behind,
        proxied(
            behind.address, behind.address, head_timeout="1s", body_bytes=1000, connections=4, requests=30
        ) as proxy,
    ):
        yield proxy, behind


@pytest.mark.parametrize(
    "sent",
    [b"POST / HTTP/1.1\r\nHost: a\r\nX-Slow: ", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n{"],
    ids=["head", "body"],
)
def test_whoever_does_not_finish_a_request_is_cut_and_reaches_no_replica(small, sent):
    proxy, behind = small
    before, start = behind.posted, time.monotonic()
    received = exchange(proxy, sent)
    assert received.startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - start < 4
    assert behind.posted == before


def test_a_connection_that_sends_nothing_is_closed(small):
    assert exchange(small[0], b"").startswith(b"HTTP/1.1 408 ")


def test_a_body_over_the_limit_is_refused_by_its_declared_length(small):
    received = exchange(
        small[0], b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1001\r\n\r\n" + bytes(1001)
    )
    assert received.startswith(b"HTTP/1.1 413 ")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["detail"] == "body: at most 1000 bytes, given more"


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"a" * 40000,
        b"\r\n".join(b"X%d: a" % index for index in range(200)),
        b"Content-Length: 1\r\nContent-Length: 2",
        b"A : b",
    ],
    ids=["bytes", "lines", "lengths", "space"],
)
def test_a_head_that_no_buffer_holds_or_that_is_none_is_refused(small, head):
    received = exchange(small[0], b"GET / HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n\r\n")
    assert received.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))


def test_an_address_has_so_many_connections_and_the_next_is_closed(small):
    host, port = small[0].split(":")
    held = [socket.create_connection((host, int(port))) for _ in range(4)]
    received = b""
    try:
        time.sleep(0.1)
        with contextlib.suppress(ConnectionError):
            received = exchange(small[0], b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert received == b""
    finally:
        for connection in held:
            connection.close()


def test_tls_ends_at_the_proxy(certificate):
    tls = f"127.0.0.1:{free_port()}"
    trusted = ssl.create_default_context(cafile=certificate)
    with replica() as behind, proxied(behind.address, behind.address, listen_tls=tls, certificate=certificate):
        answer = httpx.get(f"https://localhost:{tls.split(':')[1]}/", verify=trusted)
    assert answer.status_code == 200
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"


def test_an_address_that_asks_too_often_is_told_when_to_come_back(small):
    with httpx.Client(base_url=f"http://{small[0]}") as client:
        answers = [client.get("/") for _ in range(35)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert refused[0].headers["Retry-After"] == "10"
    assert refused[0].json()["detail"] == "address: at most 30 requests in 10 seconds, given more"
