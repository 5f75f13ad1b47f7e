"""docker-compose.yml: its schema, and what every container of it is denied."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from service import VERSION
from service.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
API = ["api-cpu", "api-gpu"]
REPLICAS = ["api-one", "api-two"]
"""Nobody has looked it up yet: once somebody has, it is to be named here no more."""
BUILT = [name for name in SERVICES if "build" in SERVICES[name]]


def seconds(text: str) -> int:
    assert text.endswith("s"), text
    return int(text.removesuffix("s"))


def test_the_compose_file_satisfies_the_compose_schema():
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        "docker-compose.yml",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_read_only_without_capabilities_and_bounded(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["init"] is True
    assert [mount.split(":")[0] for mount in service["tmpfs"]] == ["/tmp"]
    assert set(service["deploy"]["resources"]["limits"]) == {"memory", "pids"}


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_published_is_so_on_this_machine_alone(name):
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))
    assert bool(SERVICES[name].get("ports")) == (name not in {"export", "store", *REPLICAS})


@pytest.mark.parametrize("name", [name for name in SERVICES if name not in BUILT])
def test_an_image_of_others_is_named_by_its_digest(name):
    assert re.fullmatch(r"[a-z/-]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}", SERVICES[name]["image"])


def test_the_proxy_is_what_its_configuration_names():
    text = (ROOT / "deploy/haproxy.cfg").read_text()
    proxy = SERVICES["proxy"]
    assert set(re.findall(r"presetenv PROXY_(?:FIRST|SECOND) +(\S+):8000", text)) == set(REPLICAS)
    assert {port.rsplit(":", 1)[1] for port in proxy["ports"]} == set(
        re.findall(r"presetenv PROXY_LISTEN\S* +:(\d+)", text)
    )
    assert "./deploy/haproxy.cfg:/usr/local/etc/haproxy/haproxy.cfg:ro" in proxy["volumes"]
    assert seconds(proxy["stop_grace_period"]) > int(re.search(r"hard-stop-after (\d+)s", text)[1])
    assert set(proxy["environment"]) <= set(re.findall(r"PROXY_[A-Z_]+", text))


@pytest.mark.parametrize("name", API + REPLICAS)
def test_the_api_starts_without_an_export_and_cannot_write_its_models(name):
    assert "export" not in SERVICES[name].get("depends_on", [])
    assert SERVICES["export"]["profiles"] == ["export"]
    assert "volumes" not in SERVICES[name], "the image holds its models"


def test_a_folder_of_models_is_mounted_read_only_into_every_service_that_serves():
    added = yaml.safe_load((ROOT / "deploy/models.yaml").read_text())["services"]
    assert set(added) == {*API, *REPLICAS}
    for service in added.values():
        assert set(service) == {"volumes"}
        (mounted,) = service["volumes"]
        assert re.fullmatch(r"\$\{ARTIFACTS:\?[a-z ]+\}:/artifacts:ro,z", mounted)


def test_a_file_of_keys_is_mounted_where_every_service_that_serves_reads_it():
    added = yaml.safe_load((ROOT / "deploy/keys.yaml").read_text())["services"]
    assert set(added) == {*API, *REPLICAS}
    for service in added.values():
        (mounted,) = service["volumes"]
        (place,) = re.fullmatch(r"\$\{KEYS:\?[a-z ]+\}:(.+):ro,z", mounted).groups()
        assert service == {"environment": {"REGARD_API_KEYS": place}, "volumes": [mounted]}


@pytest.mark.parametrize("name", API + REPLICAS)
def test_settings_may_come_from_a_file_beside_the_compose_file(name):
    assert SERVICES[name]["env_file"] == [{"path": "${SETTINGS:-regard.env}", "required": False}]


def test_replicas_share_a_store_that_keeps_nothing_and_is_not_published():
    for name in REPLICAS:
        environment = SERVICES[name]["environment"]
        assert environment["REGARD_REDIS_URL"] == "redis://store:6379"
        assert int(environment["REGARD_KEEP_BYTES"]) < 0.75 * (256 << 20), "the store's --maxmemory"
        assert "store" in SERVICES[name]["depends_on"]
    store = SERVICES["store"]
    assert set(store["profiles"]) == {profile for name in REPLICAS for profile in SERVICES[name]["profiles"]}
    assert store["command"][0] == "valkey-server"
    words = dict(zip(store["command"][1::2], store["command"][2::2], strict=True))
    assert words["--save"] == ""
    assert words["--appendonly"] == "no"
    assert words["--protected-mode"] == "no", "it would let nobody in but its own container"
    assert not [word for word in store["command"] if not isinstance(word, str)]


@pytest.mark.parametrize("name", API + REPLICAS)
def test_prometheus_asks_the_admin_port_which_is_not_published(name):
    admin = SERVICES[name]["environment"]["REGARD_ADMIN_PORT"]
    (job,) = yaml.safe_load((ROOT / "deploy/prometheus.yaml").read_text())["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    assert found["port"] == int(admin)
    assert name in found["names"]
    assert not [port for port in SERVICES[name]["ports"] if port.endswith(f":{admin}")]


@pytest.mark.parametrize("name", BUILT)
def test_an_image_that_is_built_is_told_its_version(name):
    assert SERVICES[name]["build"]["args"] == {"VERSION": VERSION, "VCS_REF": "${VCS_REF:-unknown}"}
    assert re.search(rf":{re.escape(VERSION)}\b", SERVICES[name]["image"])


@pytest.mark.parametrize("name", API + REPLICAS)
def test_a_container_is_healthy_once_it_is_ready(name):
    assert "/health/ready" in SERVICES[name]["healthcheck"]["test"][-1]


@pytest.mark.parametrize("name", API + REPLICAS)
def test_compose_waits_longer_for_a_container_to_stop_than_the_service_takes(name):
    environment = SERVICES[name]["environment"]
    drain = int(environment.get("REGARD_DRAIN_SECONDS", Settings().drain_seconds))
    grace = int(environment["REGARD_SHUTDOWN_GRACE_SECONDS"])
    assert seconds(SERVICES[name]["stop_grace_period"]) >= drain + grace + 10


def test_only_the_gpu_service_reserves_a_gpu_and_demands_it():
    assert "reservations" not in SERVICES["api-cpu"]["deploy"]["resources"]
    (device,) = SERVICES["api-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
    assert SERVICES["api-gpu"]["environment"]["REGARD_DEVICE"] == "cuda"


@pytest.mark.parametrize("name", BUILT)
def test_a_container_that_is_built_is_so_from_a_target_of_the_dockerfile(name):
    target = SERVICES[name]["build"]["target"]
    assert target == ("cpu" if name in REPLICAS else name.removeprefix("api-"))
    assert f" AS {target}\n" in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("name", sorted(set(SERVICES) - set(BUILT)))
def test_a_container_of_others_is_of_a_named_version_and_mounts_only_what_is_here(name):
    assert re.search(r":v?\d+", SERVICES[name]["image"])
    for mount in SERVICES[name].get("volumes", []):
        source, *_, last = mount.split(":")
        if source.startswith("./"):
            assert last == "ro"
            assert source == "./certificates" or (ROOT / source).is_file()
        else:
            assert source in COMPOSE["volumes"]
