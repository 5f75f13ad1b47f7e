import contextlib
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import regard
from regard import transport

from tests.client.conftest import SEVEN, answer, described, problem, read, told
from tests.conftest import served
from tests.samples.api_keys import line
from tests.samples.in_process import in_process

MODELS = json.dumps({"models": []}).encode()
WRITES = {"task": "text-generation", "inputs": {}, "endpoints": ["generate"]}


@pytest.fixture
def quick(monkeypatch):
    """Pauses that no service named are short."""
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.02)


@pytest.mark.parametrize("status", [408, 429, 503])
def test_a_refusal_is_retried_when_the_service_says(status):
    with told(problem(status, retry_after="0.3"), problem(status, retry_after="0"), answer(200, MODELS)) as (
        url,
        asked,
    ):
        began = time.monotonic()
        regard.connect(url)
        assert time.monotonic() - began >= 0.3
        assert len(asked) == 3


def test_a_refusal_without_a_time_is_retried_after_a_pause(quick):
    with told(answer(503, b"busy", "text/html"), answer(200, MODELS)) as (url, asked):
        regard.connect(url)
        assert len(asked) == 2


@pytest.mark.parametrize(("status", "kind"), [(429, regard.Busy), (503, regard.NotReady)])
def test_patience_ends(status, kind):
    with told(problem(status, retry_after="5")) as (url, asked):
        began = time.monotonic()
        with pytest.raises(kind) as caught:
            regard.connect(url, patience=1)
        assert time.monotonic() - began < 4, "it does not wait for what comes too late"
        assert caught.value.problem.retry_after == 5
        assert len(asked) == 1


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 500, 504])
def test_other_refusals_are_not_sent_again(status):
    with told(problem(status, retry_after="0")) as (url, asked), pytest.raises(regard.Refused) as caught:
        regard.connect(url)
    assert caught.value.problem.status == status
    assert len(asked) == 1


KEPT = answer(200, MODELS, connection="keep-alive")


def test_a_kept_connection_that_closes_is_tried_once_more():
    with told((KEPT, b""), answer(200, MODELS)) as (url, asked):
        regard.connect(url).models()
        assert len(asked) == 3
    with told((KEPT, b""), b"") as (url, asked):
        service = regard.connect(url, retries=0)
        with pytest.raises(regard.NoService, match="the connection broke"):
            service.models()
    assert len(asked) == 3


def test_a_connection_that_is_kept_after_a_refusal_may_close_too():
    busy = problem(503, retry_after="0", connection="keep-alive")
    with told((busy, b""), answer(200, MODELS)) as (url, asked):
        regard.connect(url)
    assert len(asked) == 3


@pytest.mark.parametrize("broken", [b"", KEPT[:-5]], ids=["nothing came", "the answer broke off"])
def test_without_retries_nothing_else_is_sent_twice(broken):
    with (
        told(broken, answer(200, MODELS)) as (url, asked),
        pytest.raises(regard.NoService, match="the connection broke"),
    ):
        regard.connect(url, retries=5)  # which is for what is asked after the first look
    assert len(asked) == 1
    with told((KEPT, KEPT[:-5]), answer(200, MODELS)) as (url, asked):
        service = regard.connect(url)
        with pytest.raises(regard.NoService, match="the connection broke"):
            service.models()
    assert len(asked) == 2


@pytest.mark.anyio
async def test_what_failed_before_an_answer_began_is_sent_again(quick):
    with told(KEPT, b"", b"", answer(200, MODELS)) as (url, asked):
        assert regard.connect(url).models() == []
    assert len(asked) == 4
    with told(b"", b"", answer(200, MODELS)) as (url, asked):
        async with regard.AsyncService(url) as service:
            assert await service.models() == []
    assert len(asked) == 3
    with told(b"", b"", answer(200, MODELS)) as (url, asked):
        with pytest.raises(regard.NoService) as caught:
            regard.Service(url).with_options(retries=1).models()
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__, "what httpx says is below the line that helps"
    assert len(asked) == 2


def test_a_service_that_is_not_there_yet_is_waited_for(quick):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    service = regard.Service(f"http://127.0.0.1:{port}", retries=20)

    def begin():
        with socket.create_server(("127.0.0.1", port)) as listener, listener.accept()[0] as one:
            read(one)
            one.sendall(answer(200, MODELS))

    later = threading.Timer(0.1, begin)
    later.start()
    assert service.models() == []
    later.join()


