"""A service that is told to stop answers what is in flight, and stops in time."""

import asyncio
import contextlib
import fcntl
import json
import signal
import socket
import threading
import time
from types import SimpleNamespace

import httpx
import pytest
import uvicorn

from service.errors import Conflict, Unacceptable
from service.process.server import Server
from tests.conftest import served, start
from tests.samples.http_requests import PNG, SEVEN
from tests.samples.ports import free_port


def test_the_service_stops_when_told_and_answers_what_is_in_flight(light):
    with served(light) as client:
        answers = []
        texts = ["the twenty-third of March 2021"] * 32
        request = threading.Thread(
            target=lambda: answers.append(
                client.post("/v1/models/dates/generate", json={"inputs": texts, "num_beams": 8})
            )
        )
        request.start()
        time.sleep(0.03)
        client.process.send_signal(signal.SIGTERM)
        request.join(30)
        client.process.wait(30)
    assert [answer.status_code for answer in answers] == [200]
    assert client.process.returncode == 0


def classify(client):
    return client.post("/v1/models/digits/classify", content=SEVEN, headers=PNG)


def test_a_service_told_to_stop_is_not_ready_at_once_and_answers_until_it_has_drained(light):
    with served(light, drain_seconds=1.5) as client:
        assert "connection" not in classify(client).headers
        client.process.send_signal(signal.SIGTERM)
        while client.get("/health/ready").status_code == 200:
            time.sleep(0.01)
        assert client.get("/health/ready").headers["Retry-After"] == "1"
        answer = classify(client)
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert client.get("/health/live").status_code == 200
        assert client.process.wait(10) == 0
        with pytest.raises(httpx.ConnectError):
            classify(client)


def ports(client):
    """Return the ports that the service says it listens on."""
    return next(line for line in map(json.loads, client.lines()) if line["event"] == "listening")


@contextlib.contextmanager
def idle_connections(port, count):
    with contextlib.ExitStack() as stack:
        opened = (socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(count))
        yield [stack.enter_context(one) for one in opened]


def test_the_probe_port_serves_liveness_alone_until_the_service_ends(light):
    with served(light, probe_port=0, admin_port=0, drain_seconds=1.5) as client:
        url = f"http://127.0.0.1:{ports(client)['probe_port']}"
        assert httpx.get(f"{url}/health/live").json() == {"live": True}
        head = httpx.head(f"{url}/health/live")
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "13")
        for path in ("/health/ready", "/metrics", "/admin/reload", "/v1/models", "/", "/docs", "/openapi.json"):
            assert httpx.get(url + path).status_code == 404
        assert httpx.post(f"{url}/health/live").status_code == 405
        client.process.send_signal(signal.SIGTERM)
        while client.get("/health/ready").status_code == 200:
            time.sleep(0.01)
        assert httpx.get(f"{url}/health/live").status_code == 200
        assert client.process.wait(10) == 0


