"""The application as a whole, in this process."""

import subprocess
import sys
import threading
import time

import structlog
from fastapi.testclient import TestClient

from service.app import create_admin, create_app, create_probe
from service.repository.loading.load import load
from service.runtime.session import Session
from service.settings import Settings
from service.store import open_store
from tests.conftest import ROOT
from tests.samples.in_process import inside


def test_until_every_session_has_run_the_service_is_live_and_not_ready(light, monkeypatch):
    held = threading.Event()
    run = Session.warm_up
    monkeypatch.setattr(Session, "warm_up", lambda session, lengths: held.wait(20) and run(session, lengths))
    settings = Settings(artifacts=light)
    with TestClient(create_app(settings, load(settings), open_store(settings))) as client:
        try:
            assert client.get("/health/live").status_code == 200
            for answer in (
                client.get("/health/ready"),
                client.post("/v1/models/dates/generate", json={"inputs": "3/23/21"}),
            ):
                assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
            assert client.get("/v1/models/dates").json()["state"] == "warming up"
        finally:
            held.set()
        while client.get("/health/ready").status_code == 503:
            time.sleep(0.01)
        assert client.post("/v1/models/dates/generate", json={"inputs": "3/23/21"}).status_code == 200


def test_no_web_page_administers(light):
    """A browser asks no permission for a POST without a body, whosoever's page sends it."""
    settings = Settings(artifacts=light, admin_port=0)
    app = create_app(settings, load(settings), open_store(settings))
    pages = ({"Origin": "https://a.example"}, {"Origin": "null"}, {"Origin": "http://testserver"})
    with TestClient(app) as client, TestClient(create_admin(app, settings)) as admin:
        for headers in pages:
            for path in ("/v2/repository/models/digits/unload", "/admin/reload"):
                answer = admin.post(path, headers=headers)
                assert (answer.status_code, "no web page may call this port" in answer.text) == (403, True)
            assert client.get("/v1/models/digits", headers=headers).status_code == 200


def test_the_service_runs_without_torch_installed(light):
    """A subprocess in which importing torch, onnx or any package above the service fails, as if none were there."""
    program = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "onnx", "onnxscript", "safetensors", "model", "export", "sklearn"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from fastapi.testclient import TestClient
from service.app import create_admin, create_app, create_probe
from service.store import open_store
from service.repository.loading.load import load
from service.settings import Settings
settings = Settings(artifacts={str(light)!r})
with TestClient(create_app(settings, load(settings), open_store(settings))) as client:
    import time
    while client.get("/health/ready").status_code != 200:
        time.sleep(0.05)
    answer = client.post("/v1/models/dates/generate", json={{"inputs": "3/23/21"}})
    print(answer.json()["results"][0]["text"])
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "2021-03-23"


def test_no_path_is_redirected_to_a_host_that_the_client_says(light):
    settings = Settings(artifacts=light, probe_port=0, admin_port=0)
    app = create_app(settings, load(settings), open_store(settings))
    with TestClient(app) as client:
        for asking in (client, TestClient(create_admin(app, settings)), TestClient(create_probe(app, settings))):
            for path in ("/metrics/", "/health/live/", "/v1/models/", "/docs/", "/admin/reload/"):
                answer = asking.get(path, headers={"Host": "elsewhere.example"}, follow_redirects=False)
                assert (answer.status_code, "location" in answer.headers) == (404, False)


def test_the_admin_port_answers_whatever_host_it_is_called_by(light):
    """Prometheus calls by address, and a listed host is that of clients."""
    settings = Settings(artifacts=light, admin_port=0, allowed_hosts="models.example.com")
    app = create_app(settings, load(settings), open_store(settings))
    with TestClient(app) as client, TestClient(create_admin(app, settings)) as admin:
        for host in ("10.1.2.3:9090", "regard:9090"):
            assert admin.get("/metrics", headers={"Host": host}).status_code == 200
            assert client.get("/v1/models", headers={"Host": host}).status_code == 400
        assert admin.get("/metrics", headers={"Host": "a b"}).status_code == 400


def test_a_look_at_the_device_that_fails_is_not_the_last(light, monkeypatch):
    monkeypatch.setattr("service.app.WATCH_SECONDS", 0.01)
    settings, looks = Settings(artifacts=light), []
    app = create_app(settings, load(settings), open_store(settings))

    def revive(device):
        looks.append(1)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("service.runtime.device.Device.revive", revive)
    with TestClient(app), structlog.testing.capture_logs() as logs:
        until = time.monotonic() + 20
        while len(looks) < 3 and time.monotonic() < until:
            time.sleep(0.01)
    assert len(looks) >= 3
    assert "the device and the models cannot be checked" in {line["event"] for line in logs}


def test_a_device_that_hangs_while_a_failing_model_is_warmed_up_again_is_noticed(light, monkeypatch):
    monkeypatch.setattr("service.app.WATCH_SECONDS", 0.05)
    monkeypatch.setattr("service.state.HANG_SECONDS", 0.2)
    go_on = threading.Event()
    with inside(light, request_seconds=0.2) as (client, models):
        state = client.app.state
        monkeypatch.setattr(Session, "warm_up", lambda session, lengths: go_on.wait(20))
        models["dates"].lanes[0].failures = 3
        assert client.get("/health/ready").status_code == 200
        with structlog.testing.capture_logs() as logs:
            until = time.monotonic() + 10
            while not logs and time.monotonic() < until:
                time.sleep(0.05)
        for path in ("/health/live", "/health/ready", "/v2/health/ready"):
            answer = client.get(path)
            assert (answer.status_code, "does not come back from a run" in answer.text) == (503, True), path
        assert b"regard_ready 0.0" in state.metrics.text()
        assert state.regard.failure is None
        ended = []
        monkeypatch.setattr("service.app.ENDED_AFTER_SECONDS", 0.1)
        monkeypatch.setattr(state.regard, "fail", ended.append)
        while not ended and time.monotonic() < until:
            time.sleep(0.05)
        go_on.set()
    assert "device hangs" in {one["event"] for one in logs}
    assert ended[0] == "the device hangs"