@pytest.mark.anyio
async def test_a_call_may_have_a_timeout_and_headers_of_its_own():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        service = regard.Service(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(regard.TimedOut):
            service.with_options(timeout=0.1).models()
    given = {"headers": {"X-Team": "a", "X-Run": "1"}}
    with told(answer(200, MODELS)) as (url, asked):
        regard.connect(url, **given).with_options(headers={"X-Run": "2"}).models()
        async with regard.AsyncService(url, **given) as service:
            await service.with_options(headers={"X-Run": "3"}).models()
    runs = [re.search(rb"(?i)x-team: a\r\nx-run: (\d)", head)[1] for head in asked]
    assert runs == [b"1", b"2", b"3"]


@pytest.mark.anyio
async def test_a_client_of_ones_own_sends_and_stays_open():
    seen = []
    with told(answer(200, MODELS)) as (url, _):
        with httpx.Client(event_hooks={"request": [seen.append]}) as own:
            with regard.connect(url, "known", http=own) as service:
                service.models()
            assert not own.is_closed
        async with httpx.AsyncClient(event_hooks={"response": [keep(seen)]}) as own:
            async with regard.AsyncService(url, http=own) as service:
                await service.models()
            assert not own.is_closed
        with pytest.raises(regard.BadInput, match=r"http: must be an httpx.AsyncClient, given Client"):
            regard.AsyncService(url, http=httpx.Client())
    assert len(seen) == 3
    assert seen[0].headers["Authorization"] == "Bearer known"


def keep(seen):
    async def hook(response):
        seen.append(response)

    return hook


def test_a_proxy_is_asked_in_place_of_the_service():
    with told(answer(200, MODELS)) as (url, asked):
        regard.connect("http://regard.example", proxy=url)
    assert asked[0].startswith(b"GET http://regard.example/v1/models ")
    with pytest.raises(regard.BadInput, match="proxy: must be such as httpx can use"):
        regard.Service("http://regard.example", proxy="ftp://127.0.0.1")


TOKEN = b'event: token\ndata: {"index": 0, "token": 5, "text": "2"}\n\n'
OPEN = answer(200, TOKEN, "text/event-stream").replace(b"content-length: %d\r\n" % len(TOKEN), b"")
"""A stream that goes on, as far as it says."""


@pytest.fixture
def holding():
    """A server that leaves every connection open after a token, and answers those that are no streams late."""
    listener, kept = socket.create_server(("127.0.0.1", 0)), []
    thread = threading.Thread(target=_hold, args=(listener, kept), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    for opened in (listener, *kept):
        opened.close()


def _hold(listener, kept):
    with contextlib.suppress(OSError):
        while True:
            one, _ = listener.accept()
            kept.append(one)
            if read(one).startswith(b"POST"):
                one.sendall(OPEN)
            else:
                threading.Timer(1, one.sendall, [answer(200, MODELS)]).start()


@pytest.mark.anyio
async def test_streams_that_hold_every_connection_are_named(holding, monkeypatch):
    monkeypatch.setattr(transport, "MOST_CONNECTIONS", 2)
    text = described(**WRITES)
    with regard.Service(holding, timeout=0.3) as service:
        model = regard.Model(service._transport, text)
        streams = [model.stream("x") for _ in range(3)]
        assert [next(one).text for one in streams[:2]] == ["2", "2"]
        for ask in (service.models, lambda: next(streams[2])):
            with pytest.raises(regard.TimedOut, match="too many streams are open: at most 2 at once"):
                ask()
        streams[0].close()
        assert next(model.stream("x")).text == "2"
        streams[1].close()
    async with regard.AsyncService(holding, timeout=0.3) as service:
        twin = regard.AsyncModel(service._transport, text)
        streams = [twin.stream("x") for _ in range(2)]
        assert [(await anext(one)).text for one in streams] == ["2", "2"]
        with pytest.raises(regard.TimedOut, match="too many streams are open"):
            await service.models()
        for stream in streams:
            await stream.close()


def test_a_request_that_waits_for_other_requests_is_not_given_up(holding, monkeypatch):
    monkeypatch.setattr(transport, "MOST_CONNECTIONS", 1)
    with regard.Service(holding, timeout=1.5) as service, ThreadPoolExecutor(3) as several:
        assert list(several.map(lambda _: service.models(), range(3))) == [[]] * 3


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b"])
def test_lines_of_a_stream_end_at_line_feeds_alone(separator):
    splitter = transport.Splitter()
    data = json.dumps({"text": separator}, ensure_ascii=False)
    assert splitter.take(f"event: token\r\ndata: {data[:3]}") == ["event: token"]
    assert splitter.take(f"{data[3:]}\n\nev") == [f"data: {data}", ""]


FORK = """
import os, sys, regard
service = regard.connect(sys.argv[1])
before = service._transport.http
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
    assert service._transport.http is before
else:
    assert service._transport.http is not before
    assert service._transport.http is service._transport.http
service.models()
"""


def test_a_forked_process_has_connections_of_its_own(address):
    subprocess.run([sys.executable, "-c", FORK, address], check=True, timeout=60)


def test_a_refusal_that_asks_for_no_pause_is_not_sent_again_without_end():
    with told(problem(503, retry_after="0")) as (url, asked):
        with pytest.raises(regard.NotReady):
            regard.connect(url, patience=1)
        assert 2 <= len(asked) <= 8


@pytest.mark.parametrize(
    ("name", "value"),
    [("ALL_PROXY", "socks://127.0.0.1:1"), ("SSL_CERT_FILE", "/nowhere"), ("ALL_PROXY", "socks5://a:1")],
)
def test_what_httpx_cannot_use_of_the_environment_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(regard.BadInput, match="environment: its proxies"):
        regard.Service("https://regard.example")


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with told(answer(200, MODELS)) as (url, asked):
        regard.connect(url)
        assert len(asked) == 1


@pytest.mark.parametrize("options", [{"temperature": float("nan")}, {"top_k": {1}}, {"source_language": "\ud800"}])
def test_options_that_json_cannot_hold_are_refused(dates, options):
    with pytest.raises(regard.BadInput, match="options: must be what JSON can hold"):
        dates.generate("3/23/21", **options)


def test_nothing_answers_there():
    with pytest.raises(regard.NoService, match=r"nothing answers there. Start a service \(`regard serve`\)"):
        regard.connect("http://127.0.0.1:1")


FOREIGN = {
    "a page that is not there": (answer(404, b"<html>nginx</html>", "text/html"), "no regard service"),
    "a page": (answer(200, b"<html>welcome</html>", "text/html; charset=utf-8"), "no regard service"),
    "a page that refuses": (answer(403, b"<html>forbidden</html>", "text/html"), "no regard service"),
    "a redirect": (answer(301, b"", "text/plain", location="https://127.0.0.1:1/"), "sends on to another address"),
    "a redirect with a page": (answer(307, b"<html>", "text/html", location="/login"), "sends on to another address"),
}


@pytest.mark.parametrize(("answered", "said"), FOREIGN.values(), ids=FOREIGN)
@pytest.mark.anyio
async def test_something_else_answers_there(answered, said):
    with told(answered) as (url, asked):
        with pytest.raises(regard.NoService, match=said):
            regard.connect(url)
        with pytest.raises(regard.NoService, match=said):
            list(regard.Model(regard.Service(url)._transport, described(**WRITES)).stream("x"))
        async with regard.AsyncService(url) as service:
            with pytest.raises(regard.NoService, match=said):
                await service.models()
            twin = regard.AsyncModel(service._transport, described(**WRITES))
            with pytest.raises(regard.NoService, match=said):
                await anext(twin.stream("x"))
    assert len(asked) == 4, "none was sent again"


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_page_of_a_proxy_is_a_refusal_of_the_service_behind_it(status):
    with told(answer(status, b"<html>busy</html>", "text/html")) as (url, _), pytest.raises(regard.Refused) as caught:
        regard.connect(url, patience=0)
    assert caught.value.status == status


@pytest.mark.anyio
async def test_tls_that_fails_is_named(address):
    said = r"TLS failed. Use http:// .* give connect\(..., verify=...\)"
    url = address.replace("http://", "https://")
    with pytest.raises(regard.NoService, match=said):
        regard.connect(url)
    async with regard.AsyncService(url) as service:
        with pytest.raises(regard.NoService, match=said):
            await service.models()


def test_an_error_of_tls_that_the_caller_is_handling_is_not_ours():
    try:
        raise ssl.SSLError("of the caller")
    except ssl.SSLError:
        with pytest.raises(regard.NoService, match="nothing answers there"):
            regard.connect("http://127.0.0.1:1")


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_certificates_are_verified_by_the_file_that_is_given(tmp_path):
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "certificate.pem")
    about = ("-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run([*made, *about], cwd=tmp_path, check=True, capture_output=True)
    certificate = tmp_path / "certificate.pem"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, tmp_path / "key.pem")
    with told(answer(200, MODELS), tls=context) as (url, _):
        with pytest.raises(regard.NoService, match="TLS failed"):
            regard.connect(url)
        assert regard.connect(url, verify=str(certificate)).url == url
        assert regard.connect(url, verify=False).url == url
    for wrong in (tmp_path / "none.pem", tmp_path / "key.pem"):
        with pytest.raises(regard.BadInput, match="verify: must be True, False or the path"):
            regard.Service("https://127.0.0.1:1", verify=str(wrong))


def test_no_answer_in_time(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(regard.TimedOut, match=r"timeout=\.\.\."):
        regard.connect(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2)


@pytest.mark.parametrize("content", [b'{"models": [{"name": "later"}]}', b'{"data": []}', b"[]", b"not json"])
def test_a_service_that_is_older_or_newer_is_named(content):
    version = answer(200, b'{"name": "regard", "version": "9.9"}')
    with told(answer(200, content), version) as (url, _), pytest.raises(regard.Incompatible) as caught:
        regard.connect(url)
    assert f"the service is version 9.9, this client {transport.VERSION}" in str(caught.value)
    with told(answer(200, content), answer(500)) as (url, _), pytest.raises(regard.Incompatible, match="does not say"):
        regard.connect(url)


def test_a_key_is_sent_and_comes_from_the_environment_too(monkeypatch):
    with told(answer(200, MODELS)) as (url, asked):
        regard.connect(url, "given")
        monkeypatch.setenv("REGARD_KEY", "known")
        regard.connect(url)
        regard.connect(url, "given")
    keys = [re.search(rb"(?i)\nauthorization: bearer (.*)\r\n", head)[1] for head in asked]
    assert keys == [b"given", b"known", b"given"]


def test_an_address_comes_from_the_environment_too(monkeypatch):
    with told(answer(200, MODELS)) as (url, asked):
        monkeypatch.setenv("REGARD_URL", url)
        assert regard.connect().url == url
        with pytest.raises(regard.NoService):
            regard.connect("http://127.0.0.1:1")
    assert len(asked) == 1
    assert regard.AsyncService().url == url
    monkeypatch.delenv("REGARD_URL")
    assert regard.AsyncService().url == "http://127.0.0.1:8000"


def test_a_service_with_keys(light, tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text(line("right") + line("one", name="one"))
    with in_process(light, api_keys=keys, key_in_flight=1) as client:
        url = str(client.base_url)
        for key in (None, "wrong"):
            with pytest.raises(regard.KeyRefused, match="REGARD_KEY"):
                regard.connect(url, key)
        with regard.connect(url, "right") as service:
            first = service["digits"].classify(SEVEN)
            assert first.labels[0].label == "7"
            assert first.look("raw").maps
        with regard.connect(url, "one") as service:
            other = service["digits"].classify(SEVEN)
            stolen = type(other)(attention=None, json={}, asked=first.asked, labels=[])
            assert service["digits"].look(stolen, "raw").maps, "what another key sent is not there: it is sent again"


def test_more_at_once_than_a_key_may_is_busy_and_then_answered(light, tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text(line("k"))
    with in_process(light, api_keys=keys, key_in_flight=1) as client, ThreadPoolExecutor(6) as several:
        url = str(client.base_url)
        patient, hasty = regard.connect(url, "k", patience=60), regard.connect(url, "k", patience=0)

        def ask(service):
            return lambda _: regard.Model(service._transport, described).classify(SEVEN).labels[0].label

        described = patient["digits"].description
        assert list(several.map(ask(patient), range(12))) == ["7"] * 12
        with pytest.raises(regard.Busy, match="patience"):
            list(several.map(ask(hasty), range(60)))


def test_a_service_that_stops_is_not_ready(light):
    with served(light, drain_seconds=0.5) as client, regard.connect(str(client.base_url), patience=0) as service:

        def ask_until(deadline):
            while time.monotonic() < deadline:
                service["digits"].classify(SEVEN)

        client.process.terminate()
        with pytest.raises((regard.NotReady, regard.NoService)):
            ask_until(time.monotonic() + 10)
