"""docker-compose.yml: its schema, and what every container of it is denied."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
API = ["api-cpu", "api-gpu"]


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


@pytest.mark.parametrize("name", API)
def test_the_api_is_published_on_this_machine_alone(name):
    assert SERVICES[name]["ports"] == ["127.0.0.1:8000:8000"]


@pytest.mark.parametrize("name", API)
def test_the_api_waits_for_the_export_and_cannot_write_what_it_wrote(name):
    assert SERVICES[name]["depends_on"]["export"]["condition"] == "service_completed_successfully"
    assert SERVICES[name]["volumes"] == ["artifacts:/artifacts:ro"]
    assert SERVICES["export"]["volumes"] == ["artifacts:/artifacts"]
    assert set(SERVICES[name]["profiles"]) <= set(SERVICES["export"]["profiles"])


@pytest.mark.parametrize("name", API)
def test_a_container_is_healthy_once_it_is_ready(name):
    assert "/health/ready" in SERVICES[name]["healthcheck"]["test"][-1]


@pytest.mark.parametrize("name", API)
def test_compose_waits_longer_for_a_container_to_stop_than_the_service_takes(name):
    grace = int(SERVICES[name]["environment"]["REGARD_SHUTDOWN_GRACE_SECONDS"])
    assert seconds(SERVICES[name]["stop_grace_period"]) >= grace + 10


def test_only_the_gpu_service_reserves_a_gpu_and_demands_it():
    assert "reservations" not in SERVICES["api-cpu"]["deploy"]["resources"]
    (device,) = SERVICES["api-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
    assert SERVICES["api-gpu"]["environment"]["REGARD_DEVICE"] == "cuda"


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_built_from_a_target_of_the_dockerfile(name):
    target = SERVICES[name]["build"]["target"]
    assert target == name.removeprefix("api-")
    assert f" AS {target}\n" in (ROOT / "Dockerfile").read_text()
