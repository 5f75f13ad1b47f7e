"""docker-compose.yml as it runs: one service, and two replicas behind the proxy with a store and Prometheus."""

import json
import shutil
import time

import httpx
import pytest

from tests.conftest import ROOT
from tests.containers import asking, compose, podman
from tests.containers.compose import Compose
from tests.containers.podman import inspect, run
from tests.samples import api_keys

pytestmark = pytest.mark.skipif(not podman.found("podman-compose"), reason="podman-compose: not installed")
MANY = {"PROXY_CONNECTIONS": "1000", "PROXY_REQUESTS": "100000"}
"""All requests come from one address here."""


@pytest.fixture(scope="module")
def prepared():
    compose.prepare()


@pytest.fixture(scope="module")
def replicas(prepared):
    with Compose("proxy", "watch", **MANY) as running:
        for replica in ("api-one", "api-two"):
            running.wait_ready(replica)
            running.wait_reached(replica)
        yield running


def test_the_profile_cpu_serves_the_models_of_the_repository(prepared):
    with Compose("cpu") as running:
        running.wait_ready("api-cpu")
        assert asking.predict(running.port["api-cpu"]).status_code == 200
        refused = httpx.get(f"http://127.0.0.1:{running.port['api-cpu']}/metrics").status_code
        assert refused == 404, "metrics are on the admin port, which is not published"


def test_keys_settings_and_models_of_ones_own_come_from_files_beside_compose(prepared, tmp_path):
    tmp_path.chmod(0o755)
    shutil.copytree(ROOT / "model/artifacts/digits", tmp_path / "models/digits")
    (tmp_path / "keys.txt").write_text(api_keys.line("of alice"))
    (tmp_path / "mine.env").write_text("REGARD_MAX_IMAGES=1\n")
    given = {"ARTIFACTS": tmp_path / "models", "KEYS": tmp_path / "keys.txt", "SETTINGS": tmp_path / "mine.env"}
    files = ("deploy/models.yaml", "deploy/keys.yaml")
    with Compose("cpu", files=files, **{name: str(path) for name, path in given.items()}) as running:
        running.wait_ready("api-cpu")
        port = running.port["api-cpu"]
        assert asking.predict(port).status_code == 401
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=api_keys.bearer("of alice")) as alice:
            assert [one["name"] for one in alice.get("/v1/models").json()["models"]] == ["digits"]
        said = run("podman", "logs", running.container("api-cpu"))
        (settings,) = [json.loads(line) for line in said.splitlines() if '"event":"settings"' in line]
        assert settings["max_images"] == 1


def test_the_attention_of_every_answer_is_found_whichever_replica_is_asked(replicas):
    assert asking.ids(replicas.port["proxy"], 100) == {200: 100}


def test_both_replicas_answer(replicas):
    asking.predictions(replicas.port["proxy"], 20)
    logs = [run("podman", "logs", replicas.container(one)) for one in ("api-one", "api-two")]
    assert all('"event":"request"' in log for log in logs)


def test_prometheus_sees_both_replicas_on_the_port_that_clients_do_not_have(replicas):
    last = time.monotonic() + 90
    while len(found := replicas.seen("regard_ready == 1")) < 2 and time.monotonic() < last:
        time.sleep(2)
    assert len(found) == 2
    targets = httpx.get(f"http://127.0.0.1:{replicas.port['prometheus']}/api/v1/targets").json()["data"][
        "activeTargets"
    ]
    assert {httpx.URL(target["scrapeUrl"]).port for target in targets} == {9090}
    assert httpx.get(f"http://127.0.0.1:{replicas.port['proxy']}/metrics").status_code == 404


def test_every_container_is_hardened(replicas):
    for service in ("api-one", "proxy", "store", "prometheus"):
        found = inspect("container", replicas.container(service))
        assert found["HostConfig"]["ReadonlyRootfs"] is True
        assert not found["EffectiveCaps"]


def test_predictions_go_on_without_the_store_and_ids_are_found_once_it_is_back(replicas):
    port = replicas.port["proxy"]
    run("podman", "kill", replicas.container("store"))
    try:
        assert asking.predictions(port, 50) == {200: 50}
        assert set(asking.ids(port, 5)) == {503}
    finally:
        run("podman", "start", replicas.container("store"))
    last = time.monotonic() + 60
    while asking.ids(port, 3) != {200: 3} and time.monotonic() < last:
        time.sleep(1)
    assert asking.ids(port, 20) == {200: 20}