def unfinished_request(port, path):
    """Return a connection with a request whose body does not come."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    connection.sendall(head.encode())
    return connection


def test_all_ports_share_one_time_of_grace_and_probes_are_answered_in_it(light):
    with served(light, admin_port=0, probe_port=0, shutdown_grace_seconds=5) as client:
        others = ports(client)
        with (
            unfinished_request(client.base_url.port, "/v1/models/dates/generate"),
            unfinished_request(others["admin_port"], "/v2/repository/models/dates/unload"),
        ):
            time.sleep(0.2)
            client.process.send_signal(signal.SIGTERM)
            told = time.monotonic()
            time.sleep(1.5)
            assert httpx.get(f"http://127.0.0.1:{others['probe_port']}/health/live").status_code == 200
            assert client.process.wait(20) == 0
            assert 5 <= time.monotonic() - told < 9.5


def test_probes_are_answered_while_all_connections_are_taken(light):
    with served(light, probe_port=0, max_connections=8) as client:
        client.get("/health/ready", headers={"Connection": "close"})
        with idle_connections(client.base_url.port, 8) as taken:
            for listener in taken:
                listener.sendall(b"GET /v1/models HTTP/1.1\r\n")  # a head that has begun gives way to nobody
            time.sleep(0.2)
            url = f"http://127.0.0.1:{ports(client)['probe_port']}"
            assert httpx.get(f"{client.base_url}/health/ready").status_code == 503, "a full service is not ready"
            for _ in range(100):
                assert httpx.get(f"{url}/health/live").status_code == 200


def test_idle_connections_up_to_the_limit_refuse_nobody(light):
    with served(light) as client, idle_connections(client.base_url.port, 1100):
        for _ in range(50):
            assert httpx.get(f"{client.base_url}/health/ready").status_code == 200


def test_a_service_told_twice_to_stop_does_not_drain_and_reports_no_failure(light):
    def ask():
        with contextlib.suppress(httpx.TransportError):
            client.post(
                "/v1/models/digits/attention?method=integrated&steps=256&target=0,1,2,3", content=SEVEN, headers=PNG
            )

    with served(light, drain_seconds=600) as client:
        asking = threading.Thread(target=ask)
        asking.start()
        for _ in range(2):
            time.sleep(0.3)
            client.process.send_signal(signal.SIGTERM)
        assert client.process.wait(5) == 0
        asking.join(5)
        lines = [json.loads(line) for line in client.lines()]
    assert [one for one in lines if one["level"] == "error"] == []
    assert "stopped at once" in {one["event"] for one in lines}


def test_a_service_told_to_stop_while_it_loads_stops_without_a_failure(light):
    process = start(light, port=0)
    assert json.loads(process.stdout.readline())["event"] == "settings"
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    dropped = "Exception ignored in"  # so says Python of what a handler raises in a callback of a fork: early_stop.py
    assert "Traceback" not in said or dropped in said


F_SETPIPE_SZ = 1031


@contextlib.contextmanager
def with_a_small_pipe(artifacts, **settings):
    """Start a service that logs to a pipe of some ten lines; gives its process and a client once it is ready."""
    port = free_port()
    process = start(artifacts, port=port, **settings)
    try:
        fcntl.fcntl(process.stdout, F_SETPIPE_SZ, 4096)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            until_ready(client)
            yield process, client
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_log_that_nobody_reads_stops_neither_answers_nor_health_and_loses_no_line(light, workers):
    with with_a_small_pipe(light, workers=workers) as (process, client):
        for number in range(100):
            assert client.get("/v1/models", headers={"X-Request-Id": f"number-{number}"}).status_code == 200
        assert client.get("/health/live").status_code == 200
        said = []
        reading = threading.Thread(target=lambda: said.extend(map(json.loads, process.stdout)))
        reading.start()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not any(line.get("request") == "number-99" for line in said):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        reading.join(30)
    numbers = [line["request"] for line in said if line.get("request", "").startswith("number-")]
    assert numbers == [f"number-{number}" for number in range(100)]


def test_a_service_whose_log_nobody_reads_ends_when_told(light):
    with with_a_small_pipe(light) as (process, client):
        for _ in range(50):
            client.get("/v1/models")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def until_ready(client):
    for _ in range(600):
        try:
            if client.get("/health/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise TimeoutError("the service is not ready after 60 seconds")


class Models:
    """Stands in for the registry: each reload takes until it is let go on."""

    def __init__(self):
        self.begun = self.busy = 0
        self.go_on = asyncio.Event()
        self.error = None

    async def reload(self):
        if self.busy:
            raise Conflict("reload: one at a time, another is running")
        self.begun, self.busy = self.begun + 1, 1
        await self.go_on.wait()
        self.busy = 0
        if self.error:
            raise self.error


@pytest.mark.anyio
@pytest.mark.parametrize("error", [None, Unacceptable("artifacts: none"), OSError("no")])
async def test_signals_during_a_reload_lead_to_one_more_after_it(error):
    models, keys = Models(), SimpleNamespace(reload=lambda metrics: True)
    models.error = error
    app = SimpleNamespace(state=SimpleNamespace(keys=keys, metrics=None, regard=SimpleNamespace(models=models)))
    server = Server(uvicorn.Config(app), app, 0, worker=False)
    server._begin_reload()
    await asyncio.sleep(0)
    for _ in range(5):
        server._begin_reload()
        await asyncio.sleep(0)
    assert models.begun == 1
    models.go_on.set()
    await server._reload
    assert models.begun == 2
    server._begin_reload()
    await server._reload
    assert models.begun == 3


@pytest.mark.anyio
async def test_signals_during_a_reload_by_the_admin_port_lead_to_one_after_it():
    models, keys = Models(), SimpleNamespace(reload=lambda metrics: True)
    app = SimpleNamespace(state=SimpleNamespace(keys=keys, metrics=None, regard=SimpleNamespace(models=models)))
    server = Server(uvicorn.Config(app), app, 0, worker=False)
    other = asyncio.create_task(models.reload())
    await asyncio.sleep(0)
    for _ in range(5):
        server._begin_reload()
        await asyncio.sleep(0.03)
    assert models.begun == 1
    models.go_on.set()
    await asyncio.gather(other, server._reload)
    assert models.begun == 2


def test_why_a_worker_ends_before_it_listens_is_written_before_it_ends(monkeypatch):
    done = []
    app = SimpleNamespace(state=SimpleNamespace(regard=SimpleNamespace(failure="the device is gone")))
    monkeypatch.setattr("service.process.server.OUTPUT", SimpleNamespace(close=lambda seconds: done.append("written")))
    monkeypatch.setattr("os._exit", done.append)
    Server(uvicorn.Config(app), app, 0, worker=True).handle_exit(signal.SIGTERM, None)
    assert done == ["written", 6]
