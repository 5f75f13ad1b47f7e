"""docker-compose.yml as it runs: one service, and two replicas behind the proxy with a store and Prometheus."""

import shutil
import time

import httpx
import pytest

from tests.containers import asking, compose
from tests.containers.compose import Compose
from tests.containers.podman import inspect, run

pytestmark = pytest.mark.skipif(not shutil.which("podman-compose"), reason="podman-compose: not installed")
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
    assert all(labels["instance"].endswith(":9090") for labels, _ in found)
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
