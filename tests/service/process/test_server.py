"""A service that is told to stop answers what is in flight, and stops in time."""

import json
import signal
import socket
import threading
import time

import httpx
import pytest

from tests.conftest import served, start
from tests.samples.http_requests import PNG, SEVEN


def test_the_service_stops_when_told_and_answers_what_is_in_flight(artifacts):
    with served(artifacts) as client:
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


def test_a_service_told_to_stop_is_not_ready_at_once_and_answers_until_it_has_drained(artifacts):
    with served(artifacts, drain_seconds=1.5) as client:
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


def idle_connections(port, count):
    return [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(count)]


def test_the_probe_port_serves_liveness_alone_until_the_service_ends(artifacts):
    with served(artifacts, probe_port=0, admin_port=0, drain_seconds=1.5) as client:
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


def test_probes_are_answered_while_all_connections_are_taken(artifacts):
    with served(artifacts, probe_port=0, max_connections=8) as client:
        client.get("/health/ready", headers={"Connection": "close"})
        taken = idle_connections(client.base_url.port, 8)
        try:
            for one in taken:
                one.sendall(b"GET /v1/models HTTP/1.1\r\n")  # a head that has begun gives way to nobody
            time.sleep(0.2)
            url = f"http://127.0.0.1:{ports(client)['probe_port']}"
            assert httpx.get(f"{client.base_url}/health/ready").status_code == 503, "a full service is not ready"
            for _ in range(100):
                assert httpx.get(f"{url}/health/live").status_code == 200
        finally:
            for one in taken:
                one.close()


def test_idle_connections_up_to_the_limit_refuse_nobody(artifacts):
    with served(artifacts) as client:
        taken = idle_connections(client.base_url.port, 1100)
        try:
            for _ in range(50):
                assert httpx.get(f"{client.base_url}/health/ready").status_code == 200
        finally:
            for one in taken:
                one.close()


def test_a_service_told_twice_to_stop_does_not_drain(artifacts):
    with served(artifacts, drain_seconds=600) as client:
        for _ in range(2):
            client.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
        assert client.process.wait(5) == 0


def test_a_service_told_to_stop_while_it_loads_stops_without_a_failure(artifacts):
    process = start(artifacts, port=0)
    assert json.loads(process.stdout.readline())["event"] == "settings"
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=10)
    assert process.returncode == 0
    assert "Traceback" not in said
